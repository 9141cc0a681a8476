"""The reference projector: a bounded snapshot of another session, for use as background.

It reads the current surface and keeps what was said there: direct user and steering text, assistant text, and
checkpoints. Tools, reasoning, injected context, references to further sessions and unfinished streams stay out. The
snapshot is data that a model is shown, so its JSON holds no ``<`` that could close the frame around it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

import attrs

from dsh_compact import is_compact_checkpoint_source
from dsh_session import SessionError, Surface, lossless_json, message_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_session import SessionEvent, SessionHeader

MAX_REFERENCE_BYTES: Final = 65_536
"""How many bytes of UTF-8 the JSON of a snapshot takes at most, unless its projector is told otherwise."""


class ReferenceItem(TypedDict):
    """One message of a snapshot: its text blocks, joined with a newline."""

    role: Literal["user", "assistant"]
    text: str


class ReferenceData(TypedDict):
    """What a snapshot shows to a model, the oldest message first."""

    sessionId: str
    label: str
    cwd: str | None
    capturedThroughSeq: int | None
    conversation: list[ReferenceItem]


class ReferenceStats(TypedDict):
    """What became of a session on its way into a snapshot; bytes are those of its texts in UTF-8."""

    compacted: bool
    originalMessages: int
    retainedMessages: int
    omittedMessages: int
    omittedBytes: int
    truncated: bool


@attrs.frozen
class SessionReference:
    """A bounded snapshot of a session.

    Attributes:
        data: what a model is shown, by way of `tag_safe_json`. ``capturedThroughSeq`` is the newest event that the
            snapshot knows of, or None when there was none.
        stats: whether the session was compacted, and how much of it was left out.
    """

    data: ReferenceData
    stats: ReferenceStats


class ReferenceBudgetError(SessionError, ValueError):
    """A snapshot is too large even with everything dropped and emptied that may be.

    Attributes:
        session_id: the session that it is of.
        needed_bytes: the least that its JSON takes.
        max_bytes: what it was allowed.
    """

    def __init__(self, session_id: str, needed_bytes: int, max_bytes: int) -> None:
        self.session_id = session_id
        self.needed_bytes = needed_bytes
        self.max_bytes = max_bytes
        super().__init__(
            f"the snapshot of session {session_id!r} takes {needed_bytes} bytes at the least; {max_bytes} are allowed"
        )


class ReferenceProjector:
    """Follow another session's surface, and give a bounded snapshot of it.

    It takes notice of every event, as a snapshot says through which one it was captured.

    Memory: the texts of the current nodes that a snapshot may show.

    Args:
        header: of the session that is referred to.
        label: what the reader calls the session; its id when None.
        max_bytes: how many bytes of UTF-8 the `tag_safe_json` of a snapshot's data may take.
    """

    version = 1
    topics: frozenset[str] | None = None

    def __init__(self, header: SessionHeader, label: str | None = None, max_bytes: int = MAX_REFERENCE_BYTES) -> None:
        self._header = header
        self._label = header.id if label is None else label
        self._max_bytes = max_bytes
        self._surface = Surface()
        self._passages: dict[int, _Passage] = {}

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event of the log.

        Raises:
            InvalidSurfaceError: the event does not fit the surface.

        Cost: O(1) for a log-only event, O(1 + nodes shadowed) for a tool's result, and O(size of the data) more for a
        message.
        """
        marker = event.surface_op
        if marker is None:
            self._surface.skip_to(event.seq + 1)
            return
        for seq in self._surface.apply_checked(event.seq, marker):
            self._passages.pop(seq, None)
        if event.type != "tool/result" and (passage := _passage_of(event)):
            self._passages[event.seq] = passage

    def view(self) -> SessionReference:
        """Return the snapshot, fresh at every call.

        When it is too large, the oldest messages that are no checkpoints are dropped, the newest message never. Then
        the longest text is shortened, again and again, to its head, its tail and a notice of the bytes left out.

        Raises:
            ReferenceBudgetError: it is too large even so.

        Cost: O(size of the surface's texts).
        """
        passages = [attrs.evolve(self._passages[seq]) for seq in self._surface if seq in self._passages]
        data: ReferenceData = {
            "sessionId": self._header.id,
            "label": self._label,
            "cwd": self._header.cwd,
            "capturedThroughSeq": self._surface.next_seq - 1 if self._surface.next_seq else None,
            "conversation": [],
        }
        retained = _fit(passages, self._max_bytes - _size(data))
        data["conversation"] = [passage.item() for passage in retained]
        size = _size(data)
        if size > self._max_bytes:
            raise ReferenceBudgetError(self._header.id, size, self._max_bytes)
        omitted_bytes = sum(passage.omitted_bytes for passage in passages)
        stats: ReferenceStats = {
            "compacted": any(passage.is_checkpoint for passage in passages),
            "originalMessages": len(passages),
            "retainedMessages": len(retained),
            "omittedMessages": len(passages) - len(retained),
            "omittedBytes": omitted_bytes,
            "truncated": omitted_bytes > 0,
        }
        return SessionReference(data, stats)

    def state(self) -> Any:
        """Return the nodes, and the texts that they may show. Cost: O(surface)."""
        return {
            "next_seq": self._surface.next_seq,
            "generation": self._surface.generation,
            "nodes": list(self._surface),
            "passages": [
                [seq, passage.role, passage.text, passage.is_checkpoint] for seq, passage in self._passages.items()
            ],
        }

    def restore(self, state: Any) -> None:
        """Take on the nodes of a state. Cost: O(surface)."""
        self._surface = Surface.restore(state["nodes"], next_seq=state["next_seq"], generation=state["generation"])
        self._passages = {seq: _Passage(*parts) for seq, *parts in state["passages"]}


def tag_safe_json(value: Any) -> str:
    """Write a value as compact JSON with every ``<`` as an escape, so that no text in it can close a tag around it.

    Raises:
        NotJSONError: the value is not lossless JSON.
    """
    return _tag_safe(value).decode()


@attrs.define
class _Passage:
    """What one node says; shortened in place while a snapshot is made."""

    role: Literal["user", "assistant"]
    text: str
    is_checkpoint: bool
    omitted_bytes: int = 0

    def item(self) -> ReferenceItem:
        return {"role": self.role, "text": self.text}


def _passage_of(event: SessionEvent) -> _Passage | None:
    """Return what a message says to a reader elsewhere, or None when that is nothing."""
    message = message_of(event.type, event.data)
    is_answer = event.type == "assistant/message"
    is_checkpoint = not is_answer and is_compact_checkpoint_source(message["source"])
    if not (is_answer or is_checkpoint or message["source"]["kind"] == "user"):
        return None
    text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
    return _Passage("assistant" if is_answer else "user", text, is_checkpoint) if text else None


def _fit(passages: Sequence[_Passage], room: int) -> list[_Passage]:
    """Drop and shorten passages until their JSON fits, or until no more can go.

    Args:
        passages: the oldest first. Each keeps count of the bytes that it loses.
        room: how many bytes they may take, the commas between them included.

    Returns:
        The passages that are retained.
    """
    costs = [_size(passage.item()) + 1 for passage in passages]
    excess = sum(costs) - 1 - room
    retained = []
    for passage, cost in zip(passages, costs, strict=True):
        if excess > 0 and not passage.is_checkpoint and passage is not passages[-1]:
            passage.omitted_bytes = len(_utf8(passage.text))
            excess -= cost
        else:
            retained.append(passage)
    if excess > 0:
        _shorten_longest(retained, excess)
    return retained


def _shorten_longest(passages: Sequence[_Passage], excess: int) -> None:
    """Shorten the longest text, the first of them on a tie, until the excess is gone or every text is empty.

    How much to cut is told from raw bytes, and what fits from escaped ones, so one text may have its turn twice. It is
    always cut from what it was at first, so that the notice counts everything left out.
    """
    originals = [_utf8(passage.text) for passage in passages]
    longest_first = [(-len(original), index) for index, original in enumerate(originals)]
    heapify(longest_first)
    while excess > 0 and longest_first and longest_first[0][0]:
        length, index = -longest_first[0][0], longest_first[0][1]
        passage = passages[index]
        before = _size(passage.text)
        passage.text, passage.omitted_bytes = _shorten(originals[index], length - excess)
        excess -= before - _size(passage.text)
        heapreplace(longest_first, (-len(_utf8(passage.text)), index))


def _shorten(original: bytes, target: int) -> tuple[str, int]:
    """Cut a text down to its head and its tail, as much of them as fits, and a notice of what was left out.

    Args:
        original: valid UTF-8, longer than the target.
        target: how many bytes the result may take.

    Returns:
        The result and how many bytes were left out; an empty text where the notice alone is too long.

    Cost: O(size of the result), and a bisection.
    """

    def size(kept: int) -> int:
        omitted = _omitted(original, kept)
        return len(original) - len(omitted) + len(_notice(omitted).encode())

    kept = bisect_right(range(len(original)), target, key=size) - 1
    if kept < 0:
        return "", len(original)
    omitted = _omitted(original, kept)
    remains = original[: omitted.start] + original[omitted.stop :]
    return remains.decode() + _notice(omitted), len(omitted)


def _omitted(original: bytes, kept: int) -> range:
    """Return where to cut so that so many bytes are kept; fewer where that would split a character."""
    tail = kept // 2
    start, stop = kept - tail, len(original) - tail
    while _is_inside_character(original, start):
        start -= 1
    while _is_inside_character(original, stop):
        stop += 1
    return range(start, stop)


def _is_inside_character(utf8: bytes, index: int) -> bool:
    return index < len(utf8) and utf8[index] & 0b1100_0000 == _CONTINUATION


def _notice(omitted: range) -> str:
    return f"\n[… omitted {len(omitted)} UTF-8 bytes …]"


def _utf8(text: str) -> bytes:
    """Encode a text with U+FFFD for a lone surrogate, which would be as long."""
    return _SURROGATE.sub("\ufffd", text).encode()


def _tag_safe(value: Any) -> bytes:
    return lossless_json.encode(value).replace(b"<", rb"\u003c")


def _size(value: Any) -> int:
    return len(_tag_safe(value))


_CONTINUATION: Final = 0b1000_0000
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

"""The human's reader: everything that was said, in log order, whatever the model still sees of it.

One entry stands for every append-origin event, at its own position, and one for every landed checkpoint: a compaction
is told, and takes no line away. Whose an event is follows from its own marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dsh_compact import is_compact_checkpoint
from dsh_projections.projection import APPEND_TOPICS
from dsh_projections.transcript_entry import (
    CompactionEntry,
    ContextEntry,
    MessageEntry,
    ToolEntry,
    TranscriptCall,
    TranscriptEntry,
)
from dsh_session import (
    SURFACE_EVENT_TYPES,
    compact_types,
    is_append_surface_event,
    message_of,
    tool_calls_of,
    topics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_projections.transcript_entry import CallStatus
    from dsh_session import SessionEvent

SUMMARY_TYPES: Final = compact_types("summary")


class _SummaryBlock(msgspec.Struct):
    type: str
    text: str = ""


class _SummaryRecord(msgspec.Struct, rename="camel"):
    """What is shown of a summary's data, whose shape nobody has checked: its type is of the open vocabulary."""

    summary: list[_SummaryBlock]
    shadowed_seqs: list[int] | None = None
    shadowed_token_count: int | None = None


class _Summary(msgspec.Struct, frozen=True):
    summary: str
    replaced_count: int | None
    token_count: int | None


class _State(msgspec.Struct):
    entries: list[TranscriptEntry]
    asked: dict[str, int]
    unanswered: list[int]
    summaries: list[tuple[int, _Summary]]
    awaited: list[tuple[int, list[int]]]
    recalled: dict[str, tuple[str, str]]


_TOPICS: Final = (
    APPEND_TOPICS | topics("replace", ("user/message",)) | topics("log", SUMMARY_TYPES | {"turn/start", "turn/end"})
)


class HumanTranscript:
    """The transcript, entry by entry.

    An entry whose events did not change keeps its identity, so that a renderer can pass over it: a result changes the
    entry of the message that asked for it, and a summary that is read late changes its compaction's.

    A window into a log may be read as well: what its first events refer to and is not there is left open.
    """

    version = 2
    topics: frozenset[str] | None = _TOPICS

    def __init__(self) -> None:
        self._entries: list[TranscriptEntry] = []
        self._asked: dict[str, int] = {}  # by call id, the position of the newest entry that asked for it
        self._unanswered: set[int] = set()  # positions of entries with open calls
        self._summaries: dict[int, _Summary] = {}  # by seq
        self._awaited: dict[int, list[int]] = {}  # by cited seq, positions of compactions whose summary it may be
        self._recalled: dict[str, tuple[str, str]] = {}  # by call id, name and arguments of a call before a window

    @property
    def entries(self) -> Sequence[TranscriptEntry]:
        """The entries in log order."""
        return self._entries

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event. Cost: O(size of the event)."""
        if event.type in SURFACE_EVENT_TYPES:
            if is_append_surface_event(event):
                self._say(event)
            elif is_compact_checkpoint(event):
                self._mark_compaction(event)
        elif event.type in SUMMARY_TYPES:
            self._read_summary(event)
        elif event.type in ("turn/start", "turn/end"):
            self._interrupt_open_calls()

    def recall(self, event: SessionEvent) -> None:
        """Take in a record from before a window, which an entry of the window cites: a ``tool/call`` or a summary."""
        if event.type in SUMMARY_TYPES:
            self._read_summary(event)
            return
        match event.data:
            case {"callId": str() as call_id, "name": str() as name, "arguments": str() as arguments}:
                self._recalled[call_id] = (name, arguments)
            case _:
                pass

    def view(self) -> Sequence[TranscriptEntry]:
        """Return `entries`."""
        return self._entries

    def state(self) -> Any:
        """Return the entries and what is still open."""
        state = _State(
            self._entries,
            self._asked,
            sorted(self._unanswered),
            list(self._summaries.items()),
            list(self._awaited.items()),
            self._recalled,
        )
        return _listed(msgspec.to_builtins(state))

    def restore(self, state: Any) -> None:
        """Take on the entries of a state."""
        read = msgspec.convert(state, _State)
        self._entries = read.entries
        self._asked = read.asked
        self._unanswered = set(read.unanswered)
        self._summaries = dict(read.summaries)
        self._awaited = dict(read.awaited)
        self._recalled = read.recalled

    def _say(self, event: SessionEvent) -> None:
        data = event.data
        message = message_of(event.type, data)
        if event.type == "tool/result":
            self._answer(event, message)
            return
        blocks = message["content"]
        text, attachments = _joined(blocks, "text"), _attachments(blocks)
        if event.type == "assistant/message":
            calls = tuple(
                TranscriptCall(block["id"], block["name"], block["arguments"]) for block in tool_calls_of(message)
            )
            position = len(self._entries)
            self._asked |= dict.fromkeys((call.call_id for call in calls), position)
            if calls:
                self._unanswered.add(position)
            is_interrupted = data.get("interrupted") is True
            self._entries.append(
                MessageEntry(
                    event.seq,
                    event.time,
                    "assistant",
                    text,
                    _joined(blocks, "reasoning"),
                    calls,
                    attachments,
                    is_interrupted,
                )
            )
        elif message["source"]["kind"] == "user":
            self._entries.append(MessageEntry(event.seq, event.time, "user", text, attachments=attachments))
        else:
            source = message["source"]
            name = source["plugin"] if isinstance(source.get("plugin"), str) else source["kind"]
            self._entries.append(ContextEntry(event.seq, event.time, name, text, attachments))

    def _answer(self, event: SessionEvent, message: Any) -> None:
        (block,) = message["content"]
        call_id = block["toolCallId"]
        name, arguments = self._recalled.get(call_id, (None, None))
        position = self._asked.get(call_id)
        if position is not None:
            calls = self._message(position).calls
            asked = [call for call in calls if call.call_id == call_id][-1]
            name, arguments = asked.name, asked.arguments
            if asked.result_seq is None:
                status: CallStatus = "failed" if block["isError"] else "done"
                answered = tuple(
                    msgspec.structs.replace(call, status=status, result_seq=event.seq)
                    if call.call_id == call_id
                    else call
                    for call in calls
                )
                self._set_calls(position, answered)
        blocks = block["content"]
        self._entries.append(
            ToolEntry(
                event.seq,
                event.time,
                call_id,
                name,
                arguments,
                _joined(blocks, "text"),
                block["isError"],
                _attachments(blocks),
            )
        )

    def _interrupt_open_calls(self) -> None:
        for position in sorted(self._unanswered):
            calls = tuple(
                msgspec.structs.replace(call, status="interrupted") if call.status == "open" else call
                for call in self._message(position).calls
            )
            self._set_calls(position, calls)

    def _message(self, position: int) -> MessageEntry:
        """Return the entry of a message that asked for calls."""
        entry = self._entries[position]
        assert isinstance(entry, MessageEntry)  # noqa: S101 - only these positions are kept
        return entry

    def _set_calls(self, position: int, calls: tuple[TranscriptCall, ...]) -> None:
        self._entries[position] = msgspec.structs.replace(self._entries[position], calls=calls)
        if all(call.status != "open" for call in calls):
            self._unanswered.discard(position)

    def _mark_compaction(self, event: SessionEvent) -> None:
        position = len(self._entries)
        self._entries.append(CompactionEntry(event.seq, event.time))
        cited = set(event.source_event_seqs or ())
        newest = max(self._summaries.keys() & cited, default=None)
        if newest is not None:
            self._fill(position, newest)
        for seq in cited:
            if newest is None or seq > newest:
                self._awaited.setdefault(seq, []).append(position)

    def _read_summary(self, event: SessionEvent) -> None:
        try:
            record = msgspec.convert(event.data, _SummaryRecord)
        except msgspec.ValidationError:
            return
        summary = _Summary(
            "\n".join(block.text for block in record.summary if block.type == "text"),
            None if record.shadowed_seqs is None else len(record.shadowed_seqs),
            record.shadowed_token_count,
        )
        self._summaries[event.seq] = summary
        for position in self._awaited.pop(event.seq, ()):
            self._fill(position, event.seq)

    def _fill(self, position: int, summary_seq: int) -> None:
        """Give a compaction its summary, unless it has a newer one."""
        entry = self._entries[position]
        assert isinstance(entry, CompactionEntry)  # noqa: S101 - only these positions are kept
        if entry.summary_seq is None or entry.summary_seq < summary_seq:
            summary = self._summaries[summary_seq]
            self._entries[position] = CompactionEntry(
                entry.seq, entry.time, summary.summary, summary.replaced_count, summary.token_count, summary_seq
            )


def _listed(value: Any) -> Any:
    """Return a value with lists for its tuples, which JSON does not have."""
    match value:
        case list() | tuple():
            return [_listed(item) for item in value]
        case dict():
            return {key: _listed(item) for key, item in value.items()}
        case _:
            return value


def _joined(blocks: Any, kind: str) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == kind)


def _attachments(blocks: Any) -> tuple[Any, ...]:
    return tuple(block for block in blocks if block["type"] not in _READ_KINDS)


_READ_KINDS: Final = frozenset({"text", "reasoning", "tool-call"})

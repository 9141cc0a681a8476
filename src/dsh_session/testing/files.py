"""Hypothesis strategies for logs as they travel: on the wire, in JSONL files, and damaged on the way."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
import msgspec
from hypothesis import strategies as st

from dsh_session import lossless_json
from dsh_session.event import Replace, SessionEvent
from dsh_session.header import SessionHeader
from dsh_session.interchange.jsonl import write_jsonl
from dsh_session.testing.logs import logs as any_logs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import DrawFn, SearchStrategy

Logs: TypeAlias = "SearchStrategy[list[SessionEvent]]"

HEADER = SessionHeader(id="s1", created_at=17)
"""The header of every file that is given."""


@attrs.frozen
class Edit:
    """One thing that happened to the bytes of a file.

    Attributes:
        place: the first byte that it happened to, in the file as it then was.
        removed: what stood there.
        put: what stands there now.
    """

    place: int
    removed: bytes
    put: bytes


@attrs.frozen
class DamagedLog:
    """A JSONL file that is no longer what was written.

    Attributes:
        header: the header that was written.
        events: the events that were written.
        original: the file as it was written.
        edits: what happened to it, one thing after another.
        data: the file as it is now.
    """

    header: SessionHeader
    events: list[SessionEvent]
    original: bytes
    edits: tuple[Edit, ...]
    data: bytes

    @property
    def sound(self) -> bytes:
        """The whole lines before the first damage."""
        first = min(edit.place for edit in self.edits)
        return self.original[: self.original.rfind(b"\n", 0, first) + 1]


@st.composite
def wire_forms(  # noqa: D417 - Hypothesis passes draw
    draw: DrawFn, *, logs: Logs | None = None
) -> tuple[list[SessionEvent], list[dict[str, Any]]]:
    """Give a log, and the wire form of each of its events, in any spelling that `SessionEvent.from_wire` takes.

    Keys come in any order, since JSON objects have none, and the ends of a replacement are spelled in either way.

    Args:
        logs: what is written; `logs` when None.
    """
    events = draw(any_logs() if logs is None else logs)
    is_late, is_reversed = draw(st.booleans()), draw(st.booleans())
    return events, [_spelled(event, is_late=is_late, is_reversed=is_reversed) for event in events]


@st.composite
def jsonl_forms(  # noqa: D417 - Hypothesis passes draw
    draw: DrawFn, *, logs: Logs | None = None, compress: Literal["zstd"] | None = None
) -> tuple[SessionHeader, list[SessionEvent], bytes]:
    """Give a log with its header, and a JSONL file that holds it.

    The file is as `write_jsonl` writes it, chunks packed or not, or as another writer would: spaces between the tokens,
    everything beyond ASCII escaped, either spelling of the ends, no end of the last line.

    Args:
        logs: what is written; `logs` when None.
        compress: compress with Zstandard, for which the extra ``zstd`` is needed.
    """
    events, wires = draw(wire_forms(logs=logs))
    events = _of_file(events)
    form = draw(st.sampled_from(["packed", "plain"] if compress else ["packed", "plain", "foreign"]))
    if form == "foreign":
        lines = [json.dumps(wire).encode() for wire in [HEADER.to_wire(), *wires]]
        return HEADER, events, b"\n".join(lines)
    return HEADER, events, _written(events, pack=form == "packed", compress=compress)


@st.composite
def damaged_logs(  # noqa: D417 - Hypothesis passes draw
    draw: DrawFn, *, logs: Logs | None = None, compress: Literal["zstd"] | None = None
) -> DamagedLog:
    """Give a JSONL file that was damaged in one to three places, with what was damaged.

    Bytes are flipped, cut out, doubled or torn off; lines are joined and parted; runs of NUL stand where a file system
    crashed; and brackets, quotes, digits and escapes are put where they change what a line means.

    Args:
        logs: what is written; `logs` when None.
        compress: compress with Zstandard before the damage, for which the extra ``zstd`` is needed.
    """
    events = _of_file(draw(any_logs(max_moves=12) if logs is None else logs))
    original = data = _written(events, pack=draw(st.booleans()), compress=compress)
    edits = []
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        removed = data[place : place + draw(st.sampled_from([0, 1, 1, 2, 40, 400, len(data)]))]
        hard = st.sampled_from([b"", b"\n", b"{", b"}", b"}{", b'"', b",", b"\0" * 9, b"0", b"1", b"9", b"\\ud83d"])
        put = draw(hard | st.binary(max_size=3) | st.just(removed * 2))
        data = data[:place] + put + data[place + len(removed) :]
        edits.append(Edit(place, removed, put))
    return DamagedLog(HEADER, events, original, tuple(edits), data)


def _spelled(event: SessionEvent, *, is_late: bool, is_reversed: bool) -> dict[str, Any]:
    wire = event.to_wire()
    if is_late and isinstance(event.surface_op, Replace):
        wire["surfaceOp"] = {"op": "replace", "startSeq": event.surface_op.start, "endSeq": event.surface_op.end}
    return dict(reversed(wire.items())) if is_reversed else wire


def _of_file(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Give events as a file can hold them: of its session, and without the two halves of a character apart."""
    return [
        msgspec.structs.replace(
            event,
            session_id=HEADER.id,
            encoded_data=lossless_json.encode(lossless_json.parse(event.encoded_data)),
        )
        for event in events
    ]


def _written(events: Iterable[SessionEvent], *, pack: bool, compress: Literal["zstd"] | None) -> bytes:
    file = io.BytesIO()
    write_jsonl(file, HEADER, events, pack=pack, compress=compress)
    return file.getvalue()

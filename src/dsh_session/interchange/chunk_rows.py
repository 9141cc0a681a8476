"""Packed rows: one record that stands for a run of stream chunks.

A streamed answer is a storm of small ``assistant/chunk`` events that differ in little but their text. A row keeps what
they share once, and of each its text and its distance in time from the one before. Whatever has not exactly the shape
of a packable piece is an event of its own.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

from dsh_session import lossless_json
from dsh_session.errors import InvalidEventError
from dsh_session.event import SessionEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MIN_RUN = 3  # a shorter run is no shorter as a row
_SAFE_INT = 2**53 - 1  # what a reader whose numbers are doubles tells from its neighbours

_Number: TypeAlias = int | float
_SafeInt: TypeAlias = Annotated[int, msgspec.Meta(ge=-_SAFE_INT, le=_SAFE_INT)]
_SafeSeq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_SAFE_INT)]
_Texts: TypeAlias = Annotated[list[str], msgspec.Meta(min_length=1)]


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    """An object with exactly these keys, written in this order."""


class _TextDelta(_Wire, tag_field="type", tag="text-delta"):
    index: _Number
    text: str


class _ReasoningDelta(_TextDelta, tag="reasoning-delta"):
    pass


class _ToolCallDelta(_Wire, kw_only=True, tag_field="type", tag="tool-call-delta"):
    index: _Number
    id: str
    name: str | msgspec.UnsetType = msgspec.UNSET
    text: str = msgspec.field(name="argumentsDelta")


class _Piece(_Wire):
    """The data of a packable ``assistant/chunk``."""

    turn: _Number
    step: _Number
    chunk: _TextDelta | _ReasoningDelta | _ToolCallDelta


class _TextRun(_Wire):
    turn: _Number
    step: _Number
    index: _Number
    dt: list[_SafeInt]
    texts: _Texts


class _ToolCallRun(_Wire, kw_only=True):
    turn: _Number
    step: _Number
    index: _Number
    dt: list[_SafeInt]
    id: str
    name: str | msgspec.UnsetType = msgspec.UNSET
    texts: _Texts = msgspec.field(name="args")


class _Row(_Wire, tag_field="type"):
    seq0: _SafeSeq
    time0: _SafeInt


class _TextRow(_Row, tag="text-chunks"):
    data: _TextRun


class _ReasoningRow(_Row, tag="reasoning-chunks"):
    data: _TextRun


class _ToolCallRow(_Row, tag="tool-call-chunks"):
    data: _ToolCallRun


ChunkRow: TypeAlias = _TextRow | _ReasoningRow | _ToolCallRow
"""A packed row; `row_to_wire` gives its JSON shape."""

_ROW_TYPES = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})
_decode_piece = msgspec.json.Decoder(_Piece).decode
_encode = msgspec.json.Encoder().encode


def pack_chunk_runs(events: Iterable[SessionEvent]) -> list[dict[str, Any]]:
    """Write events as records, with one row for three or more consecutive stream chunks of one block.

    Chunks are of one block when their kind, turn, step, index, call id and name are equal in value and type.

    Args:
        events: in seq order.

    Returns:
        The JSON shapes of a log's lines. `decode_storage_record` gives the events back, equal in every value; the keys
        of a packed chunk's data then stand in the usual order.

    Cost: O(size of the events).
    """
    records = packed(events, is_order_kept=False)
    return [record.to_wire() if isinstance(record, SessionEvent) else row_to_wire(record) for record in records]


def decode_storage_record(obj: Any, session_id: str = "") -> list[SessionEvent]:
    """Read the JSON shape of one record: an event, or a packed row.

    A record that has a seq is an event, whatever its type.

    Args:
        obj: the record.
        session_id: the session that the events belong to.

    Returns:
        The one event, or the ``assistant/chunk`` events that the row stands for.

    Raises:
        InvalidEventError: the envelope is malformed, or the row is (``rule`` is ``"chunk-row"``). A row is read whole
            or not at all.
        NotJSONError: the data is not lossless JSON.

    Cost: O(size of the record).
    """
    if isinstance(obj, dict) and "seq" not in obj:
        kind = obj.get("type")
        if isinstance(kind, str) and kind in _ROW_TYPES:
            return _unpacked(_checked_row(obj, kind), session_id)
    return [SessionEvent.from_wire(obj, session_id)]


def packed(events: Iterable[SessionEvent], *, is_order_kept: bool = True) -> Iterator[SessionEvent | ChunkRow]:
    """Give events one by one, and a row in place of each run that can be packed.

    Args:
        events: in seq order.
        is_order_kept: leave a chunk alone whose data has its keys in another order than the usual one, so that every
            event comes back from its row with the same bytes.

    Cost: O(size of the events); it holds one run at a time.
    """
    run: list[SessionEvent] = []
    pieces: list[_Piece] = []
    run_block: tuple[object, ...] | None = None
    for event in events:
        piece = _piece_of(event)
        if piece is not None and is_order_kept and _encoded(piece) != event.encoded_data:
            piece = None
        block = None if piece is None else _block_of(piece)
        if run and not (block == run_block and _follows(run[-1], event)):
            yield from _closed(run, pieces)
            run, pieces = [], []
        if piece is None:
            yield event
        else:
            run.append(event)
            pieces.append(piece)
            run_block = block
    yield from _closed(run, pieces)


def row_to_wire(row: ChunkRow) -> dict[str, Any]:
    """Write a row in the JSON shape of a log line."""
    wire: dict[str, Any] = msgspec.to_builtins(row)
    return wire


def _piece_of(event: SessionEvent) -> _Piece | None:
    """Return the data of a chunk that may stand in a row."""
    if (
        event.type != "assistant/chunk"
        or event.surface_op is not None
        or event.source_event_seqs is not None
        or event.ignorable
        or event.seq > _SAFE_INT
        or abs(event.time) > _SAFE_INT
    ):
        return None
    try:
        return _decode_piece(event.encoded_data)
    except msgspec.ValidationError:
        return None
    except msgspec.DecodeError:
        return _piece_with_surrogates(event)


def _piece_with_surrogates(event: SessionEvent) -> _Piece | None:
    """Do as `_piece_of` does for a text that the decoder refuses: one with a lone surrogate."""
    try:
        return msgspec.convert(event.data, _Piece)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def _follows(last: SessionEvent, event: SessionEvent) -> bool:
    return event.seq == last.seq + 1 and abs(event.time - last.time) <= _SAFE_INT


def _block_of(piece: _Piece) -> tuple[object, ...]:
    """Return what the pieces of one block share; the repr of a number tells ``1`` from ``1.0`` and zero's sign."""
    chunk = piece.chunk
    numbers = repr((piece.turn, piece.step, chunk.index))
    if isinstance(chunk, _ToolCallDelta):
        return (numbers, chunk.id, chunk.name)
    return (numbers, type(chunk))


def _closed(run: list[SessionEvent], pieces: list[_Piece]) -> Iterator[SessionEvent | ChunkRow]:
    if len(run) < _MIN_RUN:
        yield from run
        return
    first, piece = run[0], pieces[0]
    chunk = piece.chunk
    dt = [later.time - earlier.time for earlier, later in pairwise(run)]
    texts = [piece.chunk.text for piece in pieces]
    if isinstance(chunk, _ToolCallDelta):
        calls = _ToolCallRun(
            turn=piece.turn, step=piece.step, index=chunk.index, dt=dt, id=chunk.id, name=chunk.name, texts=texts
        )
        yield _ToolCallRow(seq0=first.seq, time0=first.time, data=calls)
        return
    data = _TextRun(turn=piece.turn, step=piece.step, index=chunk.index, dt=dt, texts=texts)
    row = _ReasoningRow if isinstance(chunk, _ReasoningDelta) else _TextRow
    yield row(seq0=first.seq, time0=first.time, data=data)


def _checked_row(obj: dict[str, Any], kind: str) -> ChunkRow:
    """Return a row whose every member can be written, or raise `InvalidEventError`."""
    seq = obj.get("seq0")
    try:
        row: ChunkRow = msgspec.convert(obj, ChunkRow)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        reason = str(error)
    else:
        data = row.data
        lossless_json.validate([data.turn, data.step, data.index])
        if len(data.dt) != len(data.texts) - 1:
            reason = f"{len(data.dt)} gaps in time lie between {len(data.texts)} pieces"
        elif row.seq0 + len(data.dt) > _SAFE_INT:
            reason = f"the last piece has seq {row.seq0 + len(data.dt)}; the largest that a row may hold is 2^53 - 1"
        elif any(abs(time) > _SAFE_INT for time in accumulate(data.dt, initial=row.time0)):
            reason = "a piece has a time that lies outside the integers below 2^53"
        else:
            return row
    raise InvalidEventError(f"malformed {kind} row: {reason}", rule="chunk-row", seq=seq if type(seq) is int else None)


def _unpacked(row: ChunkRow, session_id: str) -> list[SessionEvent]:
    data = row.data
    turn, step, index = data.turn, data.step, data.index
    times = accumulate(data.dt, initial=row.time0)
    return [
        SessionEvent(session_id, seq, time, "assistant/chunk", _encoded(_Piece(turn=turn, step=step, chunk=chunk)))
        for seq, (time, chunk) in enumerate(zip(times, _chunks(row, index), strict=True), row.seq0)
    ]


def _chunks(row: ChunkRow, index: _Number) -> Iterator[_TextDelta | _ToolCallDelta]:
    if isinstance(row, _ToolCallRow):
        call, name = row.data.id, row.data.name
        return (_ToolCallDelta(index=index, id=call, name=name, text=text) for text in row.data.texts)
    delta = _ReasoningDelta if isinstance(row, _ReasoningRow) else _TextDelta
    return (delta(index=index, text=text) for text in row.data.texts)


def _encoded(piece: _Piece) -> bytes:
    """Write a piece as `lossless_json.encode` would write the dict that it stands for."""
    try:
        return _encode(piece)
    except UnicodeEncodeError:
        return lossless_json.encode(msgspec.to_builtins(piece))

"""Salvage: a log without gaps, and a surface that folds, out of what damage has left of one.

Nothing is invented. Events close up where some are lost, and their markers and provenance follow the new seqs. What
no longer fits is kept as data, in a log-only ``salvaged/event`` that no reader takes for conversation. Seqs that
stand inside data are data, and stay as they were.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import attrs
import msgspec

from dsh_session import lossless_json
from dsh_session.errors import InvalidEventError, NotJSONError
from dsh_session.event import Replace, SessionEvent
from dsh_session.shapes import check_data
from dsh_session.surface import Surface

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsh_session.surface import SurfacePlan

SALVAGED_EVENT_TYPE: Final = "salvaged/event"
"""The type of the event that keeps, as its data, a record that could not stay what it was."""

DamageKind: TypeAlias = Literal[
    "torn-tail",
    "malformed-line",
    "glued-records",
    "nul-run",
    "malformed-record",
    "second-header",
    "repeated-seq",
    "misplaced-seq",
    "missing-seqs",
    "lost-sources",
    "unfit-event",
    "compression",
]


@attrs.frozen
class Damage:
    """Something that is wrong with a file, and what was lost by it.

    Attributes:
        line: where it was found, counted from 1.
        kind: what it is. ``torn-tail``: the file ends inside a record. ``malformed-line``: not JSON objects.
            ``glued-records``: whole records on one line. ``nul-run``: NUL bytes, as a crashed file system leaves.
            ``malformed-record``: an object that is no event, kept as data. ``second-header``: of this session, or of
            another one, which ends this log. ``repeated-seq``, ``misplaced-seq``, ``missing-seqs``: an event out of
            order, or none. ``lost-sources``: provenance that names lost events. ``unfit-event``: it no longer fits
            the surface, or holds no proper message. ``compression``: what follows cannot be decompressed.
        reason: what was found, and what became of it.
        lost_bytes: how many bytes of the line were passed over.
        lost_seqs: the seqs of the events that are missing.
    """

    line: int
    kind: DamageKind
    reason: str
    lost_bytes: int = 0
    lost_seqs: range = range(0)


class Record(NamedTuple):
    """One record of a damaged log.

    Attributes:
        line: where it stands.
        event: the event that it is, or None for an object that is no event.
        wire: the object, or None for an event out of a packed row.
    """

    line: int
    event: SessionEvent | None
    wire: dict[str, Any] | None


def salvage(records: Iterable[Record], damage: list[Damage], *, session_id: str, time: int) -> Iterator[SessionEvent]:
    """Make a log that every reader can take of records that are damaged, lost, repeated or out of order.

    The events up to the first damage are given as they are. After it:

    - Events close up over missing seqs, and over a record that takes a place of its own.
    - An event whose seq is repeated with the same content is dropped. One whose seq was passed already, or lies beyond
      the seq of the event after it, is kept as data.
    - Provenance loses the sources that are lost; when none is left, the event has no provenance.
    - A replacement that no longer resolves, and a surface event that holds no proper message, are kept as data.

    Args:
        records: in the order of the file.
        damage: takes in what was found.
        session_id: the session that the events belong to.
        time: the time of a record that is kept as data before the first event, in Unix milliseconds.

    Returns:
        Events with the seqs 0, 1, 2 ..., which fold.

    Cost: O(size of the events); it holds the surface's events and 8 bytes an event.
    """
    log = _SalvagedLog(damage, session_id, time)
    for record, following in pairwise(chain(records, (_END,))):
        event = log.take(record, following.event)
        if event is not None:
            yield event


_END = Record(0, None, None)
_TOO_DEEP: Final = "lost, since it is nested too deep to be kept as data"


class _SalvagedLog:
    """What was salvaged so far, and where the seqs of the file are in it.

    The seqs of the file from ``starts[i]`` up to before ``stops[i]`` are moved by ``shifts[i]``; the last such segment
    has no stop yet. A seq in none of them is lost.
    """

    def __init__(self, damage: list[Damage], session_id: str, time: int) -> None:
        self.damage = damage
        self.session_id = session_id
        self.time = time
        self.surface = Surface()
        self.expected_seq = 0
        self.starts, self.stops, self.shifts = [0], list[int](), [0]
        self.digests = array("q")

    def take(self, record: Record, following: SessionEvent | None) -> SessionEvent | None:
        """Take in the next record and return its event, if it becomes one."""
        event = record.event
        if event is None:
            kept = self._as_data(record)
            if kept is None:
                self._note(record, "malformed-record", _TOO_DEEP)
            return kept
        seq, expected = event.seq, self.expected_seq
        if seq < expected:
            known = self._moved(seq)
            if known is not None and self.digests[known] == hash(event):
                self._note(record, "repeated-seq", f"seq {seq} is repeated with the same content; dropped")
                return None
            return self._refused(record, "repeated-seq", f"seq {seq} where {expected} is next")
        if seq > expected:
            if following is not None and expected <= following.seq <= seq:
                return self._refused(record, "misplaced-seq", f"seq {seq} stands before seq {following.seq}")
            missing = range(expected, seq)
            lost = "1 event is" if len(missing) == 1 else f"{len(missing)} events are"
            reason = f"seq {seq} where {expected} is next; {lost} missing, and what follows moves up"
            self._note(record, "missing-seqs", reason, lost_seqs=missing)
        return self._in_order(record, event)

    def _in_order(self, record: Record, event: SessionEvent) -> SessionEvent | None:
        if event.seq != self.expected_seq or self.surface.next_seq - event.seq != self.shifts[-1]:
            self._go_on(self.expected_seq, event.seq)
        self.expected_seq = event.seq + 1
        try:
            if record.wire is not None:
                check_data(event.type, record.wire["data"], event.seq, is_import=True)
            plan = self.surface.plan(self._renumbered(record, event))
        except InvalidEventError as error:
            kept = self._refused(record, "unfit-event", error.reason)
            if kept is None:
                self._go_on(event.seq, event.seq + 1)
            return kept
        self.time = event.time
        return self._applied(plan, event)

    def _refused(self, record: Record, kind: DamageKind, reason: str) -> SessionEvent | None:
        kept = self._as_data(record)
        self._note(record, kind, f"{reason}; {_TOO_DEEP if kept is None else 'kept as data'}")
        return kept

    def _as_data(self, record: Record) -> SessionEvent | None:
        """Return the event that keeps a record, or None when it is nested too deep to be inside of another."""
        event = record.event
        if event is not None:
            self.time = event.time
        wire = event.to_wire() if event is not None and record.wire is None else record.wire
        try:
            encoded = lossless_json.encode(wire)
        except NotJSONError:
            return None
        kept = SessionEvent(
            self.session_id, self.surface.next_seq, self.time, SALVAGED_EVENT_TYPE, encoded, ignorable=True
        )
        return self._applied(self.surface.plan(kept), event)

    def _applied(self, plan: SurfacePlan, original: SessionEvent | None) -> SessionEvent:
        self.surface.apply(plan)
        self.digests.append(hash(original))
        return plan.event

    def _renumbered(self, record: Record, event: SessionEvent) -> SessionEvent:
        """Return an event with the seqs of the salvaged log in place of those of the file."""
        if len(self.starts) == 1:
            return event
        marker, sources = event.surface_op, event.source_event_seqs
        if isinstance(marker, Replace):
            start, end = self._moved(marker.start), self._moved(marker.end)
            if start is None or end is None:
                lost = marker.start if start is None else marker.end
                raise InvalidEventError(f"it replaces seq {lost}, which is lost", rule="range-lost", seq=event.seq)
            marker = Replace(start, end)
        if sources:
            moved = {source: self._moved(source) for source in sources}
            lost_sources = [source for source, seq in moved.items() if seq is None]
            if lost_sources:
                self._note(record, "lost-sources", f"provenance names {lost_sources}, which are lost; dropped")
            sources = tuple(seq for seq in map(moved.get, sources) if seq is not None) or None
        return msgspec.structs.replace(event, seq=self.surface.next_seq, surface_op=marker, source_event_seqs=sources)

    def _moved(self, seq: int) -> int | None:
        """Return where a seq of the file is in the salvaged log, or None when it is lost. Cost: O(log gaps)."""
        segment = bisect_right(self.starts, seq) - 1
        if segment < len(self.stops) and seq >= self.stops[segment]:
            return None
        return seq + self.shifts[segment]

    def _go_on(self, stop: int, start: int) -> None:
        self.stops.append(stop)
        self.starts.append(start)
        self.shifts.append(self.surface.next_seq - start)

    def _note(self, record: Record, kind: DamageKind, reason: str, *, lost_seqs: range = range(0)) -> None:
        self.damage.append(Damage(record.line, kind, reason, lost_seqs=lost_seqs))

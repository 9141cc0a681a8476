"""The aggregate: a session takes in events, and holds only what its next decision needs.

That is the header, the next seq, the surface with its nodes' events, what is open (turn, step, calls, compaction), and
the latest request header and context. The history is not here but in the store; `SessionLog` reads it.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from dsh_session.errors import InvalidEventError
from dsh_session.event import (
    APPEND,
    SessionEvent,
    checked_sources,
    checked_time,
    checked_type,
    encoded_under,
)
from dsh_session.message import derive_message
from dsh_session.open_turn import OpenTurn
from dsh_session.shapes import check_data
from dsh_session.surface import Surface
from dsh_session.vocabulary import (
    COMPACTION_STARTS,
    END_SEED,
    REQUEST_TYPES,
    SURFACE_EVENT_TYPES,
    TURN_EVENT_TYPES,
    compact_types,
    topics,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dsh_session.event import SurfaceOp
    from dsh_session.header import SessionHeader
    from dsh_session.log import SessionLog


_COMPACTION_ENDS: Final = compact_types("end") | {END_SEED}


def now_ms() -> int:
    """Return the time of this machine's clock, in Unix milliseconds."""
    return time_ns() // 1_000_000


class Session:
    """One agent session, ready for its next event.

    A store makes and loads sessions; a session made by hand lives in memory only. One thread at a time may use it.

    Args:
        header: what is known of the session.
        clock: gives the time of an event that is appended, in Unix milliseconds.

    Attributes:
        header: what is known of the session.
        surface: the nodes that the model is sent; it is read here and changed by `append` alone.
        open_turn: the turn, step and calls that are open.
        compaction_start: the start of the compaction that is open since the newest ``session/end-seed``, or None.
        snapshot_seq: the length of the log at its newest snapshot; a store keeps it.
        unanswered: how many of the pending events were sent to a store that did not answer; a store keeps it.
    """

    def __init__(self, header: SessionHeader, *, clock: Callable[[], int] = now_ms) -> None:
        self.header = header
        self.surface = Surface()
        self.open_turn = OpenTurn()
        self.compaction_start: SessionEvent | None = None
        self._clock = clock
        self._last_time = header.created_at
        self._requests: dict[str, SessionEvent] = {}
        self._pending: list[SessionEvent] = []
        self.snapshot_seq = 0
        self.unanswered = 0

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.id

    @property
    def next_seq(self) -> int:
        """The seq of the next event, which is the length of the log."""
        return self.surface.next_seq

    @property
    def open_compaction(self) -> int | None:
        """The seq of `compaction_start`, or None between compactions."""
        return None if self.compaction_start is None else self.compaction_start.seq

    @property
    def pending(self) -> Sequence[SessionEvent]:
        """The events that were appended and are not saved yet."""
        return tuple(self._pending)

    def append(
        self,
        type: str,  # noqa: A002 - the name that an event's type has everywhere
        data: Any,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: Sequence[int] | None = None,
        *,
        ignorable: bool = False,
        time: int | None = None,
    ) -> SessionEvent:
        """Append one event, in memory; `SessionStore.save` makes it durable.

        The whole candidate is checked before anything changes, so a refused append leaves the session as it was.

        Args:
            type: a non-empty str out of an open vocabulary.
            data: a lossless JSON value. It is copied: changing it later changes nothing here.
            surface_op: `APPEND` or a `Replace`, for the four types that produce messages and no other.
            source_event_seqs: the earlier events that this one was made from; a replacement names at least every node
                that it shadows.
            ignorable: whether a reader that does not know the type may skip the event.
            time: Unix milliseconds; the clock's when None.

        Returns:
            The event, with its seq.

        Raises:
            NotJSONError: the data is not lossless JSON.
            InvalidEventError: the type, the time or the data has the wrong shape.
            InvalidSurfaceError: the marker or the provenance is malformed, or does not fit the surface.

        Cost: O(size of the data + provenance + nodes shadowed), whatever the length of the log and of the surface.
        """
        seq = self.surface.next_seq
        checked_type(type, seq)
        if ignorable is not True and ignorable is not False:
            raise InvalidEventError(f"ignorable is {ignorable!r}; it is a bool", rule="envelope", seq=seq)
        encoded = encoded_under(data, "data")
        check_data(type, data, seq)
        sources = None if source_event_seqs is None else checked_sources(source_event_seqs, type, seq)
        at = self._clock() if time is None else checked_time(time, seq)
        event = SessionEvent(self.header.id, seq, at, type, encoded, surface_op, sources, ignorable)
        self._take(event, data)
        return event

    def append_event(self, event: SessionEvent) -> None:
        """Append an event that was made elsewhere: read from a file, or forked from another session.

        It keeps its time and must have the next seq. The older message shapes are taken too.

        Raises:
            InvalidEventError: its data has the wrong shape.
            InvalidSurfaceError: it does not come next, or does not fit the surface.

        Cost: as `append`.
        """
        data = event.data
        check_data(event.type, data, event.seq, is_import=True)
        if event.session_id != self.header.id:
            event = SessionEvent(
                self.header.id,
                event.seq,
                event.time,
                event.type,
                event.encoded_data,
                event.surface_op,
                event.source_event_seqs,
                event.ignorable,
            )
        self._take(event, data)

    def messages(self) -> list[Any]:
        """Return the messages to send to the model: exactly the current surface, in its order.

        Returns:
            Fresh plain dicts, the caller's to change. A node that derives no message is left out.

        Cost: O(size of the surface's events).
        """
        derived = map(derive_message, self.surface_events())
        return [message for message in derived if message is not None]

    def surface_events(self) -> list[SessionEvent]:
        """Return the events of the current surface, in its order. Cost: O(nodes)."""
        return self.surface.events()

    def request_header(self) -> Any:
        """Return what the next request is built with, the latest ``request/header``'s; None before the first."""
        event = self._requests.get("request/header")
        return None if event is None else event.data["header"]

    def request_context(self) -> Any:
        """Return the route of the next request, the data of the latest ``request/context``; None before the first."""
        event = self._requests.get("request/context")
        return None if event is None else event.data

    def repair_events(self) -> list[SessionEvent]:
        """Return the events that would close what a crash left open; an empty list between turns."""
        return self.open_turn.repair_events(self.header.id, self.next_seq, self._last_time)

    def state(self) -> dict[str, Any]:
        """Return what a snapshot keeps, a lossless JSON value: everything here but the header and the payloads.

        Cost: O(nodes).
        """
        return {
            "next_seq": self.next_seq,
            "last_time": self._last_time,
            "generation": self.surface.generation,
            "nodes": list(self.surface),
            "open_turn": self.open_turn.state(),
            "open_compaction": self.open_compaction,
            "requests": sorted(event.seq for event in self._requests.values()),
        }

    @classmethod
    def restore(
        cls,
        header: SessionHeader,
        state: dict[str, Any],
        fetch: Callable[[Sequence[int]], Iterable[SessionEvent]],
        *,
        clock: Callable[[], int] = now_ms,
    ) -> Session:
        """Make the session that a state was read from.

        Args:
            header: the session's header.
            state: what `state` returned.
            fetch: gives the events of some seqs.
            clock: gives the time of an event that is appended, in Unix milliseconds.

        Cost: O(nodes); the nodes' events are fetched when they are first asked for.
        """
        session = cls(header, clock=clock)
        session.surface = Surface.restore(
            state["nodes"], next_seq=state["next_seq"], generation=state["generation"], fetch=fetch
        )
        session.open_turn = OpenTurn.restore(state["open_turn"])
        session._read_compaction_start(state["open_compaction"], fetch)
        session._last_time = state["last_time"]
        session._requests = {event.type: event for event in fetch(state["requests"])}
        return session

    def catch_up(self, log: SessionLog, stop: int | None = None) -> None:
        """Take in what a log of checked events holds from here on, by its topics; few of its payloads are read.

        Args:
            log: the log of this session.
            stop: the seq to stop before; the end of the log when None.

        Cost: O(events that can change the state); stream chunks are left out by the database.
        """
        end = len(log) if stop is None else stop
        if end == self.next_seq:
            return
        turn_seqs: list[int] = []
        step_seqs: list[int] = []
        request_seqs: dict[str, int] = {}
        compaction = self.open_compaction
        for batch in log.topics(self.next_seq, end, _FOLLOWED_TOPICS):
            markers = {
                event.seq: event.surface_op
                for event in log.events_at(seq for seq, topic in batch if topic.startswith("replace:"))
            }
            for seq, topic in batch:
                marker_name, _, kind = topic.partition(":")
                if marker_name != "log":
                    self.surface.apply_checked(seq, markers.get(seq) or APPEND)
                if kind == "turn/end":
                    turn_seqs, step_seqs = [seq], []
                elif kind == "turn/start":
                    turn_seqs.append(seq)
                elif kind == "step/end":
                    step_seqs = [seq]
                elif kind in TURN_EVENT_TYPES:
                    step_seqs.append(seq)
                elif kind in REQUEST_TYPES:
                    request_seqs[kind] = seq
                elif kind in COMPACTION_STARTS:
                    compaction = seq
                elif kind in _COMPACTION_ENDS:
                    compaction = None
        self.surface.skip_to(end)
        for event in log.events_at(turn_seqs + step_seqs):
            self.open_turn.apply(event.type, event.seq, event.data)
        self._requests |= {event.type: event for event in log.events_at(request_seqs.values())}
        self._read_compaction_start(compaction, log.events_at)
        self._last_time = log[end - 1].time

    def forget_pending(self, saved: int) -> None:
        """Take note that the first ``saved`` of the pending events are durable; it is the store's to say."""
        del self._pending[:saved]
        self.unanswered = 0

    def become(self, other: Session) -> None:
        """Take over the whole state of another session object, which nobody else may hold."""
        self.__dict__.update(other.__dict__)

    def _read_compaction_start(self, seq: int | None, fetch: Callable[[Sequence[int]], Iterable[SessionEvent]]) -> None:
        if seq != self.open_compaction:
            self.compaction_start = None if seq is None else next(iter(fetch([seq])))

    def _take(self, event: SessionEvent, data: Any) -> None:
        """The surface takes it first, as that may refuse; nothing after it does."""
        self.surface.take(event)
        kind = event.type
        if kind in _STATE_TYPES:
            if kind in TURN_EVENT_TYPES:
                self.open_turn.apply(kind, event.seq, data)
            elif kind in REQUEST_TYPES:
                self._requests[kind] = event
            else:
                self.compaction_start = event if kind in COMPACTION_STARTS else None
        self._last_time = event.time
        self._pending.append(event)


_STATE_TYPES: Final = TURN_EVENT_TYPES | REQUEST_TYPES | COMPACTION_STARTS | _COMPACTION_ENDS
_FOLLOWED_TOPICS: Final = (
    *sorted(topics("append", SURFACE_EVENT_TYPES) | topics("replace", SURFACE_EVENT_TYPES)),
    *sorted(topics("log", _STATE_TYPES - SURFACE_EVENT_TYPES)),
)

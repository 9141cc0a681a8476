"""A stored session's events by seq: read in batches, in either direction, and never held."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, overload

from dsh_session.event import topic_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsh_session.event import SessionEvent

BATCH: Final = 1000
"""How many events are read at a time."""
_END: Final = 2**62  # no seq is as high
_TOPICS_BATCH: Final = 20_000


class LogReader(Protocol):
    """The reads that a store offers of one session. Ranges run from ``start`` to below ``stop``."""

    def length(self) -> int:
        """Return how many events the log has now."""
        ...

    def events(self, start: int, stop: int, *, desc: bool = False, limit: int = -1) -> list[SessionEvent]:
        """Return the events of a range, the newest first where ``desc``; at most ``limit`` of them unless it is -1."""
        ...

    def topics(
        self, start: int, stop: int, *, desc: bool = False, limit: int = -1, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return the seqs and topics of a range, without the payloads; of some topics only, where they are named."""
        ...

    def events_at(self, seqs: Sequence[int]) -> list[SessionEvent]:
        """Return the events of some seqs, in seq order."""
        ...


class _InMemory:
    """Reads a sequence of events. Costs are those of the sequence; reads by topic look at each event of the range."""

    def __init__(self, events: Sequence[SessionEvent]) -> None:
        self._events = events

    def length(self) -> int:
        return len(self._events)

    def events(self, start: int, stop: int, *, desc: bool = False, limit: int = -1) -> list[SessionEvent]:
        return [self._events[seq] for seq in self._range(start, stop, desc=desc, limit=limit)]

    def topics(
        self, start: int, stop: int, *, desc: bool = False, limit: int = -1, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        passed = ((seq, topic_of(self._events[seq])) for seq in self._range(start, stop, desc=desc, limit=-1))
        wanted = ((seq, topic) for seq, topic in passed if not topics or topic in topics)
        return list(islice(wanted, limit if limit >= 0 else None))

    def events_at(self, seqs: Sequence[int]) -> list[SessionEvent]:
        length = self.length()
        return [self._events[seq] for seq in sorted(set(seqs)) if 0 <= seq < length]

    def _range(self, start: int, stop: int, *, desc: bool, limit: int) -> Sequence[int]:
        seqs = range(max(start, 0), min(stop, self.length()))
        ordered = seqs[::-1] if desc else seqs
        return ordered[:limit] if limit >= 0 else ordered


class SessionLog(Sequence["SessionEvent"]):
    """The log of one session, a sequence of events that is read as it is asked for.

    It shows what was saved, what others save while it is read included. An iteration goes on to the end that it finds
    when it gets there. Memory: one batch of events.
    """

    def __init__(self, session_id: str, reader: LogReader) -> None:
        self.session_id = session_id
        self._reader = reader

    @classmethod
    def of(cls, events: Sequence[SessionEvent]) -> SessionLog:
        """Return a log of events in memory; a log that already is one is returned as it is.

        Args:
            events: a whole log: the event with seq n stands at n.
        """
        if isinstance(events, cls):
            return events
        return cls(events[0].session_id if events else "", _InMemory(events))

    def __len__(self) -> int:
        return self._reader.length()

    @overload
    def __getitem__(self, index: int) -> SessionEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[SessionEvent]: ...
    def __getitem__(self, index: int | slice) -> SessionEvent | list[SessionEvent]:
        if isinstance(index, slice):
            wanted = range(*index.indices(len(self)))
            if wanted.step == 1:
                return self._reader.events(wanted.start, wanted.stop)
            found = {event.seq: event for event in self._reader.events_at(wanted)}
            return [found[seq] for seq in wanted]
        seq = index if index >= 0 else index + len(self)
        found_events = self._reader.events(seq, seq + 1) if 0 <= seq < _END else []
        if not found_events:
            raise IndexError(f"no event {index} in the log of session {self.session_id!r}")
        return found_events[0]

    def __iter__(self) -> Iterator[SessionEvent]:
        return self.read()

    def __reversed__(self) -> Iterator[SessionEvent]:
        stop = len(self)
        while stop > 0:
            yield from self._reader.events(0, stop, desc=True, limit=BATCH)
            stop -= BATCH

    def read(self, start: int = 0, stop: int | None = None, topics: Sequence[str] = ()) -> Iterator[SessionEvent]:
        """Iterate over the events from ``start`` to below ``stop``, or to the end.

        Args:
            start: the first seq.
            stop: the seq to stop before.
            topics: those to show; all of them where none are named.

        Cost: O(events read), and the database's for passing over others.
        """
        start, end = max(start, 0), _END if stop is None else stop
        if topics:
            for batch in self.topics(start, min(end, len(self)), topics):
                for first in range(0, len(batch), BATCH):
                    yield from self._reader.events_at([seq for seq, _ in batch[first : first + BATCH]])
            return
        while start < end:
            batch_of_events = self._reader.events(start, min(end, start + BATCH))
            yield from batch_of_events
            if len(batch_of_events) < BATCH:
                return
            start += BATCH

    def topics(self, start: int, stop: int, topics: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
        """Iterate, in batches, over (seq, topic) of the events of some topics from ``start`` to below ``stop``.

        Cost: O(events of these topics), and the database's for passing over the others.
        """
        while start < stop:
            batch = self._reader.topics(start, stop, limit=_TOPICS_BATCH, topics=topics)
            yield batch
            if len(batch) < _TOPICS_BATCH:
                return
            start = batch[-1][0] + 1

    def topics_back(
        self, before: int, topics: Sequence[str] = (), *, start: int = 0, batch: int = BATCH
    ) -> Iterator[tuple[int, str]]:
        """Iterate over (seq, topic) from the event before ``before`` back to ``start``, without reading payloads.

        The database is asked for one range of seqs after the other, each as long as all before it. So it passes over no
        more than twice the events that it must, whatever way it chooses to look for a topic.

        Args:
            before: the seq to begin below.
            topics: those to show; all of them where none are named.
            start: the last seq to show.
            batch: how many to read at a time.

        Cost: O(events passed), in the database where they are of other topics.
        """
        span = 4 * batch
        while before > start:
            low = max(start, before - span)
            found = self._reader.topics(low, before, desc=True, limit=batch, topics=topics)
            yield from found
            if len(found) == batch:
                before = found[-1][0]
            else:
                before = low
                span *= 2

    def events_at(self, seqs: Iterable[int]) -> list[SessionEvent]:
        """Return the events of some seqs, in seq order; seqs that are not in the log are passed over."""
        return self._reader.events_at(list(seqs))

"""Where projections run: following one session as it grows, and tracked over a whole store.

A projection does not know where it runs. Followed, it is fed one session's log and goes on live. Tracked, it is run
for every session of a store; its states and its position in the store's stream are moved in one transaction, so that
a process that dies at any moment has applied each event exactly once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from dsh_projections.projection import Projection
from dsh_session import SessionError, StoreError, lossless_json, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

    from dsh_session import SessionEvent, SessionStore

P = TypeVar("P", bound=Projection[Any])
View = TypeVar("View")

BATCH: Final = 1000
POLL_SECONDS: Final = 0.5


class ProjectionError(SessionError, RuntimeError):
    """A projection raised. It has stopped where it was, its position intact; others go on.

    Attributes:
        session_id: the session whose event it could not take.
        seq: that event.
    """

    def __init__(self, name: str, event: SessionEvent, error: Exception) -> None:
        self.session_id = event.session_id
        self.seq = event.seq
        super().__init__(
            f"{name} failed at seq {event.seq} of session {event.session_id!r}: {type(error).__name__}: {error}"
        )


class Feed:
    """Several projections fed from one stream. One that raises stops where it was, and the others go on.

    Args:
        projections: what to feed.

    Attributes:
        failures: by projection that has stopped, why.
    """

    version = 1

    def __init__(self, *projections: Projection[Any]) -> None:
        self._running = list(projections)
        self.failures: dict[Projection[Any], ProjectionError] = {}
        named = [projection.topics for projection in projections]
        self.topics: frozenset[str] | None = None if None in named else frozenset[str]().union(*filter(None, named))

    def apply(self, event: SessionEvent) -> None:
        """Feed an event to each projection that names its topic."""
        topic = topic_of(event)
        for projection in tuple(self._running):
            if projection.topics is None or topic in projection.topics:
                try:
                    projection.apply(event)
                except Exception as error:  # noqa: BLE001 - a projection of somebody else's may raise anything
                    self.failures[projection] = ProjectionError(type(projection).__name__, event, error)
                    self._running.remove(projection)


def follow(
    store: SessionStore,
    projection: P,
    session_id: str,
    *,
    start: int = 0,
    until: Event | None = None,
    poll_seconds: float = POLL_SECONDS,
) -> Iterator[P]:
    """Catch a projection up with a session's log, and keep it up as the log grows.

    Args:
        store: where the session is kept.
        projection: takes in the events of its topics; a `Feed` takes them in for several.
        session_id: the session.
        start: the length of the log that the projection has seen.
        until: ends the following when it is set; it is followed for ever when None.
        poll_seconds: how long to wait for a wake-up before looking again. A save in this process wakes at once, and so
            does any save in PostgreSQL; what another process saves to SQLite is seen within this time.

    Yields:
        The projection, each time that it has taken something in, and once when it has caught up at first.

    Raises:
        SessionNotFoundError: there is no such session.
        ProjectionError: the projection raised.
        StoreError: the session's records cannot be read. While a database is out of reach it is tried again.
    """
    store.header(session_id)
    log = store.log(session_id)
    topics = sorted(projection.topics or ())
    is_first = True
    with store.watch() as watch:
        while until is None or not until.is_set():
            try:
                end = len(log)
                events = log.read(start, end, topics)
            except StoreError:
                watch.wait(poll_seconds)
                continue
            for event in events:
                _apply(projection, event)
            if is_first or end > start:
                is_first, start = False, end
                yield projection
            else:
                watch.wait(poll_seconds)


class TrackedProjection(Generic[View]):
    """A projection that is run for every session of a store, and keeps its states there.

    Any number of processes may run one of the same name; each event is applied once.

    Args:
        store: the store.
        name: what the states are kept under.
        make: makes the projection for one session; its ``version`` throws older states away.
    """

    def __init__(self, store: SessionStore, name: str, make: Callable[[], Projection[View]]) -> None:
        self.name = name
        self._store = store
        self._make = make
        self._tracker = store.tracker()

    def catch_up(self) -> int:
        """Take in everything that was saved since the last time, in batches of one transaction each.

        Returns:
            How many events were applied.

        Raises:
            ProjectionError: the projection raised; everything before the batch of that event is kept.
            StoreError: the database cannot do it.
        """
        applied = 0
        model = self._make()
        topics = sorted(model.topics or ())
        while True:
            position = self._tracker.begin(self.name, model.version)
            found = self._store.notifications(position, BATCH, topics)
            if not found:
                return applied
            if self._tracker.move(self.name, position, found[-1][0], self._applied([event for _, event in found])):
                applied += len(found)

    def view(self, session_id: str) -> View:
        """Return the view of one session as far as it was caught up; of an unseen session, that of no events."""
        return self._restored(self._tracker.states(self.name, [session_id]).get(session_id)).view()

    def views(self) -> Iterator[tuple[str, View]]:
        """Iterate over (session id, view) of every session that was seen, by session id."""
        for session_id, state in self._tracker.all_states(self.name):
            yield session_id, self._restored(state).view()

    def _applied(self, events: list[SessionEvent]) -> dict[str, bytes]:
        by_session: dict[str, list[SessionEvent]] = defaultdict(list)
        for event in events:
            by_session[event.session_id].append(event)
        known = self._tracker.states(self.name, list(by_session))
        states = {}
        for session_id, its_events in by_session.items():
            projection = self._restored(known.get(session_id))
            for event in its_events:
                _apply(projection, event)
            states[session_id] = lossless_json.encode(projection.state())
        return states

    def _restored(self, state: bytes | None) -> Projection[View]:
        projection = self._make()
        if state is not None:
            projection.restore(lossless_json.decode(state))
        return projection


def _apply(projection: Any, event: SessionEvent) -> None:
    try:
        projection.apply(event)
    except Exception as error:
        raise ProjectionError(type(projection).__name__, event, error) from error

"""Where projections run: following one session as it grows, and tracked over a whole store (ADR-0013).

A projection does not know where it runs. Followed, it is fed one session's log and goes on live. Tracked, it is run
for every session of a store; its states and its position in the store's stream are moved in one transaction, so that
a process that dies at any moment has applied each event exactly once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from dsh_session import SessionError, StoreUnavailableError, lossless_json, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from threading import Event
    from typing import Self

    from dsh_projections.projection import Projection
    from dsh_session import SessionEvent, SessionStore

F = TypeVar("F", bound="Projection[Any] | ProjectionGroup")
View = TypeVar("View")

BATCH: Final = 1000
"""How many events a tracked projection takes in at most before it moves."""

POLL_SECONDS: Final = 0.5
"""How long to wait for a wake-up before looking again."""


class ProjectionError(SessionError, RuntimeError):
    """A projection raised. It has stopped where it was, its position intact; others go on.

    What it raised is the ``__cause__``.

    Attributes:
        projection: the projection.
        session_id: the session whose event it could not take.
        seq: that event.
    """

    def __init__(self, projection: object, event: SessionEvent, error: Exception) -> None:
        self.projection = projection
        self.session_id = event.session_id
        self.seq = event.seq
        super().__init__(
            f"{type(projection).__name__} failed at seq {event.seq} of session {event.session_id!r}:"
            f" {type(error).__name__}: {error}"
        )


class ProjectionGroup:
    """Several projections fed from one stream. One that raises stops where it was, and the others go on.

    Args:
        projections: those that share the stream.

    Attributes:
        topics: what any of them takes notice of; None for everything.
        failures: one error for each projection that has stopped.
    """

    def __init__(self, *projections: Projection[Any]) -> None:
        self._running = projections
        self.failures: list[ProjectionError] = []
        named = [projection.topics for projection in projections]
        self.topics: frozenset[str] | None = None if None in named else frozenset[str]().union(*filter(None, named))

    def apply(self, event: SessionEvent) -> None:
        """Give an event to each projection that names its topic and has not stopped."""
        topic = topic_of(event)
        for projection in self._running:
            if projection.topics is None or topic in projection.topics:
                try:
                    _apply(projection, event)
                except ProjectionError as error:
                    self.failures.append(error)
                    self._running = tuple(other for other in self._running if other is not projection)


def follow(
    store: SessionStore,
    projection: F,
    session_id: str,
    *,
    start: int = 0,
    until: Event | None = None,
    poll_seconds: float = POLL_SECONDS,
) -> Generator[F, None, None]:
    """Catch a projection up with a session's log, and keep it up as the log grows, until the generator is closed.

    Args:
        store: where the session is kept.
        projection: takes in the events of its topics; a `ProjectionGroup` takes them in for several.
        session_id: the session.
        start: the length of the log that the projection has seen.
        until: ends the following, within ``poll_seconds`` of its being set; it never ends when None.
        poll_seconds: how long to wait for a wake-up before looking again. A save in this process wakes at once, and so
            does any save in PostgreSQL; what another process saves to SQLite is seen within this time.

    Yields:
        The projection: when it has caught up, and each time that it has taken something in. While the database is out
        of reach it is tried again, and then it has to catch up once more.

    Raises:
        SessionNotFoundError: there is no such session.
        ProjectionError: the projection raised.
        StoreError: the session cannot be read, or the store is closed.
    """
    store.header(session_id)
    log = store.log(session_id)
    topics = sorted(projection.topics or ())

    def catch_up() -> bool:
        nonlocal start
        before, end = start, len(log)
        for event in log.read(start, end, topics):
            _apply(projection, event)
            start = event.seq + 1
        has_news = start > before
        start = end
        return has_news

    for _ in _live(store, catch_up, until, poll_seconds):
        yield projection


class TrackedProjection(Generic[View]):
    """A projection that is run for every session of a store, and keeps its states there.

    Any number of processes may run one of the same name; each event is applied once.

    Args:
        store: the store.
        name: what the states are kept under.
        make: makes the projection for one session. When its ``version`` is not that of the states that are kept, they
            are built anew.
    """

    def __init__(self, store: SessionStore, name: str, make: Callable[[], Projection[View]]) -> None:
        model = make()
        self.name = name
        self._store = store
        self._make = make
        self._version = model.version
        self._topics = sorted(model.topics or ())
        self._tracker = store.tracker()

    def catch_up(self) -> int:
        """Take in everything that was saved since the last time, in batches of one transaction each.

        Returns:
            How many events were applied here.

        Raises:
            ProjectionError: the projection raised. What was applied before the batch of that event is kept, and the
                next time it is tried again.
            StoreError: the database cannot do it.
        """
        applied = 0
        while True:
            position = self._position()
            found = self._store.notifications(position, BATCH, self._topics)
            if not found:
                return applied
            try:
                states = self._apply([event for _, event in found])
            except ProjectionError:
                if position == self._position():
                    raise
                continue  # the states were another runner's, who has applied these events
            if self._tracker.move(self.name, self._version, position, found[-1][0], states):
                applied += len(found)

    def follow(self, *, until: Event | None = None, poll_seconds: float = POLL_SECONDS) -> Generator[Self, None, None]:
        """Catch up, and keep up as the store grows; the arguments, what is yielded and raised are those of `follow`."""
        for _ in _live(self._store, lambda: self.catch_up() > 0, until, poll_seconds):
            yield self

    def view(self, session_id: str) -> View:
        """Return the view of one session as far as it was caught up; of an unseen session, that of no events."""
        states = self._tracker.states(self.name, self._version, [session_id])
        return self._restored(states.get(session_id)).view()

    def views(self) -> Iterator[tuple[str, View]]:
        """Iterate over (session id, view) of every session that was seen, by session id."""
        for session_id, state in self._tracker.all_states(self.name, self._version):
            yield session_id, self._restored(state).view()

    def _position(self) -> int:
        return self._tracker.position(self.name, self._version)

    def _apply(self, events: Sequence[SessionEvent]) -> dict[str, bytes]:
        """Return the states of the sessions that some events belong to, with these applied."""
        by_session: dict[str, list[SessionEvent]] = defaultdict(list)
        for event in events:
            by_session[event.session_id].append(event)
        known = self._tracker.states(self.name, self._version, list(by_session))
        states = {}
        for session_id, its_events in by_session.items():
            projection = self._restored(known.get(session_id))
            for event in its_events:
                _apply(projection, event)
            try:
                states[session_id] = lossless_json.encode(projection.state())
            except Exception as error:
                raise ProjectionError(projection, its_events[-1], error) from error
        return states

    def _restored(self, state: bytes | None) -> Projection[View]:
        projection = self._make()
        if state is not None:
            projection.restore(lossless_json.decode(state))
        return projection


def _live(
    store: SessionStore, catch_up: Callable[[], bool], until: Event | None, poll_seconds: float
) -> Iterator[None]:
    """Catch up again and again, and yield when there is something to show: at first, after an outage, after news."""
    is_due = True
    with store.watch() as watch:
        while until is None or not until.is_set():
            try:
                is_due = catch_up() or is_due
            except StoreUnavailableError:
                is_due = True
                watch.wait(poll_seconds)
                continue
            if is_due:
                is_due = False
                yield
            else:
                watch.wait(poll_seconds)


def _apply(projection: Projection[Any] | ProjectionGroup, event: SessionEvent) -> None:
    try:
        projection.apply(event)
    except Exception as error:
        raise ProjectionError(projection, event, error) from error

"""The store: sessions are created, loaded, saved, forked and listed here, and kept by ``eventsourcing``."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

import attrs
from eventsourcing.persistence import IntegrityError

from dsh_session.errors import (
    ConflictError,
    DamagedStoreError,
    EventNotFoundError,
    InvalidEventError,
    InvalidHeaderError,
    InvalidOptionError,
    OpenTurnError,
    RebaseError,
    SessionExistsError,
    SessionNotFoundError,
    StoreError,
)
from dsh_session.header import SessionHeader
from dsh_session.log import BATCH, SessionLog
from dsh_session.session import Session, now_ms
from dsh_session.storage.application import open_application, translated_errors
from dsh_session.storage.contract import PlaintextIndexError
from dsh_session.storage.encoded_tracker import EncodedTracker
from dsh_session.storage.mapper import HEADER_VERSION
from dsh_session.storage.rebase import check_lock, renumbered
from dsh_session.storage.snapshots import Snapshots
from dsh_session.storage.stored_log import StoredLog
from dsh_session.storage.watch import LocalWatch, SaveSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Self

    from dsh_session.event import SessionEvent
    from dsh_session.storage.application import SessionApplication
    from dsh_session.storage.contract import Row, SessionRecorder, TextIndex, Tracker, Watch
    from dsh_session.storage.mapper import SessionMapper

REBASE_ATTEMPTS: Final = 100
"""How often ``save(…, on_conflict="rebase")`` takes other writers' events in before it gives up."""


class SessionStore:
    """A database of sessions.

    Open one with `open`, and use it as a context manager or `close` it. Many threads may use one store; a session
    belongs to one thread at a time.
    """

    def __init__(self, application: SessionApplication, clock: Callable[[], int]) -> None:
        self._application = application
        self._where = application.where
        self._clock = clock
        self._recorder: SessionRecorder = application.recorder  # type: ignore[assignment] # ours, made by our factory
        self._mapper: SessionMapper = application.mapper  # type: ignore[assignment] # as above
        self._snapshots = Snapshots(application.snapshots, self._mapper, self._guarded)
        self._signal = SaveSignal()
        self._is_closed = False

    @classmethod
    def open(
        cls,
        target: str | PathLike[str],
        *,
        settings: Mapping[str, str] | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> Self:
        """Open a store, and make it where it is not there yet.

        Args:
            target: ``":memory:"``, the path of an SQLite file, or the URL of a PostgreSQL database, as in
                ``postgresql://user:password@host:port/database``, which needs the extra ``postgres``.
            settings: more configuration for the ``eventsourcing`` library, such as ``COMPRESSOR_TOPIC``,
                ``CIPHER_TOPIC`` and ``CIPHER_KEY``. The process's environment is not read, but for a password of
                PostgreSQL where the URL has none.
            clock: gives the time of what is appended, in Unix milliseconds.

        Raises:
            StoreError: the database cannot be opened, or was kept with another key, cipher or compressor;
                `StoreFormatError` when it is no store of sessions.
            InvalidOptionError: a setting is none that there is.
        """
        return cls(open_application(target, settings or {}), clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. Sessions stay usable in memory, and can be saved to a store that is open."""
        self._is_closed = True
        self._application.close()

    def create(
        self,
        *,
        id: str | None = None,  # noqa: A002 - the name that a session's id has everywhere
        cwd: str | None = None,
        origin: Any = None,
        delegation_depth: int | None = None,
        agent_preset: Any = None,
    ) -> Session:
        """Create a session, and keep its header at once.

        Args:
            id: any non-empty str that a database can hold; a new UUID when None.
            cwd: the absolute path that the agent works in.
            origin: what made the session, a JSON value.
            delegation_depth: how many agents stand above this one.
            agent_preset: what the agent is set up as, a JSON value.

        Raises:
            SessionExistsError: the id is taken.
            InvalidHeaderError: an argument has the wrong shape.
            StoreError: the database cannot do it.
        """
        header = SessionHeader(
            id=str(uuid4()) if id is None else id,
            created_at=self._clock(),
            cwd=cwd,
            origin=origin,
            delegation_depth=delegation_depth,
            agent_preset=agent_preset,
        )
        with self._inserting(header) as first:
            self._recorder.insert_after(header.id, (first,), after=-1)
        return Session(header, clock=self._clock)

    def import_log(self, header: SessionHeader, events: Iterable[SessionEvent]) -> int:
        """Keep a whole log that was made elsewhere, in one transaction.

        Args:
            header: the log's header.
            events: in seq order, from 0; they are checked one by one as `Session.append_event` does, and never held.

        Returns:
            How many events were kept.

        Raises:
            SessionExistsError: a session of this id is already there.
            InvalidEventError: an event does not fit. Nothing is kept then, nor after any other error.
            StoreError: the database cannot do it.
        """
        session = Session(header, clock=self._clock)

        def received(first: Row) -> Iterator[Row]:
            yield first
            for event in events:
                session.append_event(event)
                (taken,) = session.pending
                yield self._mapper.to_row(taken)
                session.forget_pending(1)
                if taken.seq in session.surface:
                    session.surface.drop_payload(taken.seq)

        with self._inserting(header) as first:
            self._recorder.insert_after(header.id, received(first), after=-1)
        self._snapshots.take(session)
        return session.next_seq

    def load(self, session_id: str) -> Session:
        """Load a session as it is, ready for its next event; nothing is repaired and nothing written.

        Raises:
            SessionNotFoundError: there is no such session.
            DamagedStoreError: a record that is needed cannot be read.
            StoreError: the database cannot do it.

        Cost: the newest snapshot, O(nodes), and the events since; without one, O(the log's surface and boundary
        events) read by topic. The surface's payloads are read when they are first asked for.
        """
        header = self.header(session_id)
        log = self.log(session_id)
        session = self._snapshots.newest(header, log, self._clock) or Session(header, clock=self._clock)
        session.surface.fetch = log.events_at
        session.catch_up(log)
        return session

    def resume(self, session_id: str) -> Session:
        """Load a session to work on it: settle what a crash left, and mark everything so far as seed.

        Calls without results get their error results, and the open step and turn are ended. Then ``session/end-seed``
        is appended, behind which no older compaction's lock counts. It is all saved. A log with nothing since its last
        ``session/end-seed``, or with no event at all, is left as it is.

        Raises:
            SessionNotFoundError, DamagedStoreError, StoreError: as `load`.
        """
        for _ in range(REBASE_ATTEMPTS):
            session = self.load(session_id)
            length = session.next_seq
            if length == 0 or self.log(session_id)[length - 1].type == "session/end-seed":
                return session
            for repair in session.repair_events():
                session.append_event(repair)
            session.append("session/end-seed", {})
            try:
                self.save(session)
            except ConflictError:
                continue
            return session
        raise StoreError(f"{self._where}: other writers kept session {session_id!r} busy; it was not resumed")

    def save(self, session: Session, *, on_conflict: Literal["raise", "rebase"] = "raise") -> int:
        """Make everything that was appended so far durable, in one transaction, or nothing.

        Args:
            session: the session; its pending events are kept until they are saved.
            on_conflict: what to do when another writer has appended to the session: ``"raise"``, or ``"rebase"`` to
                take the other's events in as `rebase` does and try again, at most ``REBASE_ATTEMPTS`` times.

        Returns:
            How many events were saved.

        Raises:
            ConflictError: another writer has appended to the session. `RebaseError` when a pending event does not fit
                behind that.
            SessionNotFoundError: the session is not in this store.
            StoreError: the database cannot do it.
        """
        if on_conflict not in ("raise", "rebase"):
            raise InvalidOptionError("on_conflict", on_conflict, "'raise' or 'rebase'")
        for _ in range(REBASE_ATTEMPTS if on_conflict == "rebase" else 0):
            try:
                return self._save_pending(session)
            except ConflictError:
                self.rebase(session)
        return self._save_pending(session)

    def rebase(self, session: Session) -> None:
        """Take in what other writers appended, and put the pending events behind it.

        The pending events are renumbered, and so are the seqs by which they name one another: markers, provenance, and
        the seqs inside compaction records and titles. Each is checked anew. Either all fit, or nothing changes; then
        load the session anew, and append to it what of the pending events is still wanted.

        Raises:
            RebaseError: a pending event does not fit; ``seq`` says which is the first.
            SessionNotFoundError, DamagedStoreError, StoreError: as `load`.
        """
        self._settle(session)
        pending = session.pending
        rebased = self.load(session.id)
        first = session.next_seq - len(pending)
        moved_by = rebased.next_seq - first
        if moved_by == 0:
            return
        for event in pending:
            try:
                check_lock(event, rebased)
                rebased.append_event(renumbered(event, first, moved_by))
            except InvalidEventError as error:
                raise RebaseError(
                    session.id, expected=first, actual=first + moved_by, seq=event.seq, reason=error.reason
                ) from error
        session.become(rebased)

    def fork(self, session_id: str, at: int | None = None, *, new_id: str | None = None) -> Session:
        """Make a child session from a prefix of a log, and keep it.

        Args:
            session_id: the parent.
            at: the seq of the last event that the child inherits; the parent's last when None.
            new_id: the child's id; a new UUID when None.

        Returns:
            The child, its log the prefix and ``session/end-seed``; its surface is the parent's as of ``at``.

        Raises:
            OpenTurnError: the prefix ends inside a turn.
            EventNotFoundError: the parent has no event ``at``; it is an IndexError.
            SessionNotFoundError, SessionExistsError, DamagedStoreError, StoreError: as `load` and `create`.
        """
        parent = self.header(session_id)
        log = self.log(session_id)
        length = len(log)
        if at is not None and (type(at) is not int or not 0 <= at < length):
            raise EventNotFoundError(at, length)
        seed_length = length if at is None else at + 1
        header = attrs.evolve(
            parent,
            id=str(uuid4()) if new_id is None else new_id,
            created_at=self._clock(),
            parent_session=session_id,
            seed_length=seed_length,
        )
        child = Session(header, clock=self._clock)
        child.catch_up(log, seed_length)
        if child.open_turn.turn is not None:
            raise OpenTurnError(
                f"seq {seed_length - 1} lies inside turn {child.open_turn.turn}; fork where no turn is open",
                seq=seed_length - 1,
            )
        last = self._mapper.to_row(child.append("session/end-seed", {}))
        with self._inserting(header) as first:
            self._recorder.insert_fork(header.id, session_id, seed_length, (first, last))
        child.surface.fetch = self.log(header.id).events_at
        child.forget_pending(1)
        self._snapshots.take(child)
        return child

    def log(self, session_id: str) -> SessionLog:
        """Return the events of a session that are saved, to be read as they are asked for.

        An id that is not in the store gives an empty log; `header` tells the two apart.

        Raises:
            SessionNotFoundError: no store can hold the id.
        """
        return SessionLog(session_id, self._stored(session_id))

    def header(self, session_id: str) -> SessionHeader:
        """Return the header of a session.

        Raises:
            SessionNotFoundError, DamagedStoreError, StoreError: as `load`.
        """
        header = self._stored(session_id).header()
        if header is None:
            raise SessionNotFoundError(session_id)
        return header

    def sessions(self, *, on_damage: Callable[[DamagedStoreError], object] | None = None) -> Iterator[SessionHeader]:
        """Iterate over the headers of all sessions, by id.

        Args:
            on_damage: is told of each header that cannot be read, which is then passed over.

        Raises:
            DamagedStoreError: a header cannot be read, and nobody is to be told instead.
            StoreError: the database cannot do it.

        Cost: O(sessions), whatever the length of their logs.
        """
        after = ""
        while True:
            with self._guarded():
                ids = self._recorder.select_originators(after, BATCH)
            for session_id in ids:
                try:
                    header = self.header(session_id)
                except DamagedStoreError as error:
                    if on_damage is None:
                        raise
                    on_damage(error)
                else:
                    yield header
            if len(ids) < BATCH:
                return
            after = ids[-1]

    def notifications(self, after: int, limit: int, topics: Sequence[str] = ()) -> list[tuple[int, SessionEvent]]:
        """Return the events of all sessions in the order in which they were saved, with their positions in it.

        Args:
            after: the position to begin behind; 0 for the first.
            limit: how many to return at most.
            topics: those to return; all of them where none are named.

        Cost: O(events returned), and the database's for passing over others.
        """
        while True:
            with self._guarded():
                rows = self._application.recorder.select_notifications(
                    after, limit, topics=list(topics), inclusive_of_start=False
                )
            events = [(row.id, row) for row in rows if row.originator_version != HEADER_VERSION]
            if events or not rows:
                return [(position, self._mapper.to_domain_event(row)) for position, row in events]
            after = rows[-1].id

    def watch(self) -> Watch:
        """Begin to watch for saves; use it as a context manager.

        A save through this store wakes a watch at once, and so does any save in PostgreSQL. What another process saves
        to SQLite wakes nobody.
        """
        with self._guarded():
            return self._recorder.watch() or LocalWatch(self._signal)

    def tracker(self) -> Tracker:
        """Return where tracked projections keep their states in this store."""
        return EncodedTracker(self._recorder.tracker(self._guarded), self._mapper)

    def text_index(self, version: int, *, allow_plaintext: bool = False) -> TextIndex:
        """Return where this store keeps the words of texts, for a search.

        Args:
            version: of what a word is; the words of each version are kept apart.
            allow_plaintext: whether a store that is enciphered may keep words, which are not.

        Raises:
            PlaintextIndexError: the store is enciphered, and that was not allowed.
        """
        if self._mapper.cipher is not None and not allow_plaintext:
            raise PlaintextIndexError(
                f"{self._where}: the store is enciphered, and an index would keep the words of its texts in the clear;"
                " allow_plaintext=True allows it"
            )
        index: TextIndex = self._recorder.text_index(self._guarded, version)
        return index

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn what the database raises into errors that name it, and refuse to serve after `close`."""
        if self._is_closed:
            raise StoreError(f"{self._where}: the store is closed")
        with translated_errors(self._where):
            yield

    def _stored(self, session_id: str) -> StoredLog:
        if not _is_storable(session_id):
            raise SessionNotFoundError(session_id)
        return StoredLog(session_id, self._recorder, self._mapper, self._guarded)

    @contextmanager
    def _inserting(self, header: SessionHeader) -> Iterator[Row]:
        """Give the first row of a new session, which is inserted within."""
        if not _is_storable(header.id):
            raise InvalidHeaderError(
                f"session header: id {header.id!r}; a store keeps ids without surrogates and without NUL"
            )
        try:
            with self._guarded():
                yield self._mapper.to_row(header)
        except IntegrityError:
            raise SessionExistsError(header.id) from None
        self._signal.notify()

    def _save_pending(self, session: Session) -> int:
        settled = self._settle(session)
        pending = session.pending
        if not pending:
            return settled
        log = self._stored(session.id)
        first = pending[0].seq
        session.unanswered = len(pending)
        try:
            with self._guarded():
                self._recorder.insert_after(session.id, map(self._mapper.to_row, pending), after=first)
        except IntegrityError:
            session.unanswered = 0
            self.header(session.id)
            raise ConflictError(session.id, expected=first, actual=log.length()) from None
        session.forget_pending(len(pending))
        self._signal.notify()
        self._snapshots.take_if_due(session)
        return settled + len(pending)

    def _settle(self, session: Session) -> int:
        """Look whether events whose save got no answer are there all the same, and return how many that are."""
        sent = session.pending[: session.unanswered]
        if sent and self._stored(session.id).events(sent[0].seq, sent[-1].seq + 1) == list(sent):
            session.forget_pending(len(sent))
            return len(sent)
        session.unanswered = 0
        return 0


def _is_storable(session_id: str) -> bool:
    return re.search("[\0\ud800-\udfff]", session_id) is None

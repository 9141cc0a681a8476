"""The contract of stores, as anybody may hold it against a store of theirs: ours keep it, and broken ones are found."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings

from dsh_session import RebaseError, SessionEvent, SessionNotFoundError, SessionStore
from dsh_session.testing import Interleaving, LogBuilder, check_store_laws, store_test
from stored import LosesOnConflict, say, work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import psycopg

    from dsh_session import Session, SessionHeader


def few(max_examples: int) -> settings:
    return settings(max_examples=max_examples, deadline=None)


def open_in_memory() -> SessionStore:
    return SessionStore.open(":memory:")


test_a_store_in_memory_keeps_the_contract = store_test(open_in_memory, settings=few(30))


def test_a_store_in_a_file_keeps_the_contract(tmp_path: Path) -> None:
    """A new file for every example."""
    names = count()
    store_test(lambda: SessionStore.open(tmp_path / f"{next(names)}.db"), settings=few(8))()


def test_a_store_in_postgres_keeps_the_contract(postgres_url: str, postgres_admin: psycopg.Connection) -> None:
    """A new schema for every example."""

    def open_anew() -> SessionStore:
        postgres_admin.execute("DROP SCHEMA public CASCADE")
        postgres_admin.execute("CREATE SCHEMA public")
        return SessionStore.open(postgres_url)

    store_test(open_anew, settings=few(6))()


def test_a_store_may_hold_other_sessions() -> None:
    """The contract is kept by a store that is in use."""
    with open_in_memory() as store:
        for _ in range(2):
            check_store_laws(store, an_interleaving())


class MiscountsSaves(SessionStore):
    def save(self, session: Session, **options: Any) -> int:
        return super().save(session, **options) and 1


class LoadsWithALock(SessionStore):
    """Marks a session when it is only looked at."""

    def load(self, session_id: str) -> Session:
        session = super().load(session_id)
        if session.next_seq == 9:
            say(session, "looked at")
            super().save(session)
        return session


class LastWriterWins(SessionStore):
    """Settles every conflict by itself, unasked."""

    def save(self, session: Session, *, on_conflict: Any = "raise") -> int:
        return super().save(session, on_conflict="rebase" if on_conflict == "raise" else on_conflict)


class DropsWhatDoesNotFit(SessionStore):
    def save(self, session: Session, **options: Any) -> int:
        try:
            return super().save(session, **options)
        except RebaseError:
            session.become(self.load(session.id))
            raise


class ForksTooMuch(SessionStore):
    def fork(self, session_id: str, at: int | None = None, **options: Any) -> Session:
        if at == 0:
            at = len(self.log(session_id)) - 1
        return super().fork(session_id, at, **options)


class ForksAnywhere(SessionStore):
    """Forks inside a turn, at the last place before it."""

    def fork(self, session_id: str, at: int | None = None, **options: Any) -> Session:
        return super().fork(session_id, 0 if at == 2 else at, **options)


class ResumesTwice(SessionStore):
    def resume(self, session_id: str) -> Session:
        session = super().resume(session_id)
        if session.next_seq:
            session.append("session/end-seed", {})
            self.save(session)
        return session


class ImportsInPieces(SessionStore):
    def import_log(self, header: SessionHeader, events: Iterable[SessionEvent]) -> int:
        kept: list[SessionEvent] = []

        def noted() -> Iterator[SessionEvent]:
            for event in events:
                kept.append(event)
                yield event

        try:
            return super().import_log(header, noted())
        except EOFError:
            super().import_log(header, kept)
            raise


class ImportsNoTimes(SessionStore):
    def import_log(self, header: SessionHeader, events: Iterable[SessionEvent]) -> int:
        wires = (event.to_wire() | {"time": 0} for event in events)
        return super().import_log(header, map(SessionEvent.from_wire, wires))


class StreamsFromTheEnd(SessionStore):
    def notifications(self, after: int, limit: int, topics: Any = ()) -> list[tuple[int, SessionEvent]]:
        found = super().notifications(after, limit, topics)
        return found[::-1] if topics else found


class HidesSessions(SessionStore):
    def sessions(self) -> Iterator[SessionHeader]:
        return (header for header in super().sessions() if not header.id.startswith("/"))


class FindsEverybody(SessionStore):
    """Makes a session that is not there."""

    def load(self, session_id: str) -> Session:
        try:
            return super().load(session_id)
        except SessionNotFoundError:
            return self.create(id=session_id)


def an_interleaving() -> Interleaving:
    """A turn and what was said after it, and two writers, of whom the second rewrites what the first has rewritten."""
    with open_in_memory() as store:
        session = store.create()
        work(session)
        base = [*session.pending]
    parts = []
    for text in ("theirs", "ours"):
        log = LogBuilder()
        log.events.extend(base)
        log.append("note", text)
        log.replace("user/message", base[0].data, 0, 0)
        log.append("note", text)
        parts.append(log.events[len(base) :])
    return Interleaving(base, *parts)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (MiscountsSaves, "how many events were saved"),
        (LoadsWithALock, "a loaded session"),
        (LastWriterWins, "expected .*ConflictError'>, found .*RebaseError"),
        (DropsWhatDoesNotFit, "what was there before RebaseError"),
        (LosesOnConflict, "what was there before ConflictError"),
        (ForksTooMuch, "what is inherited up to seq 0"),
        (ForksAnywhere, "was not refused with OpenTurnError"),
        (ResumesTwice, "what was settled"),
        (ImportsInPieces, "what was there before EOFError"),
        (ImportsNoTimes, "what was imported"),
        (StreamsFromTheEnd, "the stream of"),
        (HidesSessions, "the sessions of a store"),
        (FindsEverybody, "was not refused with SessionNotFoundError"),
    ],
)
def test_a_broken_store_is_found(broken: type[SessionStore], found: str) -> None:
    """Each broken store is told apart from a good one by the law that it breaks."""
    with open_in_memory() as store:
        check_store_laws(store, an_interleaving())
    with broken.open(":memory:") as store, pytest.raises(AssertionError, match=found):
        check_store_laws(store, an_interleaving())


def test_the_test_of_a_store_finds_what_the_laws_find() -> None:
    """A broken store fails the test that is made for it, whatever sessions it draws."""
    with pytest.raises(AssertionError, match="the sessions of a store"):
        store_test(
            lambda: HidesSessions.open(":memory:"), settings=settings(few(1), phases=[Phase.generate], database=None)
        )()

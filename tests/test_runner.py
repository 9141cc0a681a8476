"""Projections that follow a session, and tracked projections that follow a store, whatever database keeps it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Timer
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.parse import quote, urlsplit

import pytest

from dsh_projections import ProjectionError, ProjectionGroup, TrackedProjection, follow
from dsh_session import DamagedStoreError, SessionEvent, SessionHeader, SessionNotFoundError, SessionStore, StoreError
from killed_runner import BATCH, Tally
from stored import say, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsh_session import Session

KILLS = int(os.environ.get("DSH_KILLS") or 3)
RUNNER = Path(__file__).with_name("killed_runner.py")
LATENCY_SECONDS = 0.5
LONG = 20.0
"""Seconds that no test waits for, unless a wake-up fails."""


class Seen:
    """Remembers what it was fed, and may refuse one event."""

    version = 1

    def __init__(self, *topics: str, refuses: int | None = None) -> None:
        self.topics = frozenset(topics) or None
        self.refuses = refuses
        self.seqs: list[int] = []

    def apply(self, event: SessionEvent) -> None:
        if event.seq == self.refuses:
            raise KeyError("indigestible")
        self.seqs.append(event.seq)

    def view(self) -> list[int]:
        return self.seqs

    def state(self) -> Any:
        return self.seqs

    def restore(self, state: Any) -> None:
        self.seqs = state


class RoundTally(Tally):
    """A later version, which keeps its state in another shape."""

    version = 2

    def state(self) -> Any:
        return {"count": self.count}

    def restore(self, state: Any) -> None:
        self.count = state["count"]


def worked(store: SessionStore, session_id: str = "s") -> Session:
    """Return a new session with a turn and what was said after it, seqs 0 to 8, saved."""
    session = store.create(id=session_id)
    work(session)
    store.save(session)
    return session


def save_notes(store: SessionStore, session: Session, count: int = 1) -> None:
    """Save log-only events."""
    for number in range(count):
        session.append("note", number)
    store.save(session)


def later(act: Callable[..., object], *arguments: Any, seconds: float = 0.1) -> Timer:
    """Act from another thread, after some seconds."""
    timer = Timer(seconds, act, arguments)
    timer.daemon = True
    timer.start()
    return timer


# Following a session


def test_following_catches_up_and_goes_on(store: SessionStore) -> None:
    """What is saved already comes first, and each later save at once, long before anybody would look again."""
    # given
    session = worked(store)
    started = monotonic()
    following = follow(store, Seen(), "s", poll_seconds=LONG)
    # when
    seen = next(following)
    # then
    assert [*range(9)] == seen.seqs
    for length in 11, 12:
        # when
        later(save_notes, store, session, length - session.next_seq)
        next(following)
        # then
        assert [*range(length)] == seen.seqs
    following.close()
    assert monotonic() - started < LONG / 2


def test_an_empty_session_is_followed_from_its_beginning(store: SessionStore) -> None:
    """A log without events is caught up with at once, and its first event is the first that is fed."""
    # given
    session = store.create(id="s")
    following = follow(store, Seen(), "s", poll_seconds=LONG)
    assert next(following).seqs == []
    # when
    save_notes(store, session, 2)
    # then
    assert next(following).seqs == [0, 1]
    following.close()


def test_only_its_topics_are_fed(store: SessionStore) -> None:
    """A projection is fed the events of its topics, and what is none of them is no news."""
    # given
    session = worked(store)
    following = follow(store, Seen("append:user/message", "log:turn/end"), "s", poll_seconds=LONG)
    assert next(following).seqs == [0, 7, 8]
    # when
    later(save_notes, store, session)

    def speak() -> None:
        say(session, "again")
        store.save(session)

    later(speak, seconds=0.3)
    # then
    assert next(following).seqs == [0, 7, 8, 10]
    following.close()


def test_following_begins_where_the_projection_was(store: SessionStore) -> None:
    """A projection that has seen a part of the log is fed the rest."""
    # given
    session = worked(store)
    following = follow(store, Seen(), "s", start=7, poll_seconds=LONG)
    # when
    assert next(following).seqs == [7, 8]
    save_notes(store, session)
    # then
    assert next(following).seqs == [7, 8, 9]
    following.close()


def test_following_ends_when_it_is_told_to(store: SessionStore) -> None:
    """It does not begin when the end is set already, ends at once when it is set in between, and soon when it waits."""
    # given
    worked(store)
    until = Event()
    # when
    seen = Seen()
    for _ in follow(store, seen, "s", until=until, poll_seconds=LONG):
        until.set()
    # then
    assert [*range(9)] == seen.seqs
    assert [*follow(store, Seen(), "s", until=until)] == []
    # when
    until.clear()
    later(until.set)
    # then
    assert [seen.seqs for seen in follow(store, Seen(), "s", until=until, poll_seconds=0.05)] == [[*range(9)]]


def test_nobody_follows_a_session_that_is_not_there(store: SessionStore) -> None:
    """A session that the store does not have is an error, and nothing is waited for."""
    with pytest.raises(SessionNotFoundError, match="'nobody'"):
        next(follow(store, Seen(), "nobody"))


def test_a_projection_that_raises_ends_the_following(store: SessionStore) -> None:
    """The error names projection, session and seq, holds what was raised, and everything before was applied."""
    # given
    worked(store)
    seen = Seen(refuses=4)
    # when
    with pytest.raises(ProjectionError) as caught:
        next(follow(store, seen, "s"))
    # then
    assert str(caught.value) == "Seen failed at seq 4 of session 's': KeyError: 'indigestible'"
    assert (seen, "s", 4) == (caught.value.projection, caught.value.session_id, caught.value.seq)
    assert isinstance(caught.value.__cause__, KeyError)
    assert seen.seqs == [0, 1, 2, 3]


def test_one_stream_feeds_many(store: SessionStore) -> None:
    """Each projection of a group gets the events of its own topics; one that raises stops, and the others go on."""
    # given
    session = worked(store)
    every, some = Seen(), Seen("append:user/message")
    failing = Seen("append:user/message", "log:note", refuses=8)
    group = ProjectionGroup(every, failing, some)
    following = follow(store, group, "s", poll_seconds=LONG)
    # when
    next(following)
    save_notes(store, session)
    next(following)
    following.close()
    # then
    assert ([*range(10)], [0, 8], [0]) == (every.seqs, some.seqs, failing.seqs)
    assert [(failing, 8)] == [(error.projection, error.seq) for error in group.failures]


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([["a"], ["b", "a"]], {"a", "b"}),
        ([["a"], []], None),
        ([[]], None),
    ],
)
def test_a_feed_reads_what_any_of_its_projections_does(topics: list[list[str]], expected: set[str] | None) -> None:
    """The topics of a group are those of its projections together, and all of them when one of them reads all."""
    assert expected == ProjectionGroup(*(Seen(*some) for some in topics)).topics


# Following, from other processes and through outages

SAVER = """
import sys
from time import monotonic, sleep
from dsh_session import SessionStore

target, count, pause = sys.argv[1:]
with SessionStore.open(target) as store:
    session = store.load("s")
    sys.stdin.readline()
    for _ in range(int(count)):
        sleep(float(pause))
        session.append("note", monotonic())
        store.save(session)
"""


@contextmanager
def saver(target: object, count: int, pause: float) -> Iterator[Callable[[], None]]:
    """Run another process that is ready to save notes which say when, and give what makes it begin."""
    command = [sys.executable, "-c", SAVER, str(target), str(count), str(pause)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:  # noqa: S603 - a script of ours
        pipe = process.stdin
        assert pipe is not None

        def begin() -> None:
            pipe.write("\n")
            pipe.flush()

        yield begin
    assert process.returncode == 0


class Latencies(Seen):
    """Notes how long ago the notes of another process were appended."""

    def __init__(self) -> None:
        super().__init__("log:note")
        self.seconds: list[float] = []

    def apply(self, event: SessionEvent) -> None:
        self.seconds.append(monotonic() - event.data)


def test_another_process_s_save_to_a_file_is_seen_in_time(tmp_path: Path) -> None:
    """What another process saves to SQLite wakes nobody, and is seen when the log is looked at again."""
    # given
    path = tmp_path / "sessions.db"
    with SessionStore.open(path) as store, saver(path, 3, 0.3) as begin:
        store.create(id="s")
        latencies = Latencies()
        following = follow(store, latencies, "s", poll_seconds=0.1)
        next(following)
        # when
        begin()
        while len(latencies.seconds) < 3:
            next(following)
        following.close()
    # then
    assert median(latencies.seconds) < 0.1 + LATENCY_SECONDS


def test_another_process_s_save_to_a_server_wakes(postgres_url: str, record_property: Callable[..., None]) -> None:
    """What another process saves to PostgreSQL is seen at once, long before anybody would look again."""
    # given
    with SessionStore.open(postgres_url) as store:
        store.create(id="s")
        with saver(postgres_url, 40, 0.02) as begin:
            latencies = Latencies()
            following = follow(store, latencies, "s", poll_seconds=LONG)
            next(following)
            # when
            begin()
            while len(latencies.seconds) < 40:
                next(following)
            following.close()
    # then
    record_property("median_seconds", median(latencies.seconds))
    assert median(latencies.seconds) < LATENCY_SECONDS


def test_following_goes_on_after_an_outage(postgres_url: str, tmp_path: Path, hang_up: Callable[[], None]) -> None:
    """While the server is away nothing is raised; when it is back, what was saved meanwhile is seen, and wakes work."""
    # given
    with SessionStore.open(postgres_url) as other:
        session = worked(other)
        parts = urlsplit(postgres_url)
        road = tmp_path / "s"
        with other._application.factory.datastore.get_connection() as connection:  # type: ignore[attr-defined]
            road.symlink_to(connection.execute("SHOW unix_socket_directories").fetchone()["unix_socket_directories"])
        url = postgres_url.replace(f"127.0.0.1:{parts.port}", f"{quote(str(road), safe='')}:{parts.port}")
        with SessionStore.open(url) as store:
            following = follow(store, Seen(), "s", poll_seconds=0.1)
            next(following)
            # when
            gone = road.rename(tmp_path / "gone")
            hang_up()
            save_notes(other, session)
            later(gone.rename, road, seconds=0.5)
            seen = next(following)
            # then
            assert road.exists()
            assert [*range(10)] == seen.seqs
            # when
            save_notes(other, session)
            assert seen is next(following)
            following.close()
        # then
        assert [*range(11)] == seen.seqs


def rename(store: SessionStore, table: str, name: str) -> None:
    with store._application.factory.datastore.transaction(commit=True) as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"ALTER TABLE {table} RENAME TO {name}")


def test_what_was_applied_before_an_outage_is_not_applied_again(tmp_path: Path) -> None:
    """When the database fails in the middle of a long log, it goes on from there once it works."""

    class Unlucky(Seen):
        def apply(self, event: SessionEvent) -> None:
            super().apply(event)
            if len(self.seqs) == 1500:
                rename(store, "stored_events", "hidden")
                later(rename, store, "hidden", "stored_events", seconds=0.2)

    with SessionStore.open(tmp_path / "s.db") as store:
        # given
        save_notes(store, store.create(id="s"), 3000)
        # when
        following = follow(store, Unlucky(), "s", poll_seconds=0.05)
        seen = next(following)
        following.close()
    # then
    assert [*range(3000)] == seen.seqs


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_following_ends_with_its_store(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Who follows a store that is closed is told so, soon."""
    # given
    target = tmp_path / "s.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    store = SessionStore.open(target)
    worked(store)
    following = follow(store, Seen(), "s", poll_seconds=0.1)
    next(following)
    # when
    later(store.close)
    # then
    with pytest.raises(StoreError, match=r"[Cc]losed"):
        next(following)


def test_a_damaged_record_is_not_tried_again(tmp_path: Path) -> None:
    """A record that cannot be read ends the following; only what may pass is waited for."""
    with SessionStore.open(tmp_path / "s.db") as store:
        # given
        worked(store)
        with store._application.factory.datastore.transaction(commit=True) as cursor:  # type: ignore[attr-defined]
            cursor.execute("UPDATE stored_events SET state = 'x' WHERE originator_version = 4")
        # when
        with pytest.raises(DamagedStoreError) as caught:
            next(follow(store, Seen(), "s"))
    # then
    assert caught.value.seq == 3


# Tracking a store


def tracked(store: SessionStore, make: Callable[[], Any] = Tally) -> TrackedProjection[int]:
    return TrackedProjection(store, "tally", make)


def test_a_tracked_projection_catches_up(store: SessionStore) -> None:
    """It takes in every session's events, those of sessions that appear later too, once, and says how many."""
    # given
    tally = tracked(store)
    assert (tally.catch_up(), dict(tally.views()), tally.view("b")) == (0, {}, 0)
    session = worked(store, "b")
    # when
    assert (tally.catch_up(), tally.catch_up()) == (9, 0)
    save_notes(store, session, 2)
    worked(store, "a")
    # then
    assert dict(tally.views()) == {"b": 9}
    assert tally.catch_up() == 11
    assert [*tally.views()] == [("a", 9), ("b", 11)]
    assert (tally.view("a"), tally.view("b"), tally.view("nobody")) == (9, 11, 0)


def test_headers_are_no_events(store: SessionStore) -> None:
    """However many sessions without events there are, those behind them are found."""
    # given
    with patch("dsh_projections.runner.BATCH", 2):
        for _ in range(5):
            store.create()
        worked(store)
        # when
        applied = tracked(store).catch_up()
    # then
    assert applied == 9


def test_only_the_events_of_its_topics_are_tracked(store: SessionStore) -> None:
    """A tracked projection is fed the events of its topics alone."""
    # given
    worked(store)
    users = TrackedProjection(store, "users", lambda: Seen("append:user/message"))
    # when
    applied = users.catch_up()
    # then
    assert (applied, users.view("s")) == (2, [0, 8])


def test_each_batch_is_kept_as_it_is_applied(store: SessionStore) -> None:
    """A long way is gone in batches; where one of them fails, those before it are kept."""
    # given
    worked(store)
    worked(store, "t")
    refusing = TrackedProjection(store, "seen", lambda: Seen(refuses=7))
    # when
    with patch("dsh_projections.runner.BATCH", 3), pytest.raises(ProjectionError, match=r"^Seen failed at seq 7 of "):
        refusing.catch_up()
    # then
    assert {"s": [*range(5)]} == dict(refusing.views())  # the first batch holds the header


def test_a_projection_that_raises_stays_where_it_is_and_can_go_on(store: SessionStore) -> None:
    """It raises each time that it is tried; when it is mended it goes on from there. Others of the store go on."""
    # given
    worked(store)
    with patch("dsh_projections.runner.BATCH", 3):
        refusing = TrackedProjection(store, "seen", lambda: Seen(refuses=7))
        for _ in range(2):
            with pytest.raises(ProjectionError):
                refusing.catch_up()
        assert tracked(store).catch_up() == 9
        # when
        mended: TrackedProjection[list[int]] = TrackedProjection(store, "seen", Seen)
        kept = len(mended.view("s"))
        applied = mended.catch_up()
    # then
    assert kept > 0
    assert (9 - kept, [*range(9)]) == (applied, mended.view("s"))


def test_a_state_that_cannot_be_kept_is_the_projection_s_fault(store: SessionStore) -> None:
    """A state that is no JSON value is refused as an event is, by the last event that it came from."""
    # given
    worked(store)

    class Unkeepable(Tally):
        def state(self) -> Any:
            return 2**63

    tally = tracked(store, Unkeepable)
    # when
    with pytest.raises(ProjectionError, match=r"^Unkeepable failed at seq 8 of session 's': NotJSONError"):
        tally.catch_up()
    # then
    assert dict(tally.views()) == {}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_tracked_projection_goes_on_after_a_restart(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """States and position are in the store, for whoever opens it next."""
    # given
    target = tmp_path / "s.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    with SessionStore.open(target) as store:
        session = worked(store)
        tracked(store).catch_up()
    # when
    with SessionStore.open(target) as store:
        tally = tracked(store)
        found = tally.view("s")
        save_notes(store, session)
        applied = tally.catch_up()
        # then
        assert (found, applied, tally.view("s")) == (9, 1, 10)


def test_another_version_is_built_anew(store: SessionStore) -> None:
    """States of another version are never read, whichever is the newer; the first batch throws them away."""
    # given
    worked(store)
    worked(store, "t")
    old, new = tracked(store), tracked(store, RoundTally)
    assert old.catch_up() == 18
    # when
    assert (dict(new.views()), new.view("s")) == ({}, 0)
    assert dict(old.views()) == {"s": 9, "t": 9}
    assert new.catch_up() == 18
    # then
    assert dict(new.views()) == {"s": 9, "t": 9}
    assert dict(old.views()) == {}
    assert (old.catch_up(), old.catch_up(), new.catch_up()) == (18, 0, 18)


def test_of_two_runners_one_applies(store: SessionStore) -> None:
    """What another runner has taken in while this one was at it, is not applied again."""
    # given
    worked(store)
    other = tracked(store)
    applied_by_other: list[int] = []

    class Overtaken(Tally):
        def apply(self, event: SessionEvent) -> None:
            super().apply(event)
            if not applied_by_other:
                applied_by_other.append(other.catch_up())

    # when
    applied = tracked(store, Overtaken).catch_up()
    # then
    assert (applied, applied_by_other, other.view("s")) == (0, [9], 9)


def test_another_runner_s_states_are_no_reason_to_fail(store: SessionStore) -> None:
    """Where another runner has moved the states between two reads, nobody is blamed for what comes of that."""
    # given
    worked(store)
    other = tracked(store)
    read = store.notifications

    def read_late(*arguments: Any) -> Any:
        found = read(*arguments)
        reads.stop()
        assert other.catch_up() == 9
        return found

    reads = patch.object(store, "notifications", read_late)
    reads.start()
    # when
    applied = tracked(store).catch_up()
    # then
    assert (applied, other.view("s")) == (0, 9)


def test_many_runners_apply_each_event_once(store: SessionStore) -> None:
    """Many runners of one name, while the store grows, apply every event once and in its order."""
    # given
    with patch("dsh_projections.runner.BATCH", 3), ThreadPoolExecutor(4) as pool:
        sessions = [store.create(id=str(number)) for number in range(4)]
        done = Event()

        def run(_: int) -> int:
            tally, applied = tracked(store), 0
            while not done.is_set():
                applied += tally.catch_up()
            return applied + tally.catch_up()

        running = [pool.submit(run, number) for number in range(3)]
        # when
        for number in range(40):
            save_notes(store, sessions[number % 4], 1 + number % 3)
        done.set()
        applied = sum(runner.result() for runner in running)
    # then
    lengths = {session.id: session.next_seq for session in sessions}
    assert (sum(lengths.values()), lengths) == (applied, dict(tracked(store).views()))


def test_a_tracked_projection_follows(store: SessionStore) -> None:
    """It catches up, and then takes in each save at once, of any session, until it is told to end."""
    # given
    session = worked(store)
    until = Event()
    started = monotonic()
    following = tracked(store).follow(until=until, poll_seconds=LONG)
    # when
    tally = next(following)
    assert dict(tally.views()) == {"s": 9}
    later(save_notes, store, session)
    next(following)
    # then
    assert dict(tally.views()) == {"s": 10}
    # when
    later(worked, store, "t")
    next(following)
    # then
    assert dict(tally.views()) == {"s": 10, "t": 9}
    until.set()
    assert [*following] == []
    assert monotonic() - started < LONG / 2


def test_a_tracked_projection_outlasts_an_outage(tmp_path: Path) -> None:
    """A database that cannot be read for a while is tried again; what was taken in before is shown, and stays so."""

    class Unlucky(Tally):
        def apply(self, event: SessionEvent) -> None:
            super().apply(event)
            if self.count == 10:
                rename(store, "stored_events", "hidden")
                later(rename, store, "hidden", "stored_events", seconds=0.2)

    with SessionStore.open(tmp_path / "s.db") as store:
        # given
        session = worked(store)
        until = Event()
        later(until.set, seconds=LONG)
        following = tracked(store, Unlucky).follow(until=until, poll_seconds=0.05)
        next(following)
        # when
        save_notes(store, session)
        tally = next(following)
        following.close()
        # then
        assert not until.is_set()
        assert tally.view("s") == 10


def test_a_tracked_projection_says_what_the_database_cannot(tmp_path: Path) -> None:
    """While the database cannot do it, whatever is asked is an error of the store."""
    with SessionStore.open(tmp_path / "s.db") as store:
        # given
        worked(store)
        tally = tracked(store)
        tally.catch_up()
        asks: list[Callable[[], Any]] = [tally.catch_up, lambda: tally.view("s"), lambda: [*tally.views()]]
        rename(store, "tracked_positions", "hidden")
        # when
        for ask in asks:
            with pytest.raises(StoreError, match="no such table: tracked_positions"):
                ask()


# Killed


def notes(count: int) -> Iterator[SessionEvent]:
    return (SessionEvent("", seq, seq, "note", b"null") for seq in range(count))


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_state_and_position_survive_a_kill_together(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """After each kill the states are those of the position, to the event; in the end every count is exact."""
    # given
    target = str(tmp_path / "s.db") if database == "sqlite" else request.getfixturevalue("postgres_url")
    chance = random.Random()  # noqa: S311 - the moments are any
    with SessionStore.open(target) as store:
        shared = store.create(id="shared")
        for kill in range(KILLS):
            store.import_log(SessionHeader(id=str(kill), created_at=0), notes(100 * BATCH))
            command = [sys.executable, str(RUNNER), target]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:  # noqa: S603 - a script of ours
                assert runner.stdout is not None
                runner.stdout.readline()
                # when
                save_notes(store, shared, 5)
                sleep(chance.uniform(0, 0.1))
                assert runner.poll() is None
                runner.kill()
            # then
            position = store.tracker().position("tally", Tally.version)
            reached = (event.session_id for at, event in store.notifications(0, 10**9) if at <= position)
            assert Counter(reached) == dict(tracked(store).views())
        tally = tracked(store)
        tally.catch_up()
        lengths = {header.id: len(store.log(header.id)) for header in store.sessions()}
        assert lengths == dict(tally.views())

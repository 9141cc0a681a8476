"""The contract of a store, whatever database keeps it: create, save, load, resume, rebase, fork, import, list."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import attrs
import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    ConflictError,
    DamagedStoreError,
    EventNotFoundError,
    InvalidEventError,
    InvalidHeaderError,
    InvalidOptionError,
    InvalidSurfaceError,
    OpenTurnError,
    RebaseError,
    Replace,
    SessionEvent,
    SessionExistsError,
    SessionHeader,
    SessionNotFoundError,
    SessionStore,
    StoreError,
    fold_surface,
    interrupted_turn_closers,
)
from dsh_session.session import Session
from dsh_session.testing import logs, naive_surface
from stored import compact, dump, fill, moves, newest_row, owned, say, view, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


on_any_store = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
snapshot_every = partial(patch, "dsh_session.storage.snapshots.SNAPSHOT_EVERY")
NASTY_IDS = [
    "a",
    " ",
    "/etc/../passwd",
    "x'); DROP TABLE stored_events; --",
    '"quoted"',
    "per%cent_?",
    "new\nline\x01",
    "größe 😀",
    "l" * 10_000,
]


def worked(store: SessionStore, session_id: str = "s") -> Session:
    """Return a new session with a turn and what was said after it, seqs 0 to 8, saved."""
    session = store.create(id=session_id)
    work(session)
    store.save(session)
    return session


def snapshots_are(store: SessionStore, *found: StoredEvent) -> Any:
    """Let a store find these snapshots and no other."""
    return patch.object(store._snapshots.recorder, "select_events", return_value=found)


# Saving and loading


@on_any_store
@given(events=logs(moves()), saves=st.sets(st.integers(0, 40)), every=st.sampled_from([1, 4, 1000]))
def test_a_session_is_loaded_as_it_was_saved(
    store: SessionStore, events: list[SessionEvent], saves: set[int], every: int
) -> None:
    """Whenever it was saved and wherever snapshots lie: live, by a snapshot or by a replay, it is the same session."""
    # given
    session = store.create()
    with snapshot_every(every):
        for event in events:
            session.append_event(event)
            if event.seq in saves:
                store.save(session)
        store.save(session)
    # when
    loaded = store.load(session.id)
    with snapshots_are(store):
        replayed = store.load(session.id)
    # then
    assert view(session) == view(loaded) == view(replayed)
    assert owned(events, session.id) == [*store.log(session.id)]
    assert naive_surface(events).nodes == loaded.surface.nodes
    assert (session.pending, loaded.pending, replayed.pending) == ((), (), ())


def test_a_turn_that_begins_without_a_number_ends_no_other(store: SessionStore) -> None:
    """A boundary that nobody should write is taken as it was taken live: the open turn stays open, with its calls."""
    # given
    session = store.create(id="s")
    fill(session, [event for event in crashed_log() if event.type != "compact/start"])
    session.append("turn/start", {})
    store.save(session)
    # when
    loaded = store.load("s")
    # then
    assert session.state() == loaded.state()
    assert loaded.open_turn.unanswered == ["started", "not started"]


def test_a_loaded_session_goes_on(store: SessionStore) -> None:
    """What is appended to a loaded session lands behind the log, with the nodes that only the store knows."""
    # given
    worked(store)
    session = store.load("s")
    # when
    compact(session, 0, 5, "in short")
    store.save(session)
    # then
    assert [message["id"] for message in store.load("s").messages()] == ["in short", "thanks"]


def test_a_save_says_how_many_events_it_saved(store: SessionStore) -> None:
    """With nothing pending it is 0 and writes nothing, also right after a save."""
    # given
    session = store.create()
    assert store.save(session) == 0
    say(session, "one")
    say(session, "two")
    # when
    saved = store.save(session)
    # then
    before = dump(store)
    assert (saved, store.save(session)) == (2, 0)
    assert before == dump(store)


def test_a_snapshot_is_taken_when_enough_was_saved(store: SessionStore) -> None:
    """One lies behind as many events as are configured, and as many as the surface has nodes."""
    # given
    session = store.create()
    taken = []
    # when
    with snapshot_every(2):
        for number in range(12):
            say(session, str(number))
            store.save(session)
            taken.append(session.snapshot_seq)
    # then
    assert taken == [0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    compact(session, 0, 11, "short")
    with snapshot_every(2):
        store.save(session)
    assert session.snapshot_seq == 16 == store.load(session.id).snapshot_seq


@pytest.mark.parametrize(
    "changes",
    [
        {"state": b""},
        {"state": b'{"nodes":[0,3,5,8]'},
        {"state": b"\xff"},
        {"state": b"[]"},
        {"state": b'{"nodes":1}'},
        {"state": b'{"nodes":[99],"next_seq":1,"generation":0,"open_turn":[]}'},
        {"state": None},
        {"topic": "snapshot:0"},
        {"originator_version": 10},
    ],
)
def test_a_snapshot_that_is_of_no_use_costs_time_only(store: SessionStore, changes: dict[str, Any]) -> None:
    """A snapshot that is damaged, of another version of the library, or ahead of the log is passed over."""
    # given
    session = store.create(id="s")
    work(session)
    with snapshot_every(1):
        store.save(session)
    [snapshot] = store._snapshots.recorder.select_events("s")
    # when
    with snapshots_are(store, replace(snapshot, **changes)):
        loaded = store.load("s")
    # then
    assert view(session) == view(loaded)
    assert (session.snapshot_seq, loaded.snapshot_seq) == (9, 0)


def test_a_load_only_looks(store: SessionStore) -> None:
    """Loading writes nothing, whatever a crash left open."""
    # given
    session = store.create(id="s")
    fill(session, crashed_log())
    store.save(session)
    before = dump(store)
    # when
    loaded = store.load("s")
    # then
    assert before == dump(store)
    assert session.state() == loaded.state()


def test_a_store_that_is_closed_serves_nobody(store: SessionStore) -> None:
    """After its close a store refuses to work, and what a session has pending is kept; to close again is to close."""
    # given
    session = worked(store)
    say(session, "late")
    log = store.log("s")
    # when
    store.close()
    store.close()
    # then
    refused: list[Callable[[], object]] = [
        lambda: store.save(session),
        lambda: store.load("s"),
        store.create,
        lambda: store.fork("s"),
        lambda: len(log),
        lambda: [*store.sessions()],
        lambda: store.notifications(0, 1),
        store.watch,
    ]
    for ask in refused:
        with pytest.raises(StoreError, match="the store is closed"):
            ask()
    assert len(session.pending) == 1


def test_a_session_of_another_store_is_not_saved(store: SessionStore) -> None:
    """A session that the store does not have is not found; its pending events are kept, and nothing is written."""
    # given
    with SessionStore.open(":memory:") as other:
        session = other.create(id="s")
    say(session, "hello")
    before = view(session), session.pending, dump(store)
    # when
    for on_conflict in ("raise", "rebase"):
        with pytest.raises(SessionNotFoundError) as caught:
            store.save(session, on_conflict=on_conflict)  # type: ignore[arg-type] # a literal all the same
    # then
    assert caught.value.session_id == "s"
    assert before == (view(session), session.pending, dump(store))


# Creating and listing


@pytest.mark.parametrize("session_id", NASTY_IDS)
def test_an_id_is_any_text(store: SessionStore, session_id: str) -> None:
    """Ids are opaque: whatever they look like, they name one session and do nothing."""
    # given
    worked(store, "other")
    # when
    session = worked(store, session_id)
    # then
    assert view(session) == view(store.load(session_id))
    assert session_id == store.fork(session_id, new_id=session_id + "'").header.parent_session
    assert sorted([session_id, "other", session_id + "'"]) == [header.id for header in store.sessions()]


@pytest.mark.parametrize("session_id", ["", 5, b"s", "torn \ud83d", "\udc80", "nul\0"])
def test_what_is_no_id_is_refused(store: SessionStore, session_id: Any) -> None:
    """An id is a non-empty str that a database can hold; anything else is refused by name, and nothing is kept."""
    # given
    worked(store)
    before = dump(store)
    attempts: list[Callable[[], Any]] = [
        lambda: store.create(id=session_id),
        lambda: store.fork("s", new_id=session_id),
        lambda: store.import_log(SessionHeader(id=session_id, created_at=0), ()),
    ]
    # when
    for attempt in attempts:
        with pytest.raises(InvalidHeaderError) as caught:
            attempt()
        # then
        assert f"id is {session_id!r}" in str(caught.value).replace("id '", "id is '")
    assert before == dump(store)


@pytest.mark.parametrize("session_id", ["nobody", "torn \ud83d", "nul\0"])
def test_a_session_that_is_not_there_is_not_found(store: SessionStore, session_id: str) -> None:
    """Everything that takes an id says that there is no such session, also of an id that no store can hold."""
    # given
    session = Session(SessionHeader(id=session_id, created_at=0))
    say(session, "hello")
    asked: list[Callable[[], Any]] = [
        *(partial(ask, session_id) for ask in (store.load, store.resume, store.header, store.fork)),
        *(partial(ask, session) for ask in (store.save, store.rebase)),
    ]
    # when
    for ask in asked:
        with pytest.raises(SessionNotFoundError) as caught:
            ask()
        # then
        assert session_id == caught.value.session_id
        assert isinstance(caught.value, LookupError)


def test_a_taken_id_is_refused(store: SessionStore) -> None:
    """A second session of one id is refused, however it would come to be, and the first is left alone."""
    # given
    worked(store, "s")
    worked(store, "t")
    before = dump(store)
    attempts: list[Callable[[], Any]] = [
        lambda: store.create(id="s"),
        lambda: store.fork("t", new_id="s"),
        lambda: store.fork("s", new_id="s"),
        lambda: store.import_log(SessionHeader(id="s", created_at=0), store.log("t")),
    ]
    # when
    for attempt in attempts:
        with pytest.raises(SessionExistsError) as caught:
            attempt()
        # then
        assert caught.value.session_id == "s"
    assert before == dump(store)


def test_a_header_is_kept_at_once(store: SessionStore) -> None:
    """A session that was created is there, with all that it was created with; minted ids differ."""
    # when
    session = store.create(cwd="/repo", origin={"by": "cli"}, delegation_depth=1, agent_preset="p")
    other = store.create()
    # then
    expected = SessionHeader(
        id=session.id,
        created_at=session.header.created_at,
        cwd="/repo",
        origin={"by": "cli"},
        delegation_depth=1,
        agent_preset="p",
    )
    assert expected == session.header == store.header(session.id) == store.load(session.id).header
    assert session.id != other.id
    assert session.header.created_at < other.header.created_at


def test_a_header_that_is_wrong_is_not_kept(store: SessionStore) -> None:
    """A session is not created with a relative path, and leaves no trace."""
    with pytest.raises(InvalidHeaderError, match="cwd"):
        store.create(cwd="repo")
    assert dump(store) == []


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_all_sessions_are_listed_once(store: SessionStore, count: int) -> None:
    """The headers of all sessions are listed in the order of their ids, however many batches that takes."""
    # given
    expected = [store.create(id=session_id).header for session_id in ["é", "z", "a", "Z", "😀"][:count]]
    # when
    with patch("dsh_session.storage.store.BATCH", 2):
        actual = [*store.sessions()]
    # then
    assert sorted(expected, key=lambda header: header.id) == actual


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_a_damaged_header_hides_no_other(store: SessionStore) -> None:
    """A header that cannot be read ends a list that nobody asked to go on, and is told of in one that goes on."""
    # given
    for session_id in ("a", "b", "c"):
        store.create(id=session_id)
    recorder: Any = store._recorder
    with recorder.datastore.transaction(commit=True) as cursor:
        cursor.execute(f"UPDATE {recorder.events_table_name} SET state = 'x' WHERE originator_id = 'b'")  # noqa: S608 - ours
    damage: list[DamagedStoreError] = []
    # then
    assert [header.id for header in store.sessions(on_damage=damage.append)] == ["a", "c"]
    assert [error.session_id for error in damage] == ["b"]
    with pytest.raises(DamagedStoreError, match="session 'b': its header: "):
        [*store.sessions()]


# Two writers


def test_a_conflict_keeps_what_is_pending(store: SessionStore) -> None:
    """The second writer of a session is told what it built on and what it met; nothing is written, nothing is lost."""
    # given
    worked(store)
    ours, theirs = store.load("s"), store.load("s")
    say(theirs, "theirs")
    say(theirs, "theirs too")
    store.save(theirs)
    say(ours, "ours")
    before = view(ours), ours.pending, dump(store)
    # when
    with pytest.raises(ConflictError) as caught:
        store.save(ours)
    # then
    assert (caught.value.session_id, caught.value.expected, caught.value.actual) == ("s", 9, 11)
    assert before == (view(ours), ours.pending, dump(store))


def test_a_shorter_log_is_a_conflict_too(store: SessionStore) -> None:
    """A store whose log ends before the pending events do not follow gets no gap."""
    # given
    with SessionStore.open(":memory:") as other:
        session = worked(other)
    say(session, "next")
    say(store.create(id="s"), "never saved")
    before = dump(store)
    # when
    with pytest.raises(ConflictError) as caught:
        store.save(session)
    # then
    assert (caught.value.expected, caught.value.actual) == (9, 0)
    assert before == dump(store)


@pytest.mark.parametrize("spelling", ["compact", "compaction"])
def test_a_rebase_moves_every_seq_that_pending_events_name(store: SessionStore, spelling: str) -> None:
    """Markers, provenance and the seqs in records of compaction and titles move with the events that they name."""
    # given
    worked(store)
    ours, theirs = store.load("s"), store.load("s")
    say(theirs, "theirs")
    store.save(theirs)
    say(ours, "ours")
    compact(ours, 9, 9, "in short", spelling=spelling)
    ours.append(f"{spelling}/prune", {"shadowedRange": {"start": 12, "end": 0}, "shadowedSeqs": [12, 0], "at": 12})
    ours.append("session/title", {"title": "t", "messageSeqs": [0, 9]})
    ours.append("note", {"shadowedSeqs": [9], "messageSeqs": [9]})
    # when
    store.rebase(ours)
    # then
    assert [*range(10, 18)] == [event.seq for event in ours.pending]
    _, _, summary, checkpoint, _, prune, title, note = ours.pending
    assert (Replace(10, 10), (11, 12, 10)) == (checkpoint.surface_op, checkpoint.source_event_seqs)
    assert (summary.data["shadowedRange"], summary.data["shadowedSeqs"]) == ({"start": 10, "end": 10}, [10])
    assert prune.data == {"shadowedRange": {"start": 13, "end": 0}, "shadowedSeqs": [13, 0], "at": 12}
    assert title.data == {"title": "t", "messageSeqs": [0, 10]}
    assert note.data == {"shadowedSeqs": [9], "messageSeqs": [9]}
    assert ours.surface.nodes == (0, 3, 5, 8, 9, 13)
    assert store.save(ours) == 8


def test_a_rebase_carries_what_it_does_not_know(store: SessionStore) -> None:
    """A record whose data has another shape than such records have is moved as it is."""
    # given
    worked(store)
    ours, theirs = store.load("s"), store.load("s")
    say(theirs, "theirs")
    store.save(theirs)
    odd: list[Any] = [
        None,
        "shadowedSeqs",
        [{"shadowedSeqs": [9]}],
        {"shadowedSeqs": None, "shadowedRange": [9, 9], "messageSeqs": 9},
        {"shadowedSeqs": [True, 9.0, "9", None, [9], 8], "shadowedRange": {"start": "9", "end": None}},
    ]
    for kind in ("compact/prune", "compaction/prune", "session/title"):
        for data in odd:
            ours.append(kind, data)
    expected = [event.encoded_data for event in ours.pending]
    # when
    store.save(ours, on_conflict="rebase")
    # then
    assert expected == [event.encoded_data for event in store.log("s").read(10)]


def test_a_rebase_without_another_writer_changes_nothing(store: SessionStore) -> None:
    """The pending events stay where they are."""
    # given
    session = worked(store)
    say(session, "next")
    before = view(session), session.pending
    # when
    store.rebase(session)
    # then
    assert before == (view(session), session.pending)


def test_a_rebase_without_another_writer_refuses_nothing(store: SessionStore) -> None:
    """What was appended stands where it stood, also a record of a compaction that nobody began."""
    # given
    session = worked(store)
    session.append("compact/end", {"compactionId": "c", "turn": None})
    # when
    store.rebase(session)
    # then
    assert store.save(session) == 1


def test_a_rebase_that_does_not_fit_changes_nothing(store: SessionStore) -> None:
    """When another's compaction took what ours would take, the error names our first such event, and ours is kept."""
    # given
    worked(store)
    ours, theirs = store.load("s"), store.load("s")
    compact(theirs, 0, 3, "theirs")
    store.save(theirs)
    say(ours, "ours")
    compact(ours, 3, 5, "ours in short")
    before = view(ours), ours.pending, dump(store)
    # when
    with pytest.raises(RebaseError, match="seq 12 does not fit behind the 4 events of another writer") as caught:
        store.save(ours, on_conflict="rebase")
    # then
    assert (
        caught.value.session_id,
        caught.value.expected,
        caught.value.actual,
        caught.value.seq,
    ) == ("s", 9, 13, 12)
    assert "the replacement starts at 3, which is no node" in caught.value.reason
    assert before == (view(ours), ours.pending, dump(store))


def test_a_save_gives_up_when_others_never_rest(store: SessionStore) -> None:
    """A save that rebases tries often, and then says that there is a conflict; what is pending is kept."""
    # given
    session = worked(store)
    say(session, "ours")
    pending = session.pending
    # when
    always_taken = patch.object(store._recorder, "insert_after", side_effect=IntegrityError)
    attempts = patch("dsh_session.storage.store.REBASE_ATTEMPTS", 7)
    with always_taken as insert, attempts, pytest.raises(ConflictError):
        store.save(session, on_conflict="rebase")
    # then
    assert 7 <= insert.call_count <= 8
    assert pending == session.pending


@pytest.fixture
def unanswered(store: SessionStore) -> Session:
    """A session whose last save, of seqs 9 and 10, reached the database, but the answer was lost."""
    session = worked(store)
    say(session, "one")
    say(session, "two")
    insert = store._recorder.insert_after

    def lose_the_answer(*args: Any, **kwargs: Any) -> None:
        insert(*args, **kwargs)
        raise StoreError("the line went dead")

    with patch.object(store._recorder, "insert_after", lose_the_answer), pytest.raises(StoreError):
        store.save(session)
    assert len(session.pending) == 2
    return session


@pytest.mark.parametrize("on_conflict", ["raise", "rebase"])
def test_a_lost_answer_is_no_conflict(store: SessionStore, unanswered: Session, on_conflict: Any) -> None:
    """Events that are already there, since only the answer of their save was lost, are saved, whoever came after."""
    # given
    other = store.load("s")
    say(other, "three")
    store.save(other)
    before = dump(store)
    # when
    saved = store.save(unanswered, on_conflict=on_conflict)
    # then
    assert saved == 2
    assert unanswered.pending == ()
    assert before == dump(store)


@pytest.mark.parametrize("on_conflict", ["raise", "rebase"])
def test_what_follows_a_lost_answer_is_saved_once(store: SessionStore, unanswered: Session, on_conflict: Any) -> None:
    """What was appended after the answer was lost lands behind what is there, and nothing lands twice."""
    # given
    say(unanswered, "three")
    # when
    saved = store.save(unanswered, on_conflict=on_conflict)
    # then
    assert saved == 3
    assert [message["id"] for message in store.load("s").messages()][-4:] == ["thanks", "one", "two", "three"]


def test_a_rebase_after_a_lost_answer_puts_nothing_twice(store: SessionStore, unanswered: Session) -> None:
    """A rebase of events that are already there leaves nothing to save but what came after them."""
    # given
    other = store.load("s")
    say(other, "theirs")
    store.save(other)
    say(unanswered, "three")
    # when
    store.rebase(unanswered)
    # then
    assert [(event.seq, event.data["id"]) for event in unanswered.pending] == [(12, "three")]


def test_a_save_that_never_arrived_is_made_again(store: SessionStore) -> None:
    """When an answer was lost and the events with it, they are in conflict with what another writer put there."""
    # given
    ours = worked(store)
    say(ours, "ours")
    with patch.object(store._recorder, "insert_after", side_effect=StoreError("no line")), pytest.raises(StoreError):
        store.save(ours)
    theirs = store.load("s")
    say(theirs, "theirs")
    store.save(theirs)
    # when
    with pytest.raises(ConflictError):
        store.save(ours)
    store.save(ours, on_conflict="rebase")
    # then
    assert [message["id"] for message in store.load("s").messages()][-3:] == ["thanks", "theirs", "ours"]


def test_two_writers_who_say_the_same_have_both_said_it(store: SessionStore) -> None:
    """Equal events of two writers, byte for byte and to the millisecond, are two events."""
    # given
    ours = worked(store)
    theirs = store.load("s")
    for session in (ours, theirs):
        session.append("turn/start", {"turn": 2}, time=0)
    store.save(theirs)
    # when
    with pytest.raises(ConflictError):
        store.save(ours)
    store.save(ours, on_conflict="rebase")
    # then
    assert [event.seq for event in store.log("s") if event.data == {"turn": 2}] == [9, 10]


# Forking


@settings(on_any_store, max_examples=10)
@given(logs(moves(), max_moves=10))
def test_a_fork_is_the_prefix(store: SessionStore, events: list[SessionEvent]) -> None:
    """At every seq where no turn is open, the child is the prefix and the end of its seed; elsewhere it is refused."""
    # given
    parent = store.create()
    fill(parent, events)
    store.save(parent)
    kept = [*store.log(parent.id)]
    for at in range(len(events)):
        prefix = events[: at + 1]
        if interrupted_turn_closers(prefix):
            before = newest_row(store)
            # when
            with pytest.raises(OpenTurnError) as caught:
                store.fork(parent.id, at)
            # then
            assert at == caught.value.seq
            assert before == newest_row(store)
            continue
        # when
        child = store.fork(parent.id, at)
        # then
        *inherited, last = store.log(child.id)
        assert owned(prefix, child.id) == inherited
        assert ("session/end-seed", {}, at + 1) == (last.type, last.data, last.seq)
        assert (parent.id, at + 1) == (child.header.parent_session, child.header.seed_length)
        assert fold_surface(prefix).nodes == child.surface.nodes
        assert view(child) == view(store.load(child.id))
        assert child.pending == ()
    assert kept == [*store.log(parent.id)]


def test_an_open_turn_is_named(store: SessionStore) -> None:
    """A fork inside a turn is refused with the turn's number, and advice."""
    # given
    worked(store)
    # when
    with pytest.raises(OpenTurnError, match="seq 4 lies inside turn 1; fork where no turn is open") as caught:
        store.fork("s", 4)
    # then
    assert caught.value.seq == 4


@pytest.mark.parametrize("at", [-1, 9, 10**30, "1", 1.5])
def test_a_fork_at_no_event_is_refused(store: SessionStore, at: Any) -> None:
    """A seq that the parent's log does not have is refused, and so is what is no seq."""
    # given
    worked(store)
    before = dump(store)
    # when
    with pytest.raises(EventNotFoundError, match="no event at seq"):
        store.fork("s", at)
    # then
    assert before == dump(store)


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_a_log_with_a_hole_is_not_forked(store: SessionStore) -> None:
    """A child of a log whose rows somebody took away is refused, and nothing of it is kept."""
    # given
    worked(store)
    recorder: Any = store._recorder
    with recorder.datastore.transaction(commit=True) as cursor:
        cursor.execute(f"DELETE FROM {recorder.events_table_name} WHERE originator_version = 3")  # noqa: S608 - ours
    before = dump(store)
    # when
    with pytest.raises(DamagedStoreError, match="session 's': of its first 9 events only 8 are there"):
        store.fork("s")
    # then
    assert before == dump(store)


def test_a_child_goes_its_own_way(store: SessionStore) -> None:
    """What is said in a child is not said in its parent; a child's fork is a child of the child."""
    # given
    worked(store)
    # when
    child = store.fork("s", new_id="child")
    say(child, "in the child")
    store.save(child)
    grandchild = store.fork("child", new_id="grandchild")
    say(grandchild, "in the grandchild")
    store.save(grandchild)
    # then
    assert [len(store.log(session_id)) for session_id in ("s", "child", "grandchild")] == [9, 11, 13]
    assert (grandchild.header.parent_session, grandchild.header.seed_length) == ("child", 11)
    said = [message["id"] for message in grandchild.messages()]
    assert said == ["go", "a", "r", "thanks", "in the child", "in the grandchild"]


def test_a_child_is_set_up_as_its_parent(store: SessionStore) -> None:
    """It has the parent's directory, origin, depth and preset, and a time of its own."""
    # given
    parent = store.create(id="s", cwd="/repo", origin="cli", delegation_depth=1, agent_preset={"name": "p"})
    # when
    child = store.fork("s", new_id="child")
    # then
    expected = attrs.evolve(
        parent.header, id="child", created_at=child.header.created_at, parent_session="s", seed_length=0
    )
    assert expected == child.header == store.header("child")
    assert parent.header.created_at < child.header.created_at
    assert [event.type for event in store.log("child")] == ["session/end-seed"]


# Resuming


def crashed_log() -> list[SessionEvent]:
    """A log that was cut short in a turn, with one call started, one not, and a compaction that never ended."""
    with SessionStore.open(":memory:") as store:
        session = store.create()
        work(session)
        session.append("turn/start", {"turn": 2})
        session.append("step/start", {"turn": 2, "step": 1})
        message = session.surface.event(3).data | {"turn": 2, "step": 1}
        call = message["message"]["content"][0]
        message["message"]["content"] = [call | {"id": "started"}, call | {"id": "not started"}]
        session.append("assistant/message", message, APPEND, [])
        session.append("tool/call", {"turn": 2, "step": 1, "callId": "started", "name": "run", "arguments": "{}"})
        session.append("compact/start", {"compactionId": "c", "turn": 2})
        return [*session.pending]


def test_a_resume_settles_what_a_crash_left(store: SessionStore) -> None:
    """Calls get their error results, the turn is ended, no old lock counts, and all so far is marked as seed."""
    # given
    events = crashed_log()
    session = store.create(id="s")
    fill(session, events)
    store.save(session)
    assert session.open_compaction is not None
    # when
    resumed = store.resume("s")
    # then
    *kept, unknown, not_started, step_end, turn_end, seed_end = store.log("s")
    assert owned(events, "s") == kept
    assert (
        unknown.data["error"]["code"],
        not_started.data["error"]["code"],
    ) == ("TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED")
    assert step_end.data == {"turn": 2, "step": 1}
    assert turn_end.data == {"turn": 2, "reason": {"kind": "interrupted"}}
    assert seed_end.type == "session/end-seed"
    assert {events[-1].time} == {event.time for event in (unknown, not_started, step_end, turn_end)}
    assert (resumed.open_compaction, resumed.pending, resumed.repair_events()) == (None, (), [])
    assert view(resumed) == view(store.load("s"))


def test_a_resumed_session_that_nobody_touched_is_left_as_it_is(store: SessionStore) -> None:
    """Resuming twice writes once; a session without events needs no mark; one that went on gets a new one."""
    # given
    worked(store)
    store.create(id="empty")
    store.resume("s")
    before = dump(store)
    # when
    again, empty = store.resume("s"), store.resume("empty")
    # then
    assert before == dump(store)
    assert (again.next_seq, empty.next_seq) == (10, 0)
    say(again, "on")
    store.save(again)
    assert store.resume("s").next_seq == 12


def test_a_resume_takes_others_events_in(store: SessionStore) -> None:
    """When another writer appends between its look and its save, a resume looks again."""
    # given
    worked(store)
    interrupt = iter(["once"])

    def clock_of_a_busy_store() -> int:
        for text in interrupt:
            other = store.load("s")
            say(other, text)
            SessionStore.save(store, other)
        return 0

    # when
    with patch.object(store, "_clock", clock_of_a_busy_store):
        resumed = store.resume("s")
    # then
    assert [resumed.messages()[-1]["id"], store.log("s")[-1].type] == ["once", "session/end-seed"]
    assert 11 == resumed.next_seq == len(store.log("s"))


def test_a_resume_gives_up_when_others_never_rest(store: SessionStore) -> None:
    """A session that others keep writing to is not resumed, and the error says so."""
    # given
    worked(store)
    # when
    always_taken = patch.object(store._recorder, "insert_after", side_effect=IntegrityError)
    attempts = patch("dsh_session.storage.store.REBASE_ATTEMPTS", 7)
    busy = "other writers kept session 's' busy; it was not resumed"
    with always_taken as insert, attempts, pytest.raises(StoreError, match=busy):
        store.resume("s")
    # then
    assert insert.call_count == 7
    assert len(store.log("s")) == 9


# Importing


@on_any_store
@given(logs(moves()))
def test_an_imported_log_is_the_log(store: SessionStore, events: list[SessionEvent]) -> None:
    """What is imported is what is read; the events were another session's and are this one's now."""
    # given
    header = SessionHeader(id=store.create().id + "-imported", created_at=0, parent_session="gone", seed_length=1)
    live = Session(header)
    fill(live, events)
    # when
    count = store.import_log(header, iter(owned(events, "other")))
    # then
    assert len(events) == count
    assert owned(events, header.id) == [*store.log(header.id)]
    assert view(live) == view(store.load(header.id))


@pytest.mark.parametrize(
    "error",
    [
        InvalidEventError("wrong", rule="envelope"),
        OSError("unreadable"),
        DamagedStoreError("x", session_id="t", seq=1),
        KeyboardInterrupt(),
    ],
)
@pytest.mark.parametrize("position", [0, 4, 9])
def test_an_import_that_fails_leaves_no_trace(store: SessionStore, position: int, error: BaseException) -> None:
    """Whatever ends the events that are imported ends the import, as it is, and nothing is kept."""
    # given
    events = worked(store, "other")
    before = dump(store)
    log = [*store.log("other")]

    def read() -> Iterator[SessionEvent]:
        yield from log[:position]
        raise error

    # when
    with pytest.raises(type(error)) as caught:
        store.import_log(SessionHeader(id="s", created_at=0), read())
    # then
    assert caught.value is error
    assert before == dump(store)
    assert store.import_log(SessionHeader(id="s", created_at=0), log) == events.next_seq


@pytest.mark.parametrize("position", [0, 5, 8])
def test_an_event_that_does_not_fit_is_not_imported(store: SessionStore, position: int) -> None:
    """An event out of order ends the import with its seq, and nothing of the log is kept."""
    # given
    worked(store, "other")
    before = dump(store)
    log = [*store.log("other")]
    del log[position]
    log.append(SessionEvent("other", 99, 0, "note", b"1"))
    # when
    with pytest.raises(InvalidSurfaceError) as caught:
        store.import_log(SessionHeader(id="s", created_at=0), log)
    # then
    assert (log[position].seq, "seq") == (caught.value.seq, caught.value.rule)
    assert before == dump(store)


def test_a_log_is_read_as_it_is_imported(store: SessionStore) -> None:
    """Events are taken one by one, and none is kept for longer than it is on the surface."""
    # given
    pending: list[int] = []
    received = Session.append_event

    def append_event(session: Session, event: SessionEvent) -> None:
        pending.append(len(session.pending))
        received(session, event)

    log = (SessionEvent("", seq, 0, "note", b"1") for seq in range(50))
    # when
    with patch.object(Session, "append_event", append_event):
        store.import_log(SessionHeader(id="s", created_at=0), log)
    # then
    assert pending == [0] * 50


def test_a_log_can_be_imported_from_the_store_that_takes_it(store: SessionStore) -> None:
    """A session is copied within a store under another id, read as it is written."""
    # given
    session = worked(store)
    # when
    store.import_log(attrs.evolve(session.header, id="copy"), store.log("s"))
    # then
    assert owned(store.log("s"), "copy") == [*store.log("copy")]


def test_the_older_shapes_are_imported(store: SessionStore) -> None:
    """A log of early 2026-07 is taken in as it is."""
    # given
    flat: Any = {"turn": 1, "step": 1, "content": [{"type": "text", "text": "hi"}]}
    event = SessionEvent.from_wire(
        {"type": "assistant/message", "seq": 0, "time": 0, "data": flat, "surfaceOp": "append"}
    )
    # when
    store.import_log(SessionHeader(id="s", created_at=0), [event])
    # then
    assert flat == store.log("s")[0].data
    assert [{"role": "assistant", "content": flat["content"]}] == store.load("s").messages()


@pytest.mark.parametrize("spelling", ["compact", "compaction"])
def test_a_rebase_takes_no_lock_that_another_writer_holds(store: SessionStore, spelling: str) -> None:
    """A pending start of a compaction does not fit behind another writer's live one."""
    one = store.create(id="locked")
    two = store.load("locked")
    one.append("compact/start", {"compactionId": "one", "turn": None})
    store.save(one)
    two.append(f"{spelling}/start", {"compactionId": "two", "turn": None})

    with pytest.raises(RebaseError, match="the compaction that started at seq 0 is live"):
        store.save(two, on_conflict="rebase")

    assert len(two.pending) == 1
    one.append("compact/end", {"compactionId": "one", "turn": None})
    store.save(one)
    assert store.save(two, on_conflict="rebase") == 1


@pytest.mark.parametrize("spelling", ["compact", "compaction"])
@pytest.mark.parametrize("lock", [{"compactionId": "two", "turn": None}, None])
@pytest.mark.parametrize("late", ["summary", "end"])
def test_a_rebase_frees_no_lock_that_another_writer_holds(
    store: SessionStore, spelling: str, lock: Any, late: str
) -> None:
    """What is left of a compaction does not fit behind another's lock, nor where its own lock has become stale."""
    one = store.create(id="locked")
    one.append(f"{spelling}/start", {"compactionId": "one", "turn": None})
    store.save(one)
    two = store.resume("locked")
    if lock is not None:
        two.append("compact/start", lock)
        store.save(two)
    one.append(f"{spelling}/{late}", {"compactionId": "one", "turn": None})

    with pytest.raises(
        RebaseError, match=f"the compaction 'one' of this {spelling}/{late} is no longer live"
    ) as caught:
        store.save(one, on_conflict="rebase")

    assert caught.value.seq == 1
    assert len(one.pending) == 1
    assert two.open_compaction == store.load("locked").open_compaction


def test_a_compaction_goes_on_behind_what_others_said(store: SessionStore) -> None:
    """A pending end fits behind other writers' events while its compaction is the live one; so does a whole one."""
    one = store.create(id="locked")
    one.append("compact/start", {"compactionId": "one", "turn": None})
    store.save(one)
    two = store.load("locked")
    say(two, "meanwhile")
    store.save(two)
    one.append("compact/end", {"compactionId": "one", "turn": None, "error": {}})
    one.append("compact/start", None)
    one.append("compact/end", [])

    assert store.save(one, on_conflict="rebase") == 3

    assert [event.type for event in store.log("locked")][1:] == [
        "user/message",
        "compact/end",
        "compact/start",
        "compact/end",
    ]


def test_an_unknown_way_of_settling_conflicts_is_refused(store: SessionStore) -> None:
    """A word that is no way of settling conflicts is an error at once, not at the first conflict."""
    session = store.create()

    with pytest.raises(InvalidOptionError, match="'raise' or 'rebase'"):
        store.save(session, on_conflict="rebaes")  # type: ignore[arg-type] # the misspelling is the point

"""The contract of a store, whatever keeps it: laws that are held against an open store, and the test of them all.

A law makes sessions of its own, so a store may hold others, and takes a log out of `dsh_session.testing.logs`.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import attrs
import hypothesis
from hypothesis import given, note

from dsh_session import lossless_json
from dsh_session.errors import (
    ConflictError,
    EventNotFoundError,
    InvalidHeaderError,
    InvalidOptionError,
    InvalidSurfaceError,
    OpenTurnError,
    RebaseError,
    SessionError,
    SessionExistsError,
    SessionNotFoundError,
)
from dsh_session.event import APPEND, SessionEvent, topic_of
from dsh_session.header import SessionHeader
from dsh_session.interchange.jsonl import read_jsonl, write_jsonl
from dsh_session.message import user_message
from dsh_session.repair import interrupted_turn_closers
from dsh_session.session import Session
from dsh_session.testing.assertions import check_makes, expect, taken
from dsh_session.testing.logs import interleavings
from dsh_session.testing.oracles import naive_rebase, naive_surface
from dsh_session.testing.show import show_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dsh_session.storage.store import SessionStore
    from dsh_session.testing.logs import Interleaving

_E = TypeVar("_E", bound=Exception)
_ODD_IDS: Final = ("a", " ", "/etc/../passwd", "x'); DROP TABLE stored_events; --", '"', "%_?", "\n\x01", "größe 😀")
_NO_IDS: Final = ("", "torn \ud83d", "nul\0")


def store_test(
    open_store: Callable[[], SessionStore], *, settings: hypothesis.settings | None = None
) -> Callable[[], None]:
    """Make a test of the whole contract of a store, for whoever brings another recorder.

    It is given a name where pytest looks for tests: ``test_mine = store_test(open_my_store)``.

    Args:
        open_store: opens a store, empty or not; it is opened for every example, and closed after it.
        settings: of Hypothesis; those of the loaded profile, without a deadline, when None.

    Returns:
        A test without arguments, for pytest to find or for anybody to call.
    """
    check_makes(open_store, "store_test", "a store that is open")

    @settings or hypothesis.settings(deadline=None)
    @given(work=interleavings(max_moves=6))
    def test(work: Interleaving) -> None:
        note(f"the log:\n{show_log(work.base)}\n\ntheirs:\n{show_log(work.theirs)}\n\nours:\n{show_log(work.ours)}")
        with open_store() as store:
            check_store_laws(store, work)

    return test


def check_store_laws(store: SessionStore, work: Interleaving) -> None:
    """Check every law that binds every store.

    Args:
        store: the store, which is open.
        work: what is kept in it.
    """
    check_refusals_leave_everything(store, work.base)
    check_load_gives_what_was_saved(store, work.base)
    check_conflict_loses_nothing(store, work)
    for law in (
        check_fork_is_the_prefix,
        check_resume_settles,
        check_import_is_whole_or_nothing,
        check_export_comes_back,
        check_stream_tells_everything,
    ):
        law(store, [*work.base, *work.theirs])
    check_sessions_are_listed(store)


def check_load_gives_what_was_saved(store: SessionStore, events: Sequence[SessionEvent]) -> None:
    """Check that a session which was saved piece by piece is loaded as it was, goes on, and is only looked at.

    Its log is a sequence of the very events, from either end, in slices, by seq and by topic.

    Args:
        store: the store.
        events: a log.
    """
    session = store.create()
    for event in events:
        session.append_event(event)
        if event.seq % 3 == 0:
            expect(len(session.pending), store.save(session), "how many events were saved")
    store.save(session)
    before = _contents(store)
    expect(0, store.save(session), "how many events were saved of none")
    loaded = store.load(session.id)
    _expect_session(session, loaded, "a loaded session")
    expect((), loaded.pending, "what a loaded session has pending")
    expect(naive_surface(events).nodes, loaded.surface.nodes, "its surface, against a naive fold")
    expected, log = owned(events, session.id), store.log(session.id)
    middle, topics = len(events) // 2, [topic_of(event) for event in expected[1::2]]
    expect(expected, list(log), "the log")
    expect(expected[::-1], list(reversed(log)), "the log from its end")
    expect((expected[middle:], expected[::2]), (log[middle:], log[::2]), "slices of the log")
    expect(expected[:middle], log.events_at(range(middle)), "the events of some seqs")
    if topics:
        of_topics = [event for event in expected if topic_of(event) in topics]
        expect(of_topics, list(log.read(topics=topics)), f"the events of the topics {topics}")
    expect(before, _contents(store), "the store, of which nothing was asked but to look")
    _say(loaded)
    store.save(loaded)
    _expect_session(loaded, store.load(session.id), "a session that went on")


def check_conflict_loses_nothing(store: SessionStore, work: Interleaving) -> None:
    """Check that of two writers the second is refused, keeps what is pending, and can take the other's events in.

    After a rebase the log is theirs, then ours, with every seq moved that ours name, as `naive_rebase` finds it. Where
    ours do not fit behind theirs, the error names the first that does not, and nothing changes.

    Args:
        store: the store.
        work: what each of the writers appends.
    """
    ours = _saved(store, work.base)
    theirs = store.load(ours.id)
    fill(ours, work.ours)
    fill(theirs, work.theirs)
    store.save(theirs)
    is_conflict = bool(work.ours and work.theirs)
    if is_conflict:
        _refused(store, ConflictError, partial(store.save, ours), ours)
    log, misfit = naive_rebase(work)
    if misfit is not None:
        refusal = _refused(store, RebaseError, partial(store.save, ours, on_conflict="rebase"), ours)
        expect(misfit, refusal.seq, "the first event that does not fit")
        return
    with taken("what fits behind the other's"):
        saved = store.save(ours, on_conflict="rebase")
    expect(len(work.ours), saved, "how many events were saved behind the other's")
    expect(owned(log, ours.id), list(store.log(ours.id)), "the log of both")
    if is_conflict:
        _expect_session(ours, store.load(ours.id), "what was rebased, and what is loaded")


def check_fork_is_the_prefix(store: SessionStore, events: Sequence[SessionEvent]) -> None:
    """Check that a fork is its parent's log up to a seq, and the end of its seed, and leaves the parent alone.

    That is so at every seq where no turn is open; elsewhere a fork is refused.

    Args:
        store: the store.
        events: a log.
    """
    parent = _saved(store, events)
    for at in range(len(events)):
        prefix = events[: at + 1]
        if interrupted_turn_closers(prefix):
            refusal = _refused(store, OpenTurnError, partial(store.fork, parent.id, at))
            expect(at, refusal.seq, "the seq that lies inside a turn")
            continue
        child = store.fork(parent.id, at)
        *inherited, last = store.log(child.id)
        expect(owned(prefix, child.id), inherited, f"what is inherited up to seq {at}")
        expect(("session/end-seed", {}), (last.type, last.data), "the end of the seed")
        expect((parent.id, at + 1), (child.header.parent_session, child.header.seed_length), "whose child it is")
        expect(naive_surface(prefix).nodes, child.surface.nodes, f"the surface as of seq {at}")
        _expect_session(child, store.load(child.id), "a child")
        _say(child)
        store.save(child)
    expect(owned(events, parent.id), list(store.log(parent.id)), "the log of the parent")


def check_resume_settles(store: SessionStore, events: Sequence[SessionEvent]) -> None:
    """Check that a resume closes what a crash left open, marks the end of the seed, and does so once.

    Args:
        store: the store.
        events: a log.
    """
    session = _saved(store, events)
    resumed = store.resume(session.id)
    log = list(store.log(session.id))
    if not events or events[-1].type == "session/end-seed":
        expect(owned(events, session.id), log, "a log with nothing to settle")
    else:
        closed = [*events, *interrupted_turn_closers(events)]
        expect(owned(closed, session.id), log[:-1], "what was settled")
        expect(("session/end-seed", {}), (log[-1].type, log[-1].data), "the end of the seed")
    expect((None, []), (resumed.open_compaction, resumed.repair_events()), "what is open in a resumed session")
    _expect_session(resumed, store.load(session.id), "a resumed session")
    before = _contents(store)
    store.resume(session.id)
    expect(before, _contents(store), "a store in which a session was resumed twice")


def check_import_is_whole_or_nothing(store: SessionStore, events: Sequence[SessionEvent]) -> None:
    """Check that an import that ends early, or meets an event that does not fit, leaves no trace; else it is the log.

    Args:
        store: the store.
        events: a log.
    """
    header = SessionHeader(id=f"imported-{uuid4()}", created_at=0, parent_session="gone", seed_length=1)

    def torn() -> Iterator[SessionEvent]:
        yield from events[: len(events) // 2]
        raise EOFError

    _refused(store, EOFError, partial(store.import_log, header, torn()))
    _refused(store, InvalidSurfaceError, partial(store.import_log, header, [*events, _NOTE, _NOTE]))
    expect(len(events), store.import_log(header, iter(events)), "how many events were imported")
    expect(owned(events, header.id), list(store.log(header.id)), "what was imported")
    live = Session(header)
    fill(live, events)
    _expect_session(live, store.load(header.id), "an imported session")
    _refused(store, SessionExistsError, partial(store.import_log, header, events))


def check_export_comes_back(store: SessionStore, events: Sequence[SessionEvent]) -> None:
    """Check that a session that was written as JSONL, read, and imported under another name is the same session.

    Args:
        store: the store.
        events: a log.
    """
    session = _saved(store, events)
    file = io.BytesIO()
    expect(len(events), write_jsonl(file, session.header, store.log(session.id)), "how many events were exported")
    file.seek(0)
    reader = read_jsonl(file)
    expect(session.header, reader.header, "the header that was exported")
    copy = attrs.evolve(session.header, id=f"copy-{uuid4()}")
    with taken("a file that was exported"):
        store.import_log(copy, reader)
    expected = [_joined(event) for event in owned(events, copy.id)]
    expect(expected, list(store.log(copy.id)), "what was exported and imported")


def check_stream_tells_everything(store: SessionStore, events: Sequence[SessionEvent]) -> None:
    """Check that the stream of a store gives every event that is saved, once, in the order of saving, by topic too.

    Args:
        store: the store.
        events: a log.
    """
    begin = max((position for position, _ in store.notifications(0, _ALL)), default=0)
    one, two = store.create(), store.create()
    expected = []
    for event in events:
        for session in (one, two):
            session.append_event(event)
            store.save(session)
            expected += owned([event], session.id)
    found = store.notifications(begin, _ALL)
    expect(expected, [event for _, event in found], "the stream of a store")
    positions = [position for position, _ in found]
    expect(sorted(set(positions)), positions, "the positions in the stream")
    if expected:
        topic = topic_of(expected[-1])
        of_topic = store.notifications(begin, _ALL, [topic])
        expect([pair for pair in found if topic_of(pair[1]) == topic], of_topic, f"the stream of {topic}")
        expect(found[1:2], store.notifications(positions[0], 1), "one event behind the first")


def check_sessions_are_listed(store: SessionStore) -> None:
    """Check that every session is listed once, by id, with all that it was created with, whatever its id looks like.

    Args:
        store: the store.
    """
    before = list(store.sessions())
    tag = uuid4()
    what: dict[str, Any] = {"cwd": "/repo", "origin": {"by": 1.0}, "delegation_depth": 1, "agent_preset": ["\ud83d"]}
    created = [store.create(id=f"{odd}{tag}", **what).header for odd in _ODD_IDS] + [store.create().header]
    expected = sorted([*before, *created], key=lambda header: header.id)
    expect(expected, list(store.sessions()), "the sessions of a store")
    for header in created:
        expect(header, store.load(header.id).header, "the header of a session")
        expect([], list(store.log(header.id)), "the log of a session to which nothing happened")
    for key, value in what.items():
        expect(value, getattr(created[0], key), f"the {key} of a session")


def check_refusals_leave_everything(store: SessionStore, events: Sequence[SessionEvent]) -> None:
    """Check that what cannot be is refused by its own error, and leaves the store, byte for byte, and the session.

    A session that is not there is not found, an id that is taken is not given twice, what is no id names none, a fork
    needs an event, and an option is one of those that there are.

    Args:
        store: the store.
        events: a log.
    """
    session, empty = _saved(store, events), store.create()
    nobody = Session(SessionHeader(id=f"nobody-{uuid4()}", created_at=0))
    _say(nobody)
    _say(session)
    no_way: Any = "merge"
    refusals: list[tuple[type[SessionError], Callable[[], object]]] = [
        *(
            (SessionNotFoundError, partial(ask, nobody.id))
            for ask in (store.load, store.resume, store.header, store.fork)
        ),
        *((SessionNotFoundError, partial(ask, nobody)) for ask in (store.save, store.rebase)),
        (SessionNotFoundError, partial(store.save, nobody, on_conflict="rebase")),
        (SessionExistsError, partial(store.create, id=session.id)),
        (SessionExistsError, partial(store.fork, empty.id, new_id=session.id)),
        (SessionExistsError, partial(store.import_log, session.header, events)),
        *((InvalidHeaderError, partial(store.create, id=no_id)) for no_id in _NO_IDS),
        *((InvalidHeaderError, partial(store.fork, empty.id, new_id=no_id)) for no_id in _NO_IDS),
        (InvalidHeaderError, partial(store.create, cwd="relative")),
        *((EventNotFoundError, partial(store.fork, session.id, at)) for at in (-1, len(events), 10**30)),
        (InvalidOptionError, partial(store.save, session, on_conflict=no_way)),
    ]
    before = _contents(store), view(session), session.pending
    for error, attempt in refusals:
        _raised(error, attempt)
    expect(before, (_contents(store), view(session), session.pending), "what was there before all the refusals")
    expect([], list(store.log(nobody.id)), "the log of a session that is not there")
    expect(1, store.save(session), "how many events were saved after it all")


_ALL: Final = 10**9
_NOTE: Final = SessionEvent("", 0, 0, "note", b"null")


def _contents(store: SessionStore) -> list[Any]:
    """Give all that a store holds of sessions: the headers, and every event in the order of saving."""
    return [list(store.sessions()), store.notifications(0, _ALL)]


def view(session: Session) -> list[Any]:
    """Give all that a session shows of itself, but what it has pending."""
    return [
        session.header,
        session.state(),
        session.surface_events(),
        session.messages(),
        session.request_header(),
        session.request_context(),
    ]


def _expect_session(expected: Session, actual: Session, what: str) -> None:
    for one, other in zip(view(expected), view(actual), strict=True):
        expect(one, other, what)


def _refused(store: SessionStore, error: type[_E], attempt: Callable[[], object], *sessions: Session) -> _E:
    """Check that an attempt raises an error and changes neither the store nor a session, and return the error."""
    before = _contents(store), [(view(session), session.pending) for session in sessions]
    raised = _raised(error, attempt)
    after = _contents(store), [(view(session), session.pending) for session in sessions]
    expect(before, after, f"what was there before {raised!r}")
    return raised


def _raised(error: type[_E], attempt: Callable[[], object]) -> _E:
    """Check that an attempt raises an error, and none of its children, and return it."""
    try:
        attempt()
    except error as raised:
        expect(error, type(raised), f"the error of {attempt}")
        return raised
    raise AssertionError(f"{attempt} was not refused with {error.__name__}")


def _saved(store: SessionStore, events: Iterable[SessionEvent]) -> Session:
    session = store.create()
    fill(session, events)
    store.save(session)
    return session


def fill(session: Session, events: Iterable[SessionEvent]) -> None:
    """Append events of another log."""
    for event in events:
        session.append_event(event)


def _say(session: Session) -> None:
    session.append("user/message", user_message("and on it goes"), APPEND)


def owned(events: Iterable[SessionEvent], session_id: str) -> list[SessionEvent]:
    """Give events as those of a session."""
    return [SessionEvent.from_wire(event.to_wire(), session_id) for event in events]


def _joined(event: SessionEvent) -> SessionEvent:
    """Give an event as a file can hold it, which joins the two halves of a character."""
    data = lossless_json.parse(event.encoded_data)
    return SessionEvent.from_wire({**event.to_wire(), "data": data}, event.session_id)

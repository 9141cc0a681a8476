"""The aggregate: what an append checks, keeps and gives out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    InvalidEventError,
    InvalidSurfaceError,
    NotJSONError,
    Replace,
    Session,
    SessionEvent,
    SessionHeader,
    assistant_message,
    interrupted_turn_closers,
    tool_result_message,
    user_message,
)
from dsh_session.session import now_ms
from dsh_session.testing import candidates, is_same_json, logs, naive_refusals, naive_surface
from stored import compact, dump, fill, moves, owned, say, ticking_clock, view, work

if TYPE_CHECKING:
    from dsh_session import SessionStore

ROUTE = {"provider": "p", "model": "m"}
HELLO = user_message("hello", message_id="m1")
RESULT = tool_result_message("c", "pruned", turn=1, step=1, message_id="r")
OTHER_RESULT = tool_result_message("c", "pruned", turn=1, step=2, message_id="r")
TWO_BLOCKS = {**RESULT, "message": {**RESULT["message"], "content": RESULT["message"]["content"] * 2}}
CYCLE: list[Any] = []
CYCLE.append(CYCLE)

REFUSALS: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], Any]] = [
    ("nan", ("note", {"a": [math.nan]}), {}, NotJSONError, ("data", "a", 0)),
    ("infinity", ("note", -math.inf), {}, NotJSONError, ("data",)),
    ("a set", ("note", {"a": {1}}), {}, NotJSONError, ("data", "a")),
    ("a tuple", ("note", (1,)), {}, NotJSONError, ("data",)),
    ("bytes", ("note", b""), {}, NotJSONError, ("data",)),
    ("an int of 65 bits", ("note", [2**63]), {}, NotJSONError, ("data", 0)),
    ("a key that is no str", ("note", {1: 1}), {}, NotJSONError, ("data",)),
    ("a cycle", ("note", CYCLE), {}, NotJSONError, ("data", 0, 0, 0, 0, 0, 0, 0, 0)),
    ("an empty type", ("", {}), {}, InvalidEventError, "envelope"),
    ("a type that is no str", (None, {}), {}, InvalidEventError, "envelope"),
    ("a time that is a float", ("note", {}), {"time": 1.0}, InvalidEventError, "envelope"),
    ("a time beyond 64 bits", ("note", {}), {"time": 2**63}, InvalidEventError, "envelope"),
    ("a message without an id", ("user/message", {"role": "user"}, APPEND), {}, InvalidEventError, "message-shape"),
    ("an older shape", ("user/message", {**HELLO, "id": ""}, APPEND), {}, InvalidEventError, "message-shape"),
    ("two result blocks", ("tool/result", TWO_BLOCKS, APPEND), {}, InvalidEventError, "message-shape"),
    ("a header without a route", ("request/header", {"header": {}}), {}, InvalidEventError, "request-header"),
    ("no marker", ("user/message", HELLO), {}, InvalidSurfaceError, "marker-missing"),
    ("a marker's name", ("user/message", HELLO, "append"), {}, InvalidSurfaceError, "marker-invalid"),
    ("a marker on a note", ("note", {}, APPEND), {}, InvalidSurfaceError, "marker-on-log-only"),
    ("provenance on a note", ("note", {}, None, [0]), {}, InvalidSurfaceError, "sources-on-log-only"),
    ("no such start", ("user/message", HELLO, Replace(1, 3), [1]), {}, InvalidSurfaceError, "start-not-on-surface"),
    ("no such end", ("user/message", HELLO, Replace(3, 9), [3]), {}, InvalidSurfaceError, "end-not-on-surface"),
    ("a reversed range", ("user/message", HELLO, Replace(5, 3), [3, 5]), {}, InvalidSurfaceError, "range-reversed"),
    ("provenance that is a set", ("user/message", HELLO, APPEND, {0}), {}, InvalidSurfaceError, "sources-not-array"),
    ("provenance of a bool", ("user/message", HELLO, APPEND, [True]), {}, InvalidSurfaceError, "sources-type"),
    ("empty provenance", ("user/message", HELLO, APPEND, []), {}, InvalidSurfaceError, "sources-empty"),
    ("a source named twice", ("user/message", HELLO, APPEND, [0, 0]), {}, InvalidSurfaceError, "sources-duplicate"),
    ("a source to come", ("user/message", HELLO, APPEND, [10]), {}, InvalidSurfaceError, "sources-not-earlier"),
    ("not all cited", ("user/message", HELLO, Replace(0, 3), [0]), {}, InvalidSurfaceError, "sources-missing-shadowed"),
    ("no provenance", ("user/message", HELLO, Replace(0, 0)), {}, InvalidSurfaceError, "sources-missing-shadowed"),
    ("a result for two", ("tool/result", RESULT, Replace(3, 5), [3, 5]), {}, InvalidSurfaceError, "result-span"),
    ("a result for a message", ("tool/result", RESULT, Replace(0, 0), [0]), {}, InvalidSurfaceError, "result-target"),
    ("another result", ("tool/result", OTHER_RESULT, Replace(5, 5), [5]), {}, InvalidSurfaceError, "result-fields"),
]  # fmt: skip


def new_session() -> Session:
    return Session(SessionHeader(id="s", created_at=0), clock=ticking_clock())


def test_a_refused_append_changes_nothing(store: SessionStore) -> None:
    """Whatever an append is refused for, the session, its pending events and its store stay as they were."""
    # given
    session = store.create()
    work(session)
    store.save(session)
    session.append("note", "pending")
    before = view(session), session.pending, dump(store)
    for name, arguments, keywords, error, found in REFUSALS:
        # when
        with pytest.raises(error) as caught:
            session.append(*arguments, **keywords)
        # then
        assert (name, found) == (name, getattr(caught.value, "path" if error is NotJSONError else "rule"))
        assert (name, *before) == (name, view(session), session.pending, dump(store))


@settings(max_examples=30, deadline=None)
@given(logs().flatmap(lambda events: st.tuples(st.just(events), candidates(events))))
def test_an_event_lands_when_no_rule_of_the_surface_is_broken(
    log: tuple[list[SessionEvent], SessionEvent],
) -> None:
    """A candidate for any log lands exactly when the naive rules allow it; refused, it leaves the session as it was."""
    # given
    events, candidate = log
    session = new_session()
    fill(session, events)
    before = view(session), session.pending
    broken = naive_refusals(events, candidate)
    # when
    if not broken:
        session.append_event(candidate)
        # then
        assert naive_surface([*events, candidate]).nodes == session.surface.nodes
        return
    with pytest.raises(InvalidSurfaceError) as caught:
        session.append_event(candidate)
    # then
    assert caught.value.rule in broken
    assert before == (view(session), session.pending)


@settings(max_examples=30, deadline=None)
@given(logs())
def test_the_messages_are_those_of_the_current_surface(events: list[SessionEvent]) -> None:
    """The model is sent the message inside each node, in surface order; an empty answer only carries usage."""
    # given
    session = new_session()
    fill(session, events)
    nodes = [events[seq] for seq in naive_surface(events).nodes]
    # when
    actual = session.messages()
    # then
    messages = [node.data if node.type == "user/message" else node.data["message"] for node in nodes]
    expected = [message for message in messages if message["role"] == "user" or message["content"]]
    assert is_same_json(expected, actual)
    assert owned(nodes, "s") == session.surface_events()
    assert owned(events, "s") == list(session.pending)


@settings(max_examples=30, deadline=None)
@given(logs(moves()))
def test_the_closers_are_those_of_the_whole_log(events: list[SessionEvent]) -> None:
    """A session knows from its state alone what would close its log, and needs no closing after that."""
    # given
    session = new_session()
    fill(session, events)
    expected = interrupted_turn_closers(owned(events, "s"))
    # when
    actual = session.repair_events()
    # then
    assert expected == actual
    fill(session, actual)
    assert session.repair_events() == []


@settings(max_examples=30, deadline=None)
@given(logs(moves()))
def test_a_session_is_all_that_its_state_says(events: list[SessionEvent]) -> None:
    """A session that is made of another's state shows the same, and goes on alike."""
    # given
    session = new_session()
    fill(session, events)
    by_seq = {event.seq: event for event in session.pending}
    # when
    restored = Session.restore(session.header, session.state(), lambda seqs: [by_seq[seq] for seq in seqs])
    # then
    assert view(session) == view(restored)
    for one in (session, restored):
        one.append("turn/start", {"turn": 1}, time=5)
        one.append("user/message", HELLO, APPEND, time=6)
    assert view(session) == view(restored)


def test_a_state_is_lossless_json(store: SessionStore) -> None:
    """What `state` gives can be appended itself, whatever is open."""
    # given
    session = store.create()
    work(session)
    session.append("turn/start", {"turn": 2})
    call = {"type": "tool-call", "id": "torn \ud83d", "name": "run", "arguments": "{}"}
    session.append("assistant/message", assistant_message([call], turn=2, step=1, **ROUTE), APPEND)
    # when
    event = session.append("note", session.state())
    # then
    assert is_same_json([2, None, [["torn \ud83d", 1, None, False]]], event.data["open_turn"])


def test_what_the_caller_does_with_its_data_changes_no_history(store: SessionStore) -> None:
    """Neither what was passed in nor anything that was given out is a way into the session or its store."""
    # given
    session = store.create(id="s")
    header = {"config": dict(ROUTE), "tools": []}
    data, sources = user_message("first", message_id="m"), [0]
    session.append("request/header", {"header": header})
    session.append("request/context", {**ROUTE, "contextWindow": 10})
    event = session.append("user/message", data, APPEND, sources)
    store.save(session)
    before = view(session), dump(store)
    expected = list(store.log("s"))
    # when
    data["content"].append({"type": "text", "text": "forged"})
    header["tools"].append("forged")
    sources.append(1)
    event.data["content"].clear()
    session.messages()[0]["content"].clear()
    session.messages().clear()
    session.surface_events().clear()
    session.request_header()["tools"].append("forged")
    session.request_context().clear()
    session.state()["nodes"].clear()
    session.state()["open_turn"].append("forged")
    store.log("s")[2].data.clear()
    # then
    assert before == (view(session), dump(store))
    assert expected == list(store.log("s"))
    assert user_message("first", message_id="m") == event.data
    assert event.source_event_seqs == (0,)


def test_a_header_is_no_way_into_the_store(store: SessionStore) -> None:
    """What a session was created with is kept as it was then."""
    # given
    origin, preset = {"by": ["a"]}, ["p"]
    session = store.create(origin=origin, agent_preset=preset)
    # when
    origin["by"].append("forged")
    preset.append("forged")
    # then
    kept = store.header(session.id)
    assert (kept.origin, kept.agent_preset) == ({"by": ["a"]}, ["p"])


def test_an_append_gives_the_event(store: SessionStore) -> None:
    """The event carries all that was passed in, the next seq, the session's id and the clock's time."""
    # given
    session = Session(store.create(id="s").header, clock=lambda: 77)
    say(session, "hello")
    # when
    event = session.append("assistant/note", {"a": [1, 1.0, True, None]}, ignorable=True)
    timed = session.append("user/message", HELLO, APPEND, (0,), time=-5)
    # then
    assert (
        event.session_id,
        event.seq,
        event.time,
        event.type,
        event.surface_op,
        event.source_event_seqs,
        event.ignorable,
    ) == ("s", 1, 77, "assistant/note", None, None, True)
    assert is_same_json({"a": [1, 1.0, True, None]}, event.data)
    assert (
        timed.seq,
        timed.time,
        timed.surface_op,
        timed.source_event_seqs,
        timed.ignorable,
    ) == (2, -5, APPEND, (0,), False)
    assert session.next_seq == 3
    assert session.id == "s"


def test_a_session_made_by_hand_goes_by_the_machine_s_clock() -> None:
    """Where no clock is given, an event has the time at which it was appended."""
    # given
    session = Session(SessionHeader(id="s", created_at=0))
    before = now_ms()
    # when
    event = session.append("note", None)
    # then
    assert before <= event.time <= now_ms()


def test_a_received_event_keeps_its_time_and_becomes_the_session_s() -> None:
    """An event that was made elsewhere is taken in as it is, and belongs to the session from then on."""
    # given
    session = new_session()
    events = [
        SessionEvent("other", 0, -7, "note", b"1", None, None, True),
        SessionEvent("s", 1, -9, "note", b"2"),
    ]
    # when
    fill(session, events)
    # then
    assert (SessionEvent("s", 0, -7, "note", b"1", None, None, True), events[1]) == session.pending


def test_the_older_shapes_are_received() -> None:
    """Messages as logs of early 2026-07 have them are taken in from elsewhere; nobody may append one."""
    # given
    session = new_session()
    text = [{"type": "text", "text": "hi"}]
    older: list[dict[str, Any]] = [
        {"type": "user/message", "data": {"source": {"kind": "user"}, "content": text}, "surfaceOp": "append"},
        {"type": "assistant/message", "data": {"turn": 1, "step": 1, "content": text}, "surfaceOp": "append"},
        {
            "type": "tool/result",
            "data": {"turn": 1, "step": 1, "callId": "c", "content": text, "isError": True},
            "surfaceOp": "append",
        },
        {"type": "request/header", "data": {"header": {"system": "s"}}},
    ]
    # when
    for seq, wire in enumerate(older):
        with pytest.raises(InvalidEventError):
            session.append(wire["type"], wire["data"], APPEND if "surfaceOp" in wire else None)
        session.append_event(SessionEvent.from_wire({**wire, "seq": seq, "time": 0}))
    # then
    assert [text, text, "c"] == [
        session.messages()[0]["content"],
        session.messages()[1]["content"],
        session.messages()[2]["source"]["callId"],
    ]
    assert session.request_header() == {"system": "s"}


def test_the_next_request_is_built_with_the_latest_header_and_context() -> None:
    """Before the first there is none; after that the latest counts."""
    # given
    session = new_session()
    assert (session.request_header(), session.request_context()) == (None, None)
    # when
    for number in (1, 2):
        session.append("request/header", {"header": {"config": ROUTE, "system": f"s{number}"}})
        session.append("request/context", {**ROUTE, "contextWindow": number})
    # then
    assert session.request_header() == {"config": ROUTE, "system": "s2"}
    assert session.request_context() == {**ROUTE, "contextWindow": 2}


@pytest.mark.parametrize("spelling", ["compact", "compaction"])
def test_a_compaction_is_open_from_its_start_to_its_end(spelling: str) -> None:
    """Its start takes the lock; its end frees it, and so does the end of a seed, which a new process writes."""
    # given
    session = new_session()
    work(session)
    found = [session.open_compaction]
    # when
    for kind in ("start", "end", "start", "end-seed"):
        data = {"compactionId": "c", "turn": None}
        session.append("session/end-seed" if kind == "end-seed" else f"{spelling}/{kind}", data)
        found.append(session.open_compaction)
    # then
    assert found == [None, 9, None, 11, None]


def test_a_compaction_takes_its_range_off_the_surface_and_nothing_from_the_log() -> None:
    """The checkpoint stands where its range stood, and every event is still there."""
    # given
    session = new_session()
    work(session)
    # when
    compact(session, 0, 5, "in short")
    # then
    assert session.surface.nodes == (11, 8)
    assert [message["id"] for message in session.messages()] == ["in short", "thanks"]
    assert [*range(13)] == [event.seq for event in session.pending]


@pytest.mark.parametrize("ignorable", ["yes", 1, None])
def test_an_event_is_ignorable_or_not(ignorable: Any) -> None:
    """Whether an event may be skipped is a bool and nothing like one."""
    session = Session(SessionHeader(id="s", created_at=0))

    with pytest.raises(InvalidEventError, match="it is a bool"):
        session.append("plugin/note", {}, ignorable=ignorable)

    assert session.next_seq == 0

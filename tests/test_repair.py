"""Closing events for a log that a crash cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    SessionEvent,
    assistant_message,
    check_data,
    interrupted_turn_closers,
    tool_result_message,
    user_message,
)
from dsh_session.open_turn import NOT_STARTED_TEXT, OUTCOME_UNKNOWN_TEXT, OpenTurn
from dsh_session.testing import LogBuilder, check_repair, is_same_json, logs
from dsh_session.vocabulary import TURN_EVENT_TYPES

VECTORS = json.loads((Path(__file__).parent / "vectors" / "repair.json").read_text("utf-8"))
RECORDED_TEXTS = {"{{TEXT_NOT_STARTED}}": NOT_STARTED_TEXT, "{{TEXT_OUTCOME_UNKNOWN}}": OUTCOME_UNKNOWN_TEXT}


def open_turn_of(events: list[SessionEvent]) -> OpenTurn:
    """Apply a log to what is open."""
    open_turn = OpenTurn()
    for event in events:
        open_turn.apply(event.type, event.seq, event.data)
    return open_turn


def call(call_id: str) -> Any:
    return {"type": "tool-call", "id": call_id, "name": "run", "arguments": "{}"}


def crashed(*call_ids: str, turn: int = 1, step: int = 2) -> LogBuilder:
    """Return a log that ends after a model asked for some calls."""
    log = LogBuilder()
    log.append("turn/start", {"turn": turn})
    log.append("user/message", user_message("go"), APPEND)
    log.append("step/start", {"turn": turn, "step": step})
    content = [call(call_id) for call_id in call_ids]
    log.append("assistant/message", assistant_message(content, turn=turn, step=step, provider="p", model="m"), APPEND)
    return log


def outcomes(repairs: list[SessionEvent]) -> dict[str, str]:
    """Return what the repairs say of each call, by its id."""
    results = [repair.data for repair in repairs if repair.type == "tool/result"]
    return {data["message"]["source"]["callId"]: data["error"]["code"] for data in results}


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_a_recorded_log_is_closed_as_recorded(case: dict[str, Any]) -> None:
    """Every recorded log gets the repairs that it got, in our words."""
    # given
    events = [SessionEvent.from_wire(line) for line in case["events"]]
    recorded = json.dumps(case["closers"])
    for placeholder, text in RECORDED_TEXTS.items():
        recorded = recorded.replace(placeholder, text)
    # when
    repairs = interrupted_turn_closers(events)
    # then
    assert json.loads(recorded) == [repair.to_wire() for repair in repairs]


@given(logs())
def test_a_repaired_log_needs_no_repair(events: list[SessionEvent]) -> None:
    """The repairs may land, depend on the log alone, take their time from its end, and leave nothing open."""
    check_repair(interrupted_turn_closers, events)


@given(logs())
@settings(max_examples=50)
def test_the_closers_are_events_that_anybody_may_append(events: list[SessionEvent]) -> None:
    """Each repair is of the log's session and holds data of the shape that its type has."""
    for repair in interrupted_turn_closers(events):
        check_data(repair.type, repair.data, repair.seq)
        assert repair.session_id == events[0].session_id
        assert SessionEvent.from_wire(repair.to_wire()) == repair


@given(logs(), st.integers(0, 30))
@settings(max_examples=50)
def test_a_restored_turn_goes_on_like_the_original(events: list[SessionEvent], at: int) -> None:
    """What is open can be stored as JSON between any two events, and taken up again."""
    # given
    stored = json.loads(json.dumps(open_turn_of(events[:at]).state()))
    restored = OpenTurn.restore(stored)
    # when
    for event in events[at:]:
        restored.apply(event.type, event.seq, event.data)
    # then
    assert open_turn_of(events) == restored


@given(logs())
@settings(max_examples=50)
def test_every_other_type_is_passed_over(events: list[SessionEvent]) -> None:
    """Only the types that are announced open or close anything."""
    # given
    announced = [event for event in events if event.type in TURN_EVENT_TYPES]
    # then
    assert open_turn_of(events) == open_turn_of(announced)


def test_nothing_is_closed_between_turns() -> None:
    """An empty log, and one whose last turn has ended, need no repair."""
    # given
    log = crashed("c")
    log.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    # then
    assert interrupted_turn_closers([]) == []
    assert interrupted_turn_closers(log.events) == []


def test_what_is_known_of_a_call_decides_what_is_said_of_it() -> None:
    """A call that was recorded as started may have done anything; one that was not had no effect."""
    # given
    log = crashed("a", "b", "c")
    log.append("tool/call", {"turn": 1, "step": 2, "callId": "b", "name": "run", "arguments": "{}"})
    log.append("tool/call", {"turn": 1, "step": 2, "callId": "c", "name": "run", "arguments": "{}"})
    log.append("tool/result", tool_result_message("c", "ok", turn=1, step=2), APPEND)
    # when
    repairs = interrupted_turn_closers(log.events)
    # then
    assert outcomes(repairs) == {"a": "TOOL_NOT_STARTED", "b": "TOOL_OUTCOME_UNKNOWN"}
    assert [repair.source_event_seqs for repair in repairs] == [None, (4,), None, None]
    assert [repair.type for repair in repairs] == ["tool/result", "tool/result", "step/end", "turn/end"]
    texts = [repair.data["message"]["content"][0]["content"][0]["text"] for repair in repairs[:2]]
    assert texts == [NOT_STARTED_TEXT, OUTCOME_UNKNOWN_TEXT]


def test_the_texts_tell_the_model_what_to_do() -> None:
    """A call that never ran may be retried; of another the model must look before it does it again."""
    assert "may be retried" in NOT_STARTED_TEXT
    assert "Check the present state before" in OUTCOME_UNKNOWN_TEXT


def test_a_turn_is_closed_from_the_inside() -> None:
    """The open step ends before the open turn, which ends as interrupted."""
    # when
    repairs = interrupted_turn_closers(crashed(turn=0, step=0).events)
    # then
    assert [(repair.type, repair.data) for repair in repairs] == [
        ("step/end", {"turn": 0, "step": 0}),
        ("turn/end", {"turn": 0, "reason": {"kind": "interrupted"}}),
    ]


def test_a_closer_belongs_to_the_session_that_was_cut_short() -> None:
    """The repairs are of the session of the last event, and their times are its time."""
    # given
    events = [SessionEvent("s1", 0, -5, "turn/start", b'{"turn":1}')]
    # when
    (repair,) = interrupted_turn_closers(events)
    # then
    assert (repair.session_id, repair.seq, repair.time) == ("s1", 1, -5)


@pytest.mark.parametrize(
    "data",
    [
        {"callId": ["a"], "name": "run"},
        {"callId": None},
        {"callId": "of nobody"},
        {},
        [],
        None,
    ],
)
def test_a_start_of_no_call_is_passed_over(data: Any) -> None:
    """A ``tool/call`` may hold anything; only the id of an open call says that a call was started."""
    # given
    log = crashed("a")
    log.append("tool/call", data)
    # then
    assert outcomes(interrupted_turn_closers(log.events)) == {"a": "TOOL_NOT_STARTED"}


@pytest.mark.parametrize("event_type", sorted(TURN_EVENT_TYPES - {"tool/result"}))
def test_a_boundary_without_its_numbers_is_no_error(event_type: str) -> None:
    """Log-only events of foreign logs may lack what ours have; a repair never fails for that."""
    # given
    log = crashed()
    log.append(event_type, {})
    # then
    check_repair(interrupted_turn_closers, log.events)


def test_an_older_result_answers_its_call() -> None:
    """Results and answers of early 2026-07 open and close calls like those of today."""
    # given
    log = LogBuilder()
    log.append("turn/start", {"turn": 1})
    log.append("assistant/message", {"turn": 1, "step": 2, "content": [call("a"), call("b")]}, APPEND)
    log.append("tool/result", {"turn": 1, "step": 2, "callId": "a", "content": [], "isError": False}, APPEND)
    # then
    assert outcomes(interrupted_turn_closers(log.events)) == {"b": "TOOL_NOT_STARTED"}


def test_a_second_repair_of_the_same_log_is_the_same() -> None:
    """The repairs take nothing from a clock or from chance, ids included."""
    # given
    events = crashed("a", "b").events
    # when
    one, other = interrupted_turn_closers(events), interrupted_turn_closers(events)
    # then
    assert is_same_json([repair.to_wire() for repair in one], [repair.to_wire() for repair in other])


@pytest.mark.parametrize("turn", [-1, 1.5, True, "1", None])
def test_a_turn_that_is_no_number_opens_nothing(turn: Any) -> None:
    """A boundary of somebody else's shape is carried, and no repair is made for it."""
    log = LogBuilder()
    log.append("turn/start", {"turn": turn})
    log.append("step/start", {"turn": turn, "step": turn})

    assert interrupted_turn_closers(log.events) == []

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from dsh_compact import BracketError, check_brackets
from dsh_projections.testing import session_logs
from dsh_projections.verify import LogReport, verify_log
from dsh_session import (
    APPEND,
    Replace,
    SessionEvent,
    SessionHeader,
    assistant_message,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder, naive_surface

HEADER = SessionHeader(id="s", created_at=0)


def sound_log() -> LogBuilder:
    log = LogBuilder()
    log.append("turn/start", {"turn": 1})
    log.append("user/message", user_message("hello"), APPEND)
    log.append("assistant/message", assistant_message("hi", turn=1, step=1, provider="p", model="m"), APPEND)
    log.append("turn/end", {"turn": 1})
    log.replace("user/message", user_message("they met"), 1, 2)
    return log


def bad_event(seq: int = 5, event_type: str = "user/message", data: Any = None, **wrong: Any) -> SessionEvent:
    log = LogBuilder()
    log.events = [None] * seq  # type: ignore[list-item] # only their number counts
    return log.append(event_type, user_message("x") if data is None else data, **wrong)


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_a_log_that_was_appended_event_by_event_is_sound(events: list[SessionEvent]) -> None:
    """Every valid log has no problem; the report counts its events, nodes and replacements."""
    fold = naive_surface(events)
    report = verify_log(HEADER, iter(events))
    assert ("s", len(events), len(fold.nodes), fold.generation, None) == (
        report.session_id,
        report.events,
        report.nodes,
        report.generation,
        report.problem,
    )


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_brackets_and_orphans_are_warnings(events: list[SessionEvent]) -> None:
    """A warning stands for the first fault of the brackets, and one for each result whose call is not before it."""
    expected = []
    try:
        check_brackets(events, len(events))
    except BracketError as error:
        expected.append(str(error))
    asked: list[str] = []
    for seq in naive_surface(events).nodes:
        data = events[seq].data
        message = data.get("message", data)
        asked += [block["id"] for block in message["content"] if block["type"] == "tool-call"]
        if events[seq].type == "tool/result":
            call_id = message["source"]["callId"]
            if call_id in asked:
                asked.remove(call_id)
            else:
                expected.append(f"the result at seq {seq} answers no call on the surface")
    assert tuple(expected) == verify_log(HEADER, events).warnings


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (bad_event(seq=6, surface_op=APPEND), "event at seq 6: the next event of this log has seq 5"),
        (bad_event(seq=4, surface_op=APPEND), "event at seq 4: the next event of this log has seq 5"),
        (bad_event(), "event at seq 5: user/message produces a message and must carry a marker"),
        (bad_event(event_type="turn/start", surface_op=APPEND), "event at seq 5: turn/start is log-only"),
        (bad_event(surface_op=Replace(1, 4), source_event_seqs=[1, 4]), "event at seq 5: the replacement starts at 1"),
        (bad_event(surface_op=Replace(4, 4)), r"event at seq 5: provenance must name .* \[4\] missing"),
        (bad_event(surface_op=APPEND, source_event_seqs=[5]), "event at seq 5: provenance names 5"),
        (bad_event(surface_op=APPEND, data={"role": "user"}), "event at seq 5: user/message data: "),
        (SessionEvent("s", 5, 0, "todo/write", b"[NaN]"), "event at seq 5: the data is not JSON: "),
    ],
)
def test_a_log_is_sound_up_to_the_event_that_does_not_fit(event: SessionEvent, found: str) -> None:
    """The problem names that event's seq, and the report counts what stands before it."""
    log = sound_log()
    log.append("compact/start", {"compactionId": "c", "turn": None})
    report = verify_log(HEADER, [*log.events[:5], event, *log.events[5:]])
    assert report.problem is not None
    with pytest.raises(AssertionError, match=found):
        raise AssertionError(report.problem)
    assert LogReport("s", 5, 1, 1, report.problem, ()) == report


def test_a_bracket_that_crosses_a_turn_is_a_warning_that_names_its_event() -> None:
    """The readers stand above brackets, so the log has no problem."""
    log = sound_log()
    log.append("compact/start", {"compactionId": "c", "turn": None})
    log.append("turn/start", {"turn": 2})
    (warning,) = verify_log(HEADER, log.events).warnings
    assert warning.startswith("event at seq 6: turn/start inside the compaction 'c'")
    assert verify_log(HEADER, log.events).problem is None


def test_an_orphan_result_is_a_warning_and_no_problem() -> None:
    """A result without its call stands in nobody's way."""
    log = sound_log()
    log.append("tool/result", tool_result_message("nobody", "x", turn=1, step=1), APPEND)
    expected = LogReport("s", 6, 2, 1, None, ("the result at seq 5 answers no call on the surface",))
    assert expected == verify_log(HEADER, log.events)

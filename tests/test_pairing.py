from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.errors import CompactionError
from dsh_compact.pairing import NO_CALLS, ToolPairing, node_calls
from dsh_session import SessionEvent, Surface, assistant_message, tool_result_message, user_message

CASES = {case["name"]: case for case in json.loads((Path(__file__).parent / "vectors/pairing.json").read_text("utf-8"))}

ORPHAN = "a result without an open call opens and closes nothing, and no query fails"
DIFFERENT = {
    "a result with another call id still closes the count": "a result closes the call that has its id, and no other",
    "empty, reasoning-only and content-free messages": ORPHAN,
    "compaction that splits a tool step": ORPHAN,
    "orphan result fails every query": ORPHAN,
    "surplus result": ORPHAN,
    "result before its call": ORPHAN,
    "regeneration that drops a call orphans its result": ORPHAN,
    "checkpoint swallowing only the call": ORPHAN,
    "random 5": ORPHAN,
    "random 8": ORPHAN,
    "random 38": ORPHAN,
}


def surface_of(wire_events: list[Any]) -> list[SessionEvent]:
    surface = Surface()
    for wire in wire_events:
        surface.apply(surface.plan(SessionEvent.from_wire(wire)))
    return surface.events()


def cuts_of(events: list[SessionEvent]) -> dict[str, dict[str, bool]]:
    pairing = ToolPairing(events)
    return {
        str(event.seq): {
            "before": pairing.balanced_before(event.seq),
            "after": pairing.balanced_after(event.seq),
        }
        for event in events
    }


def asks(seq: int, *call_ids: str) -> SessionEvent:
    calls: list[Any] = [{"type": "tool-call", "id": call_id, "name": "run", "arguments": "{}"} for call_id in call_ids]
    data = assistant_message(calls, turn=1, step=1, provider="p", model="m")
    return event_of(seq, "assistant/message", data)


def answers(seq: int, call_id: str) -> SessionEvent:
    return event_of(seq, "tool/result", tool_result_message(call_id, "done", turn=1, step=1))


def says(seq: int) -> SessionEvent:
    return event_of(seq, "user/message", user_message("hello"))


def event_of(seq: int, event_type: str, data: Any) -> SessionEvent:
    return SessionEvent.from_wire({"type": event_type, "seq": seq, "time": 0, "data": data, "surfaceOp": "append"})


CALL_IDS = st.sampled_from(["", "a", "b", "c"])
STEPS = st.lists(st.none() | CALL_IDS | st.lists(CALL_IDS, max_size=3), max_size=12)
"""A surface: None is a user's message, a str the result of a call, a list the calls of an assistant's message."""


def surface_from(steps: list[Any]) -> list[SessionEvent]:
    # Seqs fall, so that nothing can lean on surface order being numeric order.
    events = []
    for seq, step in zip(range(100, 0, -1), steps, strict=False):
        if step is None:
            events.append(says(seq))
        else:
            events.append(answers(seq, step) if isinstance(step, str) else asks(seq, *step))
    return events


def open_ids_after(steps: list[Any]) -> list[str]:
    """Count anew, id by id, what a surface leaves open."""
    left = []
    for call_id in ("", "a", "b", "c"):
        count = 0
        for step in steps:
            if isinstance(step, list):
                count += step.count(call_id)
            elif step == call_id and count > 0:
                count -= 1
        left += [call_id] * count
    return left


@pytest.mark.parametrize("name", sorted(CASES.keys() - DIFFERENT.keys()))
def test_the_recorded_cuts_are_ours(name: str) -> None:
    """Every cut is balanced where the original says so, unless it differs on purpose."""
    assert CASES[name]["cuts"] == cuts_of(surface_of(CASES[name]["events"]))


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_listed_difference_is_one(name: str) -> None:
    """A case is listed as different only where the recorded answer is not ours."""
    assert CASES[name].get("cuts") != cuts_of(surface_of(CASES[name]["events"]))


@given(STEPS)
def test_every_cut_is_balanced_when_nothing_is_open_across_it(steps: list[Any]) -> None:
    """Pairing agrees with counting each prefix of the surface anew."""
    events = surface_from(steps)
    expected = {
        str(event.seq): {
            "before": not open_ids_after(steps[:position]),
            "after": not open_ids_after(steps[: position + 1]),
        }
        for position, event in enumerate(events)
    }
    assert expected == cuts_of(events)


@given(STEPS, st.integers(0, 12))
def test_appending_is_the_same_as_starting_with_everything(steps: list[Any], known: int) -> None:
    """A pairing kept up event by event answers as one made of the whole surface."""
    events = surface_from(steps)
    kept_up = ToolPairing(events[:known])
    for event in events[known:]:
        kept_up.append(event)
    whole = ToolPairing(events)
    for event in events:
        assert whole.balanced_before(event.seq) == kept_up.balanced_before(event.seq)
        assert whole.balanced_after(event.seq) == kept_up.balanced_after(event.seq)
    assert whole.open_calls == kept_up.open_calls
    assert whole.orphan_results == kept_up.orphan_results


@given(STEPS)
def test_open_calls_and_orphans_are_what_is_left_unpaired(steps: list[Any]) -> None:
    """Each id is open as often as it was asked for and not answered; every other call has one result."""
    pairing = ToolPairing(surface_from(steps))
    open_ids = open_ids_after(steps)
    asked = sum(len(step) for step in steps if isinstance(step, list))
    results = sum(isinstance(step, str) for step in steps)
    assert open_ids == sorted(call_id for _, call_id in pairing.open_calls)
    assert asked - len(open_ids) == results - len(pairing.orphan_results)


def test_calls_answered_in_swapped_order_stay_open_until_both_are() -> None:
    """Results are matched by id, in whatever order they come."""
    events = [asks(0, "a", "b"), answers(1, "b"), answers(2, "a")]
    assert cuts_of(events) == {
        "0": {"before": True, "after": False},
        "1": {"before": False, "after": False},
        "2": {"before": False, "after": True},
    }


def test_a_result_of_another_call_leaves_the_call_open() -> None:
    """A result closes its own call and no other; it is reported as an orphan."""
    pairing = ToolPairing([asks(0, "a"), answers(1, "unrelated"), says(2)])
    assert not pairing.balanced_before(2)
    assert pairing.open_calls == [(0, "a")]
    assert pairing.orphan_results == [1]


def test_an_orphan_result_stands_in_the_way_of_no_cut() -> None:
    """Every cut around a result without a call is balanced."""
    events = [says(0), answers(1, "nobody"), says(2)]
    assert all(cut == {"before": True, "after": True} for cut in cuts_of(events).values())


def test_an_id_used_again_leaves_the_older_call_unanswered() -> None:
    """A result answers the nearest call of its id, so the one that a crash left is the one reported."""
    pairing = ToolPairing([asks(0, "a"), says(1), asks(2, "a"), answers(3, "a")])
    assert pairing.open_calls == [(0, "a")]


def test_the_flat_messages_of_older_logs_pair_alike() -> None:
    """Calls and results are found where logs of early 2026-07 keep them."""
    call = {"type": "tool-call", "id": "a", "name": "run", "arguments": "{}"}
    events = [
        event_of(0, "assistant/message", {"turn": 1, "step": 1, "content": [call]}),
        event_of(1, "tool/result", {"turn": 1, "step": 1, "callId": "a", "content": [], "isError": False}),
    ]
    assert cuts_of(events) == {"0": {"before": True, "after": False}, "1": {"before": False, "after": True}}


def test_what_has_to_do_with_no_call_is_told_by_identity() -> None:
    """A text answer and a user's message are the one NO_CALLS, so that nothing need be kept for such a node."""
    answer = assistant_message("done", turn=1, step=1, provider="p", model="m")["message"]
    assert node_calls("assistant/message", answer) is NO_CALLS
    assert node_calls("user/message", user_message("hello")) is NO_CALLS


@pytest.mark.parametrize("seq", [-1, 1, 7])
def test_a_seq_that_is_no_node_is_a_lookup_error(seq: int) -> None:
    """Both queries refuse a seq that is not on the surface, and the error carries it."""
    pairing = ToolPairing([says(0), says(2)])
    for query in (pairing.balanced_before, pairing.balanced_after):
        with pytest.raises(LookupError) as caught:
            query(seq)
        assert isinstance(caught.value, CompactionError)
        assert seq == caught.value.seq  # type: ignore[attr-defined] # the leaf's own attribute

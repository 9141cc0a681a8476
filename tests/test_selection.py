from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.errors import InvalidArgumentError
from dsh_compact.selection import select_compactable_range
from dsh_session import SessionEvent, Surface, assistant_message, tool_result_message, user_message

CASES = {
    case["name"]: case for case in json.loads((Path(__file__).parent / "vectors/select_range.json").read_text("utf-8"))
}

ORPHAN = "a result without an open call stands in the way of no compaction"
DIFFERENT = {
    "orphan result makes the cut throw": ORPHAN,
    "random 19": ORPHAN,
    "random 43": ORPHAN,
    "random 51": ORPHAN,
}


def surface_of(wire_events: list[Any]) -> list[SessionEvent]:
    surface = Surface()
    for wire in wire_events:
        surface.apply(surface.plan(SessionEvent.from_wire(wire)))
    return surface.events()


def select(case: Any) -> dict[str, int] | None:
    selected = select_compactable_range(surface_of(case["events"]), case["nodeTokens"], case["retainTokens"])
    return None if selected is None else {"start": selected[0], "end": selected[1]}


def event_of(seq: int, event_type: str, data: Any) -> SessionEvent:
    return SessionEvent.from_wire({"type": event_type, "seq": seq, "time": 0, "data": data, "surfaceOp": "append"})


def says(seq: int) -> SessionEvent:
    return event_of(seq, "user/message", user_message("hello"))


def calls(seq: int, call_id: str) -> list[SessionEvent]:
    """Return a call and, directly after it, its result."""
    call: Any = {"type": "tool-call", "id": call_id, "name": "run", "arguments": "{}"}
    asked = assistant_message([call], turn=1, step=1, provider="p", model="m")
    answered = tool_result_message(call_id, "done", turn=1, step=1)
    return [event_of(seq, "assistant/message", asked), event_of(seq + 1, "tool/result", answered)]


@st.composite
def priced_surfaces(draw: st.DrawFn) -> tuple[list[SessionEvent], list[int], set[int]]:
    """Draw a surface of messages and call-result pairs, the price of each node, and the positions of balanced cuts."""
    events: list[SessionEvent] = []
    balanced = {0}
    for is_call in draw(st.lists(st.booleans(), max_size=8)):
        events += calls(len(events), f"call-{len(events)}") if is_call else [says(len(events))]
        balanced.add(len(events))
    tokens = draw(st.lists(st.integers(0, 20), min_size=len(events), max_size=len(events)))
    return events, tokens, balanced


@pytest.mark.parametrize("name", sorted(CASES.keys() - DIFFERENT.keys()))
def test_the_recorded_range_is_ours(name: str) -> None:
    """The original chooses the same range, unless it differs on purpose."""
    assert CASES[name]["expect"] == select(CASES[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_listed_difference_is_one(name: str) -> None:
    """Where the original fails on a damaged surface, ours still finds a range."""
    assert "expectError" in CASES[name]
    assert select(CASES[name]) is not None


@given(priced_surfaces(), st.integers(0, 60))
def test_the_range_is_the_longest_that_keeps_enough(
    surface: tuple[list[SessionEvent], list[int], set[int]], retain_tokens: int
) -> None:
    """Of all cuts that are balanced and keep the newest node and enough tokens, the last one is chosen."""
    events, tokens, balanced = surface
    allowed = [cut for cut in range(1, len(events)) if cut in balanced and sum(tokens[cut:]) >= retain_tokens]
    expected = (events[0].seq, events[allowed[-1] - 1].seq) if allowed else None
    assert expected == select_compactable_range(events, tokens, retain_tokens)


def test_nothing_retained_still_keeps_the_newest_node() -> None:
    """The newest node is never compacted, whatever it costs."""
    assert select_compactable_range([says(0), says(1), says(2)], [10, 10, 0], 0) == (0, 1)


def test_a_cut_moves_off_a_call_that_is_open_across_it() -> None:
    """A pair that the retained tokens would part is kept whole."""
    events = [says(0), *calls(1, "a"), says(3)]
    assert select_compactable_range(events, [10, 10, 10, 10], 15) == (0, 0)


def test_a_surface_that_is_wholly_kept_is_not_decoded() -> None:
    """Where nothing can be cut off, the events are not looked at."""
    damaged = SessionEvent("", 0, 0, "tool/result", b"not JSON")
    assert select_compactable_range([damaged, damaged], [10, 10], 1000) is None


def test_what_is_kept_behind_the_cut_is_not_decoded() -> None:
    """Where the cut lies between messages, no event behind the one that it is before is looked at."""
    damaged = SessionEvent("", 2, 0, "tool/result", b"not JSON")
    assert select_compactable_range([says(0), says(1), damaged], [10, 10, 10], 15) == (0, 0)


def test_any_iterable_of_events_will_do() -> None:
    """The events are read once."""
    assert select_compactable_range(iter([says(0), says(1)]), [1, 1], 1) == (0, 0)


@pytest.mark.parametrize(
    ("tokens", "retain_tokens", "argument", "found"),
    [
        ([1], 0, "tokens", "1 prices for 2 nodes"),
        ([1, 1, 1], 0, "tokens", "3 prices for 2 nodes"),
        ([1, -1], 0, "tokens", "-1 found"),
        ([1.0, 1], 0, "tokens", "1.0 found"),
        ([True, 1], 0, "tokens", "True found"),
        ([1, None], 0, "tokens", "None found"),
        ([1, 1], -1, "retain_tokens", "-1 found"),
        ([1, 1], 0.5, "retain_tokens", "0.5 found"),
        ([1, 1], False, "retain_tokens", "False found"),
    ],
)
def test_what_is_no_price_is_refused_by_name(tokens: list[Any], retain_tokens: Any, argument: str, found: str) -> None:
    """There is one int >= 0 a node, and the tokens to keep are one too; a bool is none, and the error says so."""
    with pytest.raises(InvalidArgumentError, match=argument) as caught:
        select_compactable_range([says(0), says(1)], tokens, retain_tokens)
    assert argument == caught.value.argument
    assert caught.value.reason.startswith(found)

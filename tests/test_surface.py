"""The surface fold: what the model is sent, and every event that may not come next."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    InvalidEventError,
    InvalidSurfaceError,
    NotJSONError,
    Replace,
    SessionEvent,
    StalePlanError,
    Surface,
    assistant_message,
    check_data,
    derive_message,
    fold_surface,
    is_surface_event,
    lossless_json,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder, candidates, check_fold, logs, naive_refusals, naive_surface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

VECTORS = json.loads((Path(__file__).parent / "vectors" / "surface.json").read_text("utf-8"))
CLASSIFY = json.loads((Path(__file__).parent / "vectors" / "classify.json").read_text("utf-8"))

FLOAT = "a float is no seq, and 1.0 is not the 1 that stood there"
DIFFERENT = {
    "replace end-two53": "an int is a seq within signed 64 bits, not 53",
    "source element two53": "an int is a seq within signed 64 bits, not 53",
    "text: source 2^53 plus one": "an int is a seq within signed 64 bits, not 53",
    "text: seq spelled as a float": FLOAT,
    "text: seq spelled with an exponent": FLOAT,
    "text: replace endpoints as floats": FLOAT,
    "text: source negative zero covers a shadowed node": FLOAT,
    "text: source that underflows to zero": FLOAT,
    "text: rewrite whose turn is the same number spelled differently": FLOAT,
    "text: rewrite whose turn goes from zero to negative zero": FLOAT,
    "unknown envelope key": "the envelope is checked before the fold",
    "time is not an integer": "the envelope is checked before the fold",
}
NEGATIVE_ZERO_TAKEN = {"text: seq negative zero", "text: replace endpoint negative zero"}

few = settings(max_examples=50)


def surface_of(events: Iterable[SessionEvent], first_seq: int = 0) -> Surface:
    """Fold a log event by event."""
    surface = Surface(first_seq)
    for event in events:
        surface.apply(surface.plan(event))
    return surface


def seen(surface: Surface) -> tuple[Any, ...]:
    """Return everything that can be seen of a surface."""
    return surface.nodes, surface.next_seq, surface.generation, surface.events(), len(surface)


def refusal(log: LogBuilder) -> InvalidSurfaceError:
    """Return the error that the last event of a log is refused with."""
    surface = surface_of(log.events[:-1])
    with pytest.raises(InvalidSurfaceError) as caught:
        surface.plan(log.events[-1])
    assert caught.value.seq == log.events[-1].seq
    assert caught.value.rule in {"marker-invalid", *naive_refusals(log.events[:-1], log.events[-1])}
    return caught.value


def conversation(count: int = 3) -> LogBuilder:
    """Return a log of some user messages, which are the nodes from 0 on."""
    log = LogBuilder()
    for seq in range(count):
        log.append("user/message", user_message(f"message {seq}"), APPEND)
    return log


def folded(case: dict[str, Any]) -> dict[str, Any]:
    """Answer a recorded case the way its ``expect`` or ``expectError`` does."""
    lines = case["events"] if "events" in case else lossless_json.parse(case["eventsText"])
    surface = Surface(case.get("baseSeq", 0))
    replacements = []
    for index, line in enumerate(lines):
        try:
            event = SessionEvent.from_wire(line)
            plan = surface.plan(event)
        except InvalidEventError as error:
            return {"index": index, "rule": error.rule}
        surface.apply(plan)
        if isinstance(event.surface_op, Replace):
            marker = event.surface_op
            shadowed = list(plan.shadowed_seqs)
            replacements.append({"seq": event.seq, "start": marker.start, "end": marker.end, "shadowedSeqs": shadowed})
    derived = [derive_message(event) for event in surface.events()]
    return {
        "nodes": list(surface.nodes),
        "replacements": replacements,
        "messageIds": [message["id"] for message in derived if message is not None],
    }


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_a_recorded_log_folds_as_recorded(case: dict[str, Any]) -> None:
    """Nodes, replacements and message ids are as recorded, or the refused event and its rule, but where listed."""
    # given
    error = case.get("expectError")
    expected = {"index": error["index"], "rule": error["rule"]} if error else case["expect"]
    # when
    actual = folded(case)
    # then
    assert (expected == actual) == (case["name"] not in DIFFERENT)


@pytest.mark.parametrize("case", [case for case in VECTORS if "seedError" in case], ids=lambda case: case["name"])
def test_what_no_session_may_be_seeded_with_is_refused_before_the_fold(case: dict[str, Any]) -> None:
    """A log whose envelopes or messages are malformed is refused when they are read; an int's -0 is its 0 here."""
    # given
    lines = case["events"] if "events" in case else lossless_json.parse(case["eventsText"])
    # when
    try:
        events = [SessionEvent.from_wire(line) for line in lines]
        surface_of(events)
        for event in events:
            check_data(event.type, event.data)
    except (InvalidEventError, NotJSONError):
        is_taken = False
    else:
        is_taken = True
    # then
    assert is_taken == (case["name"] in NEGATIVE_ZERO_TAKEN)


@pytest.mark.parametrize("case", CLASSIFY, ids=lambda case: case["name"])
def test_a_recorded_log_is_classified_as_recorded(case: dict[str, Any]) -> None:
    """What is current and what is shadowed follows from the fold."""
    # given
    events = [SessionEvent.from_wire(line) for line in case["events"]]
    # when
    fold = fold_surface(events)
    # then
    assert case["expect"]["current"] == sorted(fold.nodes)
    assert case["expect"]["shadowed"] == sorted(seq for each in fold.replacements for seq in each.shadowed_seqs)


@given(logs())
def test_a_fold_finds_what_the_naive_fold_finds(events: list[SessionEvent]) -> None:
    """In one go or event by event, the fold agrees with a fold over a plain list."""
    check_fold(fold_surface, events)
    surface = surface_of(events)
    assert (fold_surface(events).nodes, len(events)) == (surface.nodes, surface.next_seq)
    assert [events[seq] for seq in surface.nodes] == surface.events()
    assert [events[seq] for seq in surface.nodes] == [surface.event(seq) for seq in surface]


@given(st.data())
def test_an_event_is_refused_when_it_breaks_a_rule_and_only_then(data: st.DataObject) -> None:
    """Whatever is tried, the rule that is named is one that is broken, and what breaks none may land."""
    # given
    events = data.draw(logs(max_moves=15))
    candidate = data.draw(candidates(events))
    surface = surface_of(events)
    broken = naive_refusals(events, candidate)
    # when
    try:
        surface.plan(candidate)
        named = set()
    except InvalidSurfaceError as error:
        named = {error.rule}
    # then
    assert named <= broken
    assert bool(named) == bool(broken)


@given(st.data())
@few
def test_planning_changes_nothing(data: st.DataObject) -> None:
    """A plan, whether it succeeds or is refused, leaves the surface exactly as it was."""
    # given
    events = data.draw(logs(max_moves=15))
    surface = surface_of(events)
    before = seen(surface)
    # when
    for candidate in data.draw(st.lists(candidates(events), max_size=3)):
        with suppress(InvalidSurfaceError):
            surface.plan(candidate)
    # then
    assert before == seen(surface)
    assert naive_surface(events).nodes == surface.nodes


@given(logs(), st.integers(0, 30))
@few
def test_a_restored_surface_goes_on_like_the_original(events: list[SessionEvent], at: int) -> None:
    """A surface made from nodes, next seq and generation takes the rest of the log as the original does."""
    # given
    seed, rest = events[:at], events[at:]
    before = surface_of(seed)
    restored = Surface.restore(
        before.nodes,
        next_seq=before.next_seq,
        generation=before.generation,
        fetch=lambda seqs: [seed[seq] for seq in seqs],
    )
    # when
    for event in rest:
        restored.apply(restored.plan(event))
    # then
    assert seen(surface_of(events)) == seen(restored)


@given(logs())
@few
def test_a_surface_follows_a_checked_log_by_its_markers_alone(events: list[SessionEvent]) -> None:
    """A reader that is shown surface events only, and only their seqs and markers, comes to the same surface."""
    # given
    surface = Surface()
    surface.fetch = lambda seqs: [events[seq] for seq in seqs]
    # when
    shadowed = [
        surface.apply_checked(event.seq, event.surface_op)
        for event in events
        if event.surface_op and is_surface_event(event)
    ]
    surface.skip_to(len(events))
    # then
    assert seen(surface_of(events)) == seen(surface)
    assert [replacement.shadowed_seqs for replacement in fold_surface(events).replacements] == list(
        filter(None, shadowed)
    )


@given(st.data())
@few
def test_a_thinned_surface_refuses_what_the_whole_one_refuses(data: st.DataObject) -> None:
    """A surface that has let go of its nodes' payloads still takes and refuses every event as before."""
    # given
    events = data.draw(logs(max_moves=15))
    candidate = data.draw(candidates(events))
    light = Surface()
    for event in events:
        light.take(event)
        if event.seq in light:
            light.drop_payload(event.seq)
    # when
    verdicts = []
    for surface in (surface_of(events), light):
        try:
            verdicts.append(surface.take(candidate))
        except InvalidSurfaceError as error:
            verdicts.append(error.rule)
    # then
    assert verdicts[0] == verdicts[1]


@given(st.data())
@few
def test_taking_an_event_is_planning_and_applying_it(data: st.DataObject) -> None:
    """An event that is taken lands as its plan would; one that is refused leaves the surface exactly as it was."""
    # given
    events = data.draw(logs(max_moves=15))
    candidate = data.draw(candidates(events))
    surface = surface_of(events)
    expected, shadowed = seen(surface), None
    with suppress(InvalidSurfaceError):
        planned = surface_of(events)
        plan = planned.plan(candidate)
        planned.apply(plan)
        expected, shadowed = seen(planned), plan.shadowed_seqs
    # when
    taken = None
    with suppress(InvalidSurfaceError):
        taken = surface.take(candidate)
    # then
    assert shadowed == taken
    assert expected == seen(surface)


@given(logs(), st.data())
@few
def test_nodes_are_read_in_either_order_and_by_span(events: list[SessionEvent], data: st.DataObject) -> None:
    """A surface is walked from its end too, and between any two of its nodes."""
    # given
    surface = surface_of(events)
    nodes = list(surface.nodes)
    first, last = (data.draw(st.integers(0, max(len(nodes) - 1, 0))) for _ in range(2))
    # then
    assert nodes[::-1] == list(reversed(surface))
    for start, end in zip(nodes[first : first + 1], nodes[last : last + 1], strict=True):
        assert tuple(nodes[first : last + 1]) == surface.span(start, end)
        assert [events[end], events[start]] == surface.events([end, start])


def test_an_append_goes_to_the_tail() -> None:
    """Appends stand in log order; log-only events between them leave the surface alone."""
    # given
    log = conversation(1)
    log.append("turn/start", {"turn": 1})
    log.append("user/message", user_message("more"), APPEND, [1])
    # then
    assert surface_of(log.events).nodes == (0, 2)


def test_a_replacement_stands_where_its_range_stood() -> None:
    """A checkpoint of high seq stands at an old position, so a later range may start above its end numerically."""
    # given
    log = conversation(4)
    # when
    log.replace("user/message", user_message("a and b"), 0, 1)
    # then
    assert surface_of(log.events).nodes == (4, 2, 3)
    # when
    log.replace("user/message", user_message("a, b and c"), 4, 2)
    # then
    fold = fold_surface(log.events)
    assert (fold.nodes, fold.generation) == ((5, 3), 2)
    assert [(each.seq, each.start, each.end, each.shadowed_seqs) for each in fold.replacements] == [
        (4, 0, 1, (0, 1)),
        (5, 4, 2, (4, 2)),
    ]


def test_everything_may_be_replaced() -> None:
    """One node can stand for the whole surface, and what is said next follows it."""
    # given
    log = conversation(3)
    log.replace("user/message", user_message("all"), 0, 2)
    log.append("user/message", user_message("next"), APPEND)
    # then
    assert surface_of(log.events).nodes == (3, 4)


def test_a_replacement_may_cite_more_than_it_shadows() -> None:
    """Provenance covers the shadowed nodes, and may name log-only events and shadowed originals beside them."""
    # given
    log = conversation(2)
    log.append("compact/summary", {})
    log.append("user/message", user_message("both"), Replace(0, 1), [2, 1, 0])
    log.append("user/message", user_message("again"), Replace(3, 3), [0, 1, 2, 3])
    # then
    assert surface_of(log.events).nodes == (4,)


def test_an_assistant_that_streamed_nothing_says_so() -> None:
    """Empty provenance means something on an assistant message, appended or replacing what it cites."""
    # given
    log = conversation(1)
    log.append("assistant/message", {}, APPEND, [])
    # then
    assert surface_of(log.events).nodes == (0, 1)


def test_a_range_of_a_window_names_nodes_of_the_window_only() -> None:
    """A fold may start above seq 0; nodes before its first seq are not on its surface."""
    # given
    log = conversation(3)
    log.replace("user/message", user_message("b and c"), 1, 2)
    # then
    assert fold_surface(log.events[1:], 1).nodes == (3,)
    with pytest.raises(InvalidSurfaceError, match="starts at 1, which is no node"):
        fold_surface(log.events[2:], 2)


@pytest.mark.parametrize(
    ("event_type", "op", "sources", "rule", "said"),
    [
        ("user/message", None, None, "marker-missing", "user/message produces a message and must carry a marker"),
        ("assistant/message", None, None, "marker-missing", "assistant/message"),
        ("tool/result", None, None, "marker-missing", "tool/result"),
        ("steering/message", None, None, "marker-missing", "steering/message"),
        ("turn/start", APPEND, None, "marker-on-log-only", "turn/start is log-only and cannot carry a marker"),
        ("unheard-of", Replace(0, 0), [0], "marker-on-log-only", "unheard-of is log-only"),
        ("turn/start", None, [0], "sources-on-log-only", "turn/start is log-only and cannot carry provenance"),
        ("turn/start", None, [], "sources-on-log-only", "turn/start"),
        ("user/message", "append", None, "marker-invalid", "the marker is 'append'"),
        ("user/message", Replace(9, 1), [1], "start-not-on-surface", "starts at 9, which is no node"),
        ("user/message", Replace(1, 9), [1], "end-not-on-surface", "ends at 9, which is no node"),
        ("user/message", Replace(3, 3), [3], "start-not-on-surface", "starts at 3, which is no node"),
        ("user/message", Replace(2, 0), [0, 1, 2], "range-reversed", "starts at 2, which stands after its end 0"),
        ("user/message", Replace(1, 0), [0, 1], "range-reversed", "starts at 1, which stands after its end 0"),
        ("user/message", Replace(2, 1), [1, 2], "range-reversed", "starts at 2, which stands after its end 1"),
        ("user/message", APPEND, [], "sources-empty", "provenance is empty"),
        ("tool/result", APPEND, [], "sources-empty", "provenance is empty"),
        ("steering/message", APPEND, [], "sources-empty", "provenance is empty"),
        ("user/message", Replace(0, 0), [], "sources-empty", "provenance is empty"),
        ("user/message", APPEND, [1, 0, 1], "sources-duplicate", "provenance names an event twice"),
        ("assistant/message", APPEND, [3], "sources-not-earlier", "names 3, which is no earlier event"),
        ("user/message", APPEND, [0, 7, 9], "sources-not-earlier", "names 7, which is no earlier event"),
        ("user/message", Replace(0, 2), [1], "sources-missing-shadowed", "[0, 2] missing"),
        ("user/message", Replace(0, 0), None, "sources-missing-shadowed", "[0] missing"),
        ("assistant/message", Replace(0, 0), [], "sources-missing-shadowed", "[0] missing"),
        ("tool/result", Replace(0, 1), [0, 1], "result-span", "rewrites exactly one node; this range spans 2"),
        ("tool/result", Replace(1, 1), [1], "result-target", "seq 1 is a user/message"),
    ],
)
def test_an_event_that_may_not_come_next_is_refused_by_rule(
    event_type: str, op: Any, sources: list[int] | None, rule: str, said: str
) -> None:
    """Each rule has its own error, which names what was found."""
    # given
    log = conversation(3)
    log.append(event_type, {}, op, sources)
    # when
    error = refusal(log)
    # then
    assert rule == error.rule
    assert f" {said}" in f" {error.reason}"


@pytest.mark.parametrize("seq", [0, 1, 3, 7])
def test_an_event_that_is_not_the_next_one_is_refused(seq: int) -> None:
    """The log has no gap and nothing twice, whatever the event is."""
    # given
    surface = surface_of(conversation(2).events)
    for event_type, op in (("user/message", APPEND), ("turn/start", None)):
        # when
        with pytest.raises(InvalidSurfaceError, match="the next event of this log has seq 2") as caught:
            surface.plan(SessionEvent("", seq, 0, event_type, b"{}", op))
        # then
        assert (caught.value.rule, caught.value.seq) == ("seq", seq)


def result_log(data: Any, rewritten: Any) -> LogBuilder:
    """Return a log of a result and its rewrite."""
    log = LogBuilder()
    log.append("tool/result", data, APPEND)
    log.replace("tool/result", rewritten, 0, 0)
    return log


def result(**beside: Any) -> Any:
    return {**tool_result_message("c", "a long text", turn=1, step=2, message_id="m1"), **beside}


def in_block(data: Any, **parts: Any) -> Any:
    """Return a result whose block has other parts."""
    message = data["message"]
    return {**data, "message": {**message, "content": [{**message["content"][0], **parts}]}}


@pytest.mark.parametrize(
    ("data", "rewritten"),
    [
        (result(), in_block(result(), content=[])),
        (result(), in_block(result(), content=[{"type": "text", "text": "short"}, {"type": "image"}])),
        (result(meta=[{"a": -0.0}]), in_block(result(meta=[{"a": -0.0}]), content=[])),
        (result(meta={"a": 1, "b": [None]}), result(meta={"b": [None], "a": 1})),
        (
            {"turn": 1, "step": 2, "callId": "c", "content": [1], "isError": False},
            {"turn": 1, "step": 2, "callId": "c", "content": [], "isError": False},
        ),
        ({}, {}),
        ([1], [1]),
        ("x", "x"),
    ],
)
def test_a_result_may_be_rewritten_in_its_content(data: Any, rewritten: Any) -> None:
    """A tool result takes another's place when only the content inside its block differs, in any order of keys."""
    # given
    log = result_log(data, rewritten)
    # then
    assert surface_of(log.events).nodes == (1,)


@pytest.mark.parametrize(
    ("data", "rewritten"),
    [
        (result(), result(turn=2)),
        (result(), result(turn=1.0)),
        (result(), result(turn=True)),
        (result(), result(meta=None)),
        (result(error={"code": "X"}), result()),
        (result(meta=[0]), result(meta=[0, 0])),
        (result(meta=[0]), result(meta=[False])),
        (result(meta=0.0), result(meta=-0.0)),
        (result(meta="a"), result(meta="b")),
        (result(meta={"a": 1}), result(meta={"b": 1})),
        (result(), in_block(result(), isError=True)),
        (result(), in_block(result(), toolCallId="d")),
        (result(), in_block(result(), extra=1)),
        (result(), {**result(), "message": {**result()["message"], "id": "m2"}}),
        (result(), {"turn": 1, "step": 2, "callId": "c", "content": [], "isError": False}),
        ({"content": [], "message": 1}, {"content": [1], "message": 1}),
        ([1], [2]),
    ],
)
def test_a_result_may_not_be_rewritten_in_anything_else(data: Any, rewritten: Any) -> None:
    """Whatever but the content differs, in value or type, the rewrite is refused."""
    # when
    error = refusal(result_log(data, rewritten))
    # then
    assert error.rule == "result-fields"
    assert "may differ from the result at seq 0" in error.reason


def test_a_rewritten_result_may_be_rewritten_again_and_no_more_its_original() -> None:
    """A rewrite targets the result that is current, whose original is on the surface no more."""
    # given
    log = result_log(result(), in_block(result(), content=[]))
    log.replace("tool/result", result(), 1, 1)
    assert surface_of(log.events).nodes == (2,)
    # when
    log.append("tool/result", result(), Replace(0, 0), [0])
    # then
    assert refusal(log).rule == "start-not-on-surface"


def test_a_user_message_may_take_the_place_of_a_result() -> None:
    """Only a tool/result must rewrite its like."""
    # given
    log = result_log(result(), result())
    log.replace("user/message", user_message("a result stood here"), 1, 1)
    # then
    assert surface_of(log.events).nodes == (2,)


def test_a_stale_plan_is_not_applied() -> None:
    """A plan that was made before another event landed is an error, and changes nothing."""
    # given
    log = conversation(2)
    log.replace("user/message", user_message("both"), 0, 1)
    surface = surface_of(log.events[:2])
    plan = surface.plan(log.events[2])
    surface.apply(plan)
    before = seen(surface)
    # when
    with pytest.raises(StalePlanError, match="the plan is for seq 2; the next event of this log has seq 3") as caught:
        surface.apply(plan)
    # then
    assert isinstance(caught.value, RuntimeError)
    assert before == seen(surface)


def test_a_plan_cannot_be_altered() -> None:
    """What was checked is what lands."""
    log = conversation(2)
    plan = surface_of(log.events[:1]).plan(log.events[1])
    for name, value in (("event", log.events[0]), ("shadowed_seqs", (0,))):
        with pytest.raises(AttributeError):
            setattr(plan, name, value)


def test_a_node_is_asked_for_by_seq() -> None:
    """A surface tells which seqs are on it, and gives their events."""
    # given
    log = conversation(2)
    log.append("turn/start", {"turn": 1})
    surface = surface_of(log.events)
    # then
    assert [seq in surface for seq in (0, 1, 2, -1, "0")] == [True, True, False, False, False]
    assert surface.event(1) == log.events[1]
    with pytest.raises(LookupError, match="seq 2 is not on the surface"):
        surface.event(2)
    with pytest.raises(KeyError):
        surface.events([0, 2])
    with pytest.raises(KeyError):
        surface.span(0, 2)
    with pytest.raises(KeyError):
        surface.span(2, 0)


@pytest.fixture
def fetched() -> list[int]:
    """The seqs that were fetched, in the order in which they were."""
    return []


def fetching(log: LogBuilder, fetched: list[int]) -> Callable[[Sequence[int]], list[SessionEvent]]:
    """Return a fetch that takes note of what it is asked for."""

    def fetch(seqs: Sequence[int]) -> list[SessionEvent]:
        fetched.extend(seqs)
        return [log.events[seq] for seq in seqs]

    return fetch


def test_a_restored_surface_fetches_what_is_asked_for_once(fetched: list[int]) -> None:
    """Opening a session reads no payload; what a reader asks for is fetched then, and kept."""
    # given
    log = conversation(3)
    surface = Surface.restore((2, 0, 1), next_seq=3, generation=1, fetch=fetching(log, fetched))
    assert fetched == []
    # when
    assert surface.event(0) == log.events[0]
    assert fetched == [0]
    # then
    assert [event.seq for event in surface.events()] == [2, 0, 1]
    assert sorted(fetched) == [0, 1, 2]
    assert surface.event(2) == log.events[2]
    assert len(fetched) == 3


def test_a_rewrite_fetches_its_target(fetched: list[int]) -> None:
    """The result that a rewrite targets is compared even when it was not loaded."""
    # given
    log = result_log(result(), result(turn=5))
    surface = Surface.restore((0,), next_seq=1, generation=0, fetch=fetching(log, fetched))
    # when
    with pytest.raises(InvalidSurfaceError) as caught:
        surface.plan(log.events[1])
    # then
    assert caught.value.rule == "result-fields"
    assert fetched == [0]


@pytest.mark.parametrize("fetch", [None, lambda _: []], ids=["no store", "an empty store"])
def test_a_payload_that_is_nowhere_is_an_error(fetch: Any) -> None:
    """A surface that knows its order and no payloads says so when it is asked for one."""
    # given
    surface = Surface.restore((4,), next_seq=5, generation=0, fetch=fetch)
    # then
    assert surface.nodes == (4,)
    with pytest.raises(LookupError, match="the event of node 4 is not in the store"):
        surface.event(4)


def test_a_surface_that_followed_markers_alone_has_no_payloads() -> None:
    """Without a store to fetch from it knows its order, and says so when it is asked for an event."""
    # given
    surface = Surface()
    surface.apply_checked(0, APPEND)
    # then
    with pytest.raises(LookupError, match="the event of node 0 is not in the store"):
        surface.event(0)


def test_what_lies_behind_is_not_followed() -> None:
    """A log is followed forwards only."""
    # given
    surface = surface_of(conversation(2).events)
    # when
    with pytest.raises(InvalidSurfaceError, match="the next event of this log has seq 2") as caught:
        surface.apply_checked(1, APPEND)
    # then
    assert (caught.value.rule, caught.value.seq) == ("seq", 1)
    # when
    surface.apply_checked(5, APPEND)
    # then
    with pytest.raises(InvalidSurfaceError, match="the next event of this log has seq 6"):
        surface.apply_checked(5, APPEND)


def test_a_range_that_is_not_there_is_not_followed() -> None:
    """Following a replacement of nodes that are not on the surface is an error that names the event."""
    # given
    surface = surface_of(conversation(2).events)
    # when
    with pytest.raises(InvalidSurfaceError, match="starts at 7, which is no node") as caught:
        surface.apply_checked(5, Replace(7, 7))
    # then
    assert (caught.value.rule, caught.value.seq) == ("start-not-on-surface", 5)
    assert surface.nodes == (0, 1)


def test_passing_over_never_goes_back() -> None:
    """Passing over log-only events moves the next seq forwards or not at all."""
    # given
    surface = Surface(5)
    # when
    surface.skip_to(3)
    # then
    assert surface.next_seq == 5


class CountedLinks(dict[int, int]):
    """Links that count how often they are read."""

    reads = 0

    def __getitem__(self, node: int) -> int:
        self.reads += 1
        return super().__getitem__(node)


@pytest.mark.parametrize("end", [0, 10_000, 19_997])
def test_a_reversed_range_is_found_at_the_cost_of_its_span(end: int) -> None:
    """However large the surface is, and wherever the range lies, its refusal costs the span and no more."""
    # given
    surface = Surface.restore(range(20_000), next_seq=20_000, generation=0)
    surface._after = links = CountedLinks(surface._after)
    # when
    with pytest.raises(InvalidSurfaceError) as caught:
        surface.apply_checked(20_000, Replace(end + 2, end))
    # then
    assert caught.value.rule == "range-reversed"
    assert links.reads < 10


def test_a_thinned_node_is_still_checked_against() -> None:
    """A node without its payload takes up little room, and a rewrite of it is refused or taken as before."""
    log = LogBuilder()
    log.append("tool/result", tool_result_message("c", "x" * 1000, turn=1, step=1, message_id="r"), APPEND)
    log.append("user/message", user_message("y" * 1000), APPEND)
    log.append("assistant/message", assistant_message("z" * 1000, turn=1, step=1, provider="p", model="m"), APPEND)
    surface = Surface()
    for event in log.events:
        surface.take(event)
        surface.drop_payload(event.seq)
    assert all(len(event.encoded_data) < 300 for event in surface.events())

    wrong = log.replace("tool/result", tool_result_message("c", "z", turn=1, step=2, message_id="r"), 0, 0)
    with pytest.raises(InvalidSurfaceError, match="only the content"):
        surface.plan(wrong)
    right = msgspec.structs.replace(
        wrong, encoded_data=lossless_json.encode(tool_result_message("c", "z", turn=1, step=1, message_id="r"))
    )

    assert surface.take(right) == (0,)

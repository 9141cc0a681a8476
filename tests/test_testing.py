"""What embedders test with: strategies that reach everything, oracles that agree with the records, laws that bite."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    Append,
    Replace,
    SessionEvent,
    SurfaceFold,
    fold_surface,
    interrupted_turn_closers,
    is_append_surface_event,
    lossless_json,
    tool_result_message,
    user_message,
)
from dsh_session.testing import (
    LogBuilder,
    candidates,
    check_fold,
    check_lossless,
    check_repair,
    contents,
    is_same_json,
    json_values,
    log_moves,
    logs,
    naive_chains,
    naive_classes,
    naive_refusals,
    naive_surface,
    surface_ops,
    texts,
    user_messages,
)

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = Path(__file__).parent / "vectors"
CLASSIFY = json.loads((VECTORS / "classify.json").read_text("utf-8"))
SURFACE = json.loads((VECTORS / "surface.json").read_text("utf-8"))

Log = list[SessionEvent]
T = TypeVar("T")


def drawn_from(strategy: st.SearchStrategy[T], count: int) -> list[T]:
    """Return values that a strategy gives, the same in every run."""
    drawn: list[T] = []

    @given(strategy)
    @settings(max_examples=count, database=None, derandomize=True, deadline=None, phases=[Phase.generate])
    def draw(value: T) -> None:
        drawn.append(value)

    draw()
    return drawn


def replaced(log: Log) -> list[tuple[SessionEvent, list[SessionEvent]]]:
    """Return every replacement of a log with what it shadowed."""
    return [(log[each.seq], [log[seq] for seq in each.shadowed_seqs]) for each in naive_surface(log).replacements]


@pytest.mark.parametrize("case", CLASSIFY, ids=lambda case: case["name"])
def test_the_naive_oracles_say_what_is_recorded(case: dict[str, Any]) -> None:
    """Classes and chains of replacers are those of the original."""
    # given
    events = [SessionEvent.from_wire(line) for line in case["events"]]
    expect = case["expect"]
    recorded = {"current": expect["current"], "shadowed": expect["shadowed"], "log-only": expect["logOnly"]}
    # when
    classes = naive_classes(events)
    # then
    assert recorded == {name: [seq for seq in classes if classes[seq] == name] for name in recorded}
    assert expect["replacementChain"] == {str(seq): chain for seq, chain in naive_chains(events).items()}


@pytest.mark.parametrize(
    "case",
    [case for case in SURFACE if "events" in case and "expect" in case and "seedError" not in case],
    ids=lambda case: case["name"],
)
def test_the_naive_fold_finds_what_is_recorded(case: dict[str, Any]) -> None:
    """Nodes and replacements are those of the original."""
    # given
    events = [SessionEvent.from_wire(line) for line in case["events"]]
    # when
    fold = naive_surface(events)
    # then
    assert case["expect"]["nodes"] == list(fold.nodes)
    assert [each["shadowedSeqs"] for each in case["expect"]["replacements"]] == [
        list(each.shadowed_seqs) for each in fold.replacements
    ]


@given(logs())
@settings(max_examples=40)
def test_every_event_of_a_log_may_come_next(events: Log) -> None:
    """A log that is given breaks no rule at any event."""
    assert [set()] * len(events) == [naive_refusals(events[:seq], event) for seq, event in enumerate(events)]


SITUATIONS: dict[str, Callable[[Log], object]] = {
    "a range that is numerically reversed": lambda log: any(
        each.start > each.end for each in naive_surface(log).replacements
    ),
    "a replacement of a replacement of a replacement": lambda log: any(len(c) > 2 for c in naive_chains(log).values()),
    "a replacement of the whole surface": lambda log: any(
        len(gone) > 2 and naive_surface(log[: event.seq + 1]).nodes == (event.seq,) for event, gone in replaced(log)
    ),
    "a replacement in the middle": lambda log: any(
        (nodes := naive_surface(log[: event.seq + 1]).nodes) and event.seq not in (nodes[0], nodes[-1])
        for event, _ in replaced(log)
    ),
    "a rewritten result": lambda log: any(event.type == "tool/result" for event, _ in replaced(log)),
    "a regenerated answer that keeps its calls": lambda log: any(
        b"tool-call" in event.encoded_data for event, _ in replaced(log)
    ),
    "a checkpoint": lambda log: any(b'"plugin":"compact"' in event.encoded_data for event, _ in replaced(log)),
    "a replacement by another plugin": lambda log: any(
        b'"plugin":"notes"' in event.encoded_data for event, _ in replaced(log)
    ),
    "a checkpoint's source that was appended": lambda log: any(
        is_append_surface_event(event) and b'"plugin":"compact"' in event.encoded_data for event in log
    ),
    "chunks that an answer cites": lambda log: any(
        is_append_surface_event(event) and len(event.source_event_seqs or ()) > 1 for event in log
    ),
    "an answer of which nothing was streamed": lambda log: any(event.source_event_seqs == () for event in log),
    "a steering message": lambda log: any(event.type == "steering/message" for event in log),
    "an ignorable event": lambda log: any(event.ignorable for event in log),
    "an unknown event": lambda log: any(event.type == "unheard-of" for event in log),
    "a title": lambda log: any(event.type == "session/title" for event in log),
    "a request header and a context": lambda log: {"request/header", "request/context"} <= {e.type for e in log},
    "a started call that was answered": lambda log: (
        any(event.type == "tool/call" for event in log)
        and any(b'"callId":"call-' in event.encoded_data for event in log if event.type == "tool/result")
    ),
    "a result of a call that nobody made": lambda log: any(b"call-of-nobody" in event.encoded_data for event in log),
    "a lone surrogate": lambda log: any(b"\\ud83d" in event.encoded_data for event in log),
    "a turn that ended with its step": lambda log: any(
        (one.type, two.type) == ("step/end", "turn/end") for one, two in pairwise(log)
    ),
    "a second step of one turn": lambda log: (
        ("step/end", "step/start") in pairwise(event.type for event in log if event.type[:5] in {"turn/", "step/"})
    ),
    "a crash inside a step with open calls": lambda log: (
        {"tool/result", "step/end", "turn/end"} <= {closer.type for closer in interrupted_turn_closers(log)}
    ),
    "an empty log": lambda log: not log,
}


@pytest.fixture(scope="module")
def many_logs() -> list[Log]:
    """Some hundred logs, the same in every run."""
    return drawn_from(logs(), 500)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_logs_reach_every_situation(many_logs: list[Log], situation: str) -> None:
    """What may happen in a session happens in some log."""
    assert any(SITUATIONS[situation](log) for log in many_logs)


def test_a_log_shrinks_to_what_matters() -> None:
    """The simplest log with a replacement is a message and its replacement."""
    # when
    log = find(logs(max_moves=12), lambda log: naive_surface(log).generation > 0, settings=settings(database=None))
    # then
    assert len(log) == 2


def test_a_log_is_made_of_the_callers_moves() -> None:
    """Other moves may be played instead of the usual ones, or joined to them."""

    # given
    def ping(log: LogBuilder) -> None:
        log.append("ping", len(log.events))

    pings = st.just(ping)
    # when
    log = max(drawn_from(logs(pings, max_moves=6), 10), key=len)
    # then
    assert len(log) > 3
    assert [(event.type, event.data) for event in log] == [("ping", seq) for seq in range(len(log))]
    # when
    joined = drawn_from(logs(pings | log_moves()), 50)
    # then
    assert any({"ping", "turn/start"} <= {event.type for event in log} for log in joined)


RULES = {
    "seq",
    "marker-missing",
    "marker-on-log-only",
    "sources-on-log-only",
    "start-not-on-surface",
    "end-not-on-surface",
    "range-reversed",
    "sources-empty",
    "sources-duplicate",
    "sources-not-earlier",
    "sources-missing-shadowed",
    "result-span",
    "result-target",
    "result-fields",
}


def test_candidates_break_every_rule() -> None:
    """Among the candidates for one log each rule is broken by some, and some appends and replacements may land."""
    # given
    log = LogBuilder()
    log.append("tool/result", tool_result_message("c", "one", turn=1, step=1), APPEND)
    log.append("tool/result", tool_result_message("d", "two", turn=1, step=1), APPEND)
    log.append("user/message", user_message("three"), APPEND)
    # when
    drawn = drawn_from(candidates(log.events), 600)
    broken = [naive_refusals(log.events, candidate) for candidate in drawn]
    # then
    assert set().union(*broken) == RULES
    assert {type(candidate.surface_op) for candidate, rules in zip(drawn, broken, strict=True) if not rules} == {
        Append,
        Replace,
    }


@pytest.mark.parametrize(
    ("strategy", "corners"),
    [
        (texts(), [lambda text: "\ud83d\ude00" in text, lambda text: text == "\ud83d"]),
        (
            json_values(),
            [
                lambda value: "-0.0" in repr(value),
                lambda value: str(2**63 - 1) in repr(value),
                lambda value: str(-(2**63)) in repr(value),
                lambda value: isinstance(value, dict) and any(isinstance(item, list) for item in value.values()),
            ],
        ),
        (contents(), [lambda content: len(content) > 2, lambda content: not content]),
        (user_messages(), [lambda message: message["source"]["kind"] == "session-reference"]),
        (surface_ops(), [lambda op: isinstance(op, Append), lambda op: isinstance(op, Replace) and op.start > op.end]),
        (surface_ops(st.just(77)), [lambda op: op == Replace(77, 77)]),
    ],
    ids=["texts", "json_values", "contents", "user_messages", "surface_ops", "surface_ops of ends"],
)
def test_a_strategy_reaches_its_corners(
    strategy: st.SearchStrategy[Any], corners: list[Callable[[Any], object]]
) -> None:
    """Values that are easily got wrong are among those that are given."""
    # when
    drawn = drawn_from(strategy, 300)
    # then
    assert [True] * len(corners) == [any(is_corner(value) for value in drawn) for is_corner in corners]


def test_given_values_are_the_callers_to_change() -> None:
    """Changing a value that a strategy gave changes no other that it gives."""
    # given
    expected = drawn_from(user_messages(), 30)
    # when
    for message in drawn_from(user_messages(), 30):
        message["source"].clear()
        message["content"].clear()
    # then
    assert expected == drawn_from(user_messages(), 30)


def test_a_built_log_has_times_as_clocks_give_them() -> None:
    """Times repeat and step back, so that a reader that orders by them is found out."""
    # given
    log = LogBuilder()
    for turn in range(12):
        log.append("turn/start", {"turn": turn})
    times = [event.time for event in log.events]
    # then
    assert times != sorted(times)
    assert max(Counter(times).values()) > 1
    assert [event.seq for event in log.events] == list(range(12))


def test_a_built_log_may_be_wrong() -> None:
    """Nothing is checked, so a log that no reader may take can be built."""
    # given
    log = LogBuilder()
    # when
    event = log.append("turn/start", [], APPEND, [5, 5], ignorable=True)
    # then
    assert event == SessionEvent("", 0, event.time, "turn/start", b"[]", APPEND, (5, 5), ignorable=True)
    assert log.events == [event]


def test_a_built_replacement_cites_what_it_shadows() -> None:
    """A range is named by its ends, and the nodes between them are found."""
    # given
    log = LogBuilder()
    for _ in range(4):
        log.append("user/message", {}, APPEND)
    log.replace("user/message", {}, 0, 1)
    # when
    event = log.replace("user/message", {}, 4, 2)
    # then
    assert (event.surface_op, event.source_event_seqs) == (Replace(4, 2), (4, 2))
    assert log.nodes == (5, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, -0.0),
        (None, False),
        ("1", 1),
        ("\ud83d\ude00", "😀"),
        ([], {}),
        ([1], [1, 1]),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": [None]}, {"a": []}),
    ],
)
def test_json_values_are_told_apart(one: Any, other: Any) -> None:
    """Values that Python or a reader takes for the same are not, nor are other orders of keys."""
    assert not is_same_json(one, other)
    assert not is_same_json(other, one)
    assert is_same_json(one, json.loads(json.dumps(one))) or one == "\ud83d\ude00"


@pytest.mark.parametrize(
    ("round_trip", "value"),
    [
        (lambda value: value, [1]),
        (lambda value: value, {}),
        (float, 1),
        (lambda value: json.loads(json.dumps(value)), "\ud83d\ude00"),
        (lambda value: value.append(2) or [1, 2], [1]),
        (lambda value: dict(sorted(value.items())), {"b": 1, "a": 2}),
    ],
    ids=["list kept", "dict kept", "int lost", "pair joined", "value changed", "keys sorted"],
)
def test_a_store_that_loses_something_is_found_out(round_trip: Callable[[Any], Any], value: Any) -> None:
    """The law of lossless storing fails for a store that changes, shares or confuses values."""
    with pytest.raises(AssertionError):
        check_lossless(round_trip, value)


def test_a_fold_that_finds_something_else_is_found_out() -> None:
    """The law of folds fails for nodes in seq order, and for replacements that are not counted."""
    # given
    log = LogBuilder()
    for _ in range(3):
        log.append("user/message", {}, APPEND)
    log.replace("user/message", {}, 0, 1)

    def in_seq_order(events: Any) -> SurfaceFold:
        fold = fold_surface(events)
        return attrs.evolve(fold, nodes=tuple(sorted(fold.nodes)))

    # then
    check_fold(fold_surface, log.events)
    with pytest.raises(AssertionError, match="expected SurfaceFold"):
        check_fold(in_seq_order, log.events)
    with pytest.raises(AssertionError, match="generation=0"):
        check_fold(lambda events: attrs.evolve(fold_surface(events), generation=0), log.events)


def unfinished(events: Any) -> Log:
    return interrupted_turn_closers(events)[:-1]


def endless(events: Any) -> Log:
    log = LogBuilder()
    log.events = list(events)
    log.append("turn/end", {})
    return [
        SessionEvent("", each.seq, events[-1].time, each.type, each.encoded_data) for each in log.events[len(events) :]
    ]


def late(events: Any) -> Log:
    return [
        SessionEvent("", each.seq, each.time + 1, each.type, each.encoded_data)
        for each in interrupted_turn_closers(events)
    ]


def misplaced(events: Any) -> Log:
    return [
        SessionEvent("", each.seq + 1, each.time, each.type, each.encoded_data)
        for each in interrupted_turn_closers(events)
    ]


@pytest.mark.parametrize(
    ("repair", "said"),
    [
        (late, "has another time than the last event"),
        (misplaced, "cannot land: seq"),
        (unfinished, "the last turn is still open"),
        (endless, "is repaired again"),
    ],
)
def test_a_repair_that_leaves_something_is_found_out(repair: Callable[[Any], Log], said: str) -> None:
    """The law of repairs fails for closers that cannot land, that ask a clock, or that leave something open."""
    # given
    log = LogBuilder()
    log.append("turn/start", {"turn": 1})
    log.append("step/start", {"turn": 1, "step": 1})
    # then
    check_repair(interrupted_turn_closers, log.events)
    with pytest.raises(AssertionError, match=said):
        check_repair(repair, log.events)


def test_a_repair_by_chance_is_found_out() -> None:
    """The law of repairs fails for closers that are others the second time."""
    # given
    reasons = iter(range(9))

    def by_chance(events: Any) -> Log:
        return [
            SessionEvent("", each.seq, each.time, each.type, lossless_json.encode(next(reasons)))
            for each in interrupted_turn_closers(events)
        ]

    log = LogBuilder()
    log.append("turn/start", {"turn": 1})
    # then
    with pytest.raises(AssertionError, match="a second repair of the same log is another one"):
        check_repair(by_chance, log.events)

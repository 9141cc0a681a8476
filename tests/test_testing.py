"""What embedders test with: strategies that reach everything, oracles that agree with the records, laws that bite."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import hypothesis
import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    SURFACE_EVENT_TYPES,
    Append,
    InvalidSurfaceError,
    Replace,
    SessionEvent,
    Surface,
    SurfaceFold,
    assistant_message,
    fold_surface,
    interrupted_turn_closers,
    is_append_surface_event,
    lossless_json,
    message_of,
    read_jsonl,
    tool_calls_of,
    tool_result_message,
    user_message,
)
from dsh_session.surface import SurfacePlan
from dsh_session.testing import (
    Interleaving,
    LogBuilder,
    candidates,
    check_fold,
    check_lossless,
    check_refuses_foreign,
    check_repair,
    check_surface,
    contents,
    crash_prefixes,
    damaged_logs,
    foreign_values,
    given,
    interleavings,
    irregular_moves,
    is_same_json,
    json_values,
    jsonl_forms,
    log_moves,
    logs,
    messages,
    naive_attempts,
    naive_chains,
    naive_classes,
    naive_rebase,
    naive_refusals,
    naive_surface,
    replaced_logs,
    replacement_moves,
    session_of,
    show_log,
    surface_ops,
    texts,
    turn_moves,
    turns,
    user_messages,
    wire_forms,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_session import Session

VECTORS = Path(__file__).parent / "vectors"
CLASSIFY = json.loads((VECTORS / "classify.json").read_text("utf-8"))
SURFACE = json.loads((VECTORS / "surface.json").read_text("utf-8"))

Log = list[SessionEvent]
T = TypeVar("T")


def drawn_from(strategy: st.SearchStrategy[T], count: int) -> list[T]:
    """Return values that a strategy gives, the same in every run."""
    drawn: list[T] = []

    @hypothesis.given(strategy)
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


@hypothesis.given(logs())
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


def results_by_call(log: Log) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in log:
        if event.type == "tool/result":
            found.setdefault(message_of(event.type, event.data)["source"]["callId"], []).append(event.seq)
    return found


def asked(log: Log) -> list[list[str]]:
    """The call ids of every answer that asks for some."""
    answers = [message_of(event.type, event.data) for event in log if event.type == "assistant/message"]
    return [ids for answer in answers if (ids := [call["id"] for call in tool_calls_of(answer)])]


def ends_of_turns(log: Log) -> list[int]:
    return [event.seq for event in log if event.type == "turn/end"]


def pairs(log: Log) -> list[tuple[SessionEvent, list[SessionEvent]]]:
    """Every replacement with the replacements among what it shadowed."""
    return [(event, [one for one in gone if isinstance(one.surface_op, Replace)]) for event, gone in replaced(log)]


CORNERS: dict[str, tuple[st.SearchStrategy[Log], list[Callable[[Log], object]]]] = {
    "turns": (
        turns(),
        [
            lambda log: any(len(ids) == 3 for ids in asked(log)),
            lambda log: len(asked(log)) > 2,
            lambda log: any(call not in results_by_call(log) for ids in asked(log) for call in ids),
            lambda log: (
                ends_of_turns(log) and any(s > ends_of_turns(log)[0] for (s, *_) in results_by_call(log).values())
            ),
            lambda log: (
                any(one > two for (one, *_), (two, *_) in pairwise(results_by_call(log).values()))
                or list(results_by_call(log)) != sorted(results_by_call(log))
            ),
            lambda log: len(ends_of_turns(log)) == 3,
            lambda log: any(event.type == "assistant/chunk" for event in log),
        ],
    ),
    "turns after others": (
        logs(log_moves() | turn_moves()),
        [lambda log: ("step/end", "turn/end") in pairwise(e.type for e in log)],
    ),
    "replaced_logs": (
        replaced_logs(),
        [
            lambda log: any(older for _, older in pairs(log)),
            lambda log: any(
                len(gone) == 1 and older for (_, gone), (_, older) in zip(replaced(log), pairs(log), strict=True)
            ),
            lambda log: any(len(gone) > 3 for _, gone in replaced(log)),
            lambda log: any(b'"plugin":"notes"' in event.encoded_data for event, _ in replaced(log)),
            lambda log: any(event.type == "steering/message" for event in log),
        ],
    ),
    "replacement_moves": (logs(log_moves() | replacement_moves()), [lambda log: len(replaced(log)) > 3]),
    "irregular_moves": (
        logs(log_moves() | irregular_moves() | irregular_moves()),
        [
            lambda log: any(len(seqs) > 1 for seqs in results_by_call(log).values()),
            lambda log: len({i for ids in asked(log) for i in ids}) < sum(len(set(ids)) for ids in asked(log)),
            lambda log: any(len(ids) > len(set(ids)) for ids in asked(log)),
            lambda log: any(event.type == "assistant/message" and "message" not in event.data for event in log),
            lambda log: any(event.type == "user/message" and "id" not in event.data for event in log),
        ],
    ),
    "crash_prefixes": (
        crash_prefixes(),
        [
            lambda log: any(closer.type == "tool/result" for closer in interrupted_turn_closers(log)),
            lambda log: log and log[-1].type == "assistant/chunk",
            lambda log: log and log[-1].type == "turn/start",
        ],
    ),
    "crash_prefixes of logs without turns": (crash_prefixes(logs=replaced_logs()), [lambda log: not log, bool]),
}


@pytest.mark.parametrize("name", CORNERS)
def test_logs_of_a_kind_are_valid_and_reach_their_corners(name: str) -> None:
    """Each strategy of logs gives what it is for, and no event that may not come next."""
    # given
    strategy, corners = CORNERS[name]
    # when
    drawn = drawn_from(strategy, 100)
    # then
    assert [True] * len(corners) == [any(is_corner(log) for log in drawn) for is_corner in corners]
    for log in drawn[:30]:
        assert [set()] * len(log) == [naive_refusals(log[:seq], event) for seq, event in enumerate(log)]
        session_of(log)


@pytest.mark.parametrize(
    ("strategy", "is_found", "types"),
    [
        (turns(), lambda log: any(len(ids) > 1 for ids in asked(log)), 13),
        (replaced_logs(), lambda log: any(older for _, older in pairs(log)), 3),
        (crash_prefixes(logs=turns()), lambda log: bool(asked(log)), 4),
    ],
)
def test_logs_of_a_kind_shrink_to_what_a_person_can_read(
    strategy: st.SearchStrategy[Log], is_found: Callable[[Log], bool], types: int
) -> None:
    """The simplest log of what is looked for holds little else."""
    log = find(strategy, is_found, settings=settings(database=None, max_examples=2000, deadline=None))
    assert types == len(log)


@hypothesis.given(wire_forms(), jsonl_forms(), jsonl_forms(logs=turns(), compress="zstd"))
@settings(max_examples=40, deadline=None)
def test_what_travels_arrives(wires: Any, plain: Any, compressed: Any) -> None:
    """Every wire form is read as its event, and every file as its log."""
    events, written = wires
    assert events == [SessionEvent.from_wire(wire) for wire in written]
    for header, log, data in (plain, compressed):
        reader = read_jsonl([data])
        assert (header, log, []) == (reader.header, list(reader), reader.damage)


def test_forms_are_spelled_in_every_way() -> None:
    """Among the forms are later spellings, keys in another order, packed rows, and files of other writers."""
    # when
    wires = [wire for _, written in drawn_from(wire_forms(logs=replaced_logs()), 60) for wire in written]
    files = [data for _, _, data in drawn_from(jsonl_forms(), 60)]
    # then
    assert any("startSeq" in wire.get("surfaceOp", ()) for wire in wires)
    assert any(next(iter(wire)) != "type" for wire in wires)
    assert any(b'"type":"text-chunks"' in data for data in files)
    assert any(b'{"type": "session"' in data and not data.endswith(b"\n") for data in files)


def test_damage_says_what_it_was() -> None:
    """What was damaged is the file that was written, after the edits; the lines before the first edit are sound."""
    drawn = drawn_from(damaged_logs(), 60)
    for damaged in drawn:
        data = damaged.original
        for edit in damaged.edits:
            assert edit.removed == data[edit.place : edit.place + len(edit.removed)]
            data = data[: edit.place] + edit.put + data[edit.place + len(edit.removed) :]
        assert damaged.data == data
        assert damaged.data.startswith(damaged.sound)
        assert damaged.original.startswith(damaged.sound)
        assert damaged.events == list(read_jsonl([damaged.original]))
    assert {1, 2, 3} == {len(damaged.edits) for damaged in drawn}
    assert any(damaged.sound.count(b"\n") > 2 for damaged in drawn)


def test_two_writers_are_in_each_others_way_and_are_not() -> None:
    """Among the interleavings are those that a rebase settles, and those that it cannot; each part fits by itself."""
    drawn = drawn_from(interleavings(), 100)
    for work in drawn[:30]:
        session_of([*work.base, *work.theirs])
        session_of([*work.base, *work.ours])
    outcomes = [naive_rebase(work) for work in drawn if work.theirs and work.ours]
    assert {True, False} == {misfit is None for _, misfit in outcomes}
    assert any(b'"shadowedSeqs"' in event.encoded_data for work in drawn for event in work.ours)


def test_a_log_is_shown_as_a_table() -> None:
    """A line an event: its seq, its topic, what it replaces and cites, and the gist of what it says."""
    # given
    log = LogBuilder()
    call: Any = {"type": "tool-call", "id": "c", "name": "run", "arguments": "{}"}
    image: Any = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
    log.append("user/message", user_message([{"type": "text", "text": "torn \ud83d"}, image]), APPEND)
    log.append("assistant/message", assistant_message([call], turn=1, step=1, provider="p", model="m"), APPEND, [])
    log.append("tool/result", tool_result_message("c", "done", turn=1, step=1), APPEND)
    log.replace("user/message", user_message("x" * 99, source={"kind": "plugin", "plugin": "notes"}), 0, 2)
    log.append("steering/message", [], APPEND)
    log.append("turn/end", {"turn": 1})
    # then
    assert show_log(log.events).splitlines() == [
        "seq  topic                     replaces  cites    gist",
        "0    append:user/message                          user: 'torn \\ud83d' <image>",
        "1    append:assistant/message            nothing  model: run(c)",
        "2    append:tool/result                           tool: c -> 'done'",
        f"3    replace:user/message      0..2      0,1,2    notes: '{'x' * 49}...",
        "4    append:steering/message                      []",
        '5    log:turn/end                                 {"turn":1}',
    ]


def say(session: Session) -> None:
    session.append("user/message", user_message("hi", message_id="m"), APPEND)


def said() -> Log:
    log = LogBuilder()
    log.append("user/message", user_message("hi", message_id="m"), APPEND)
    return log.events


def refuse(session: Session) -> None:
    session.append("user/message", user_message("hi"))


def fail_after_all(session: Session) -> None:
    session.append("turn/start", {"turn": 1})
    raise RuntimeError("after all")


def forget(session: Session) -> None:
    session.forget_pending(1)


def test_an_example_of_a_command_states_what_comes_of_it() -> None:
    """Events come out, by their topics or whole, or an error by its class or whole, or both, or nothing."""
    # given
    expected = SessionEvent("elsewhere", 1, 99, "user/message", said()[0].encoded_data, APPEND)
    # then
    given().when(say).then("append:user/message")
    given(said()).when(say).then(expected)
    given(said()).when(refuse).then(InvalidSurfaceError)
    given(said()).when(lambda session: session.messages()).then()
    given().when(fail_after_all).then("log:turn/start", RuntimeError("after all"))


@pytest.mark.parametrize(
    ("command", "outcome", "found"),
    [
        (say, [], "expected \\[\\], but these events came out:\nseq .*\n1 .* user: 'hi'"),
        (say, ["append:user/message"] * 2, "but these events came out"),
        (say, ["replace:user/message"], "but these events came out"),
        (say, said(), "but these events came out"),
        (say, ["append:user/message", ValueError], "expected .*ValueError.*, but nothing was raised"),
        (refuse, [KeyError], "but InvalidSurfaceError.* was raised"),
        (refuse, [InvalidSurfaceError("other", rule="seq")], "but InvalidSurfaceError.* was raised"),
        (fail_after_all, [RuntimeError], "but these events came out"),
        (forget, [], "the log that was given"),
        (lambda session: session.surface.skip_to(9), [], "nothing came out, and yet the state changed"),
    ],
)
def test_an_example_of_a_command_is_refuted(command: Any, outcome: list[Any], found: str) -> None:
    """Whatever else comes of the command, more, less, or something in the log that was given, is found."""
    with pytest.raises(AssertionError, match=found):
        given(said()).when(command).then(*outcome)


def test_an_error_that_nobody_stated_comes_out_as_it_is() -> None:
    """Where an example says nothing of an error, it is the author who hears of it."""
    with pytest.raises(InvalidSurfaceError):
        given(said()).when(refuse).then("append:user/message")


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
    """Among the candidates for one log each rule is broken by some, and some of every marker, or without, may land."""
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
        type(None),
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
                lambda value: repr(value).startswith("[" * 60),
                lambda value: isinstance(value, dict) and len(value) > 100,
            ],
        ),
        (contents(), [lambda content: len(content) > 2, lambda content: not content]),
        (user_messages(), [lambda message: message["source"]["kind"] == "session-reference"]),
        (
            messages(),
            [
                *(lambda message, kind=kind: message[0] == kind for kind in sorted(SURFACE_EVENT_TYPES)),
                lambda message: message[0] == "assistant/message" and len(message[1]["message"]["content"]) > 3,
                lambda message: message[0] == "assistant/message" and not message[1]["message"]["content"],
                lambda message: message[1].get("interrupted") is True,
                lambda message: "usage" in message[1],
                lambda message: "error" in message[1],
                lambda message: "meta" in message[1],
            ],
        ),
        (messages(kinds=["tool/result"]), [lambda message: message[0] == "tool/result"]),
        (surface_ops(), [lambda op: isinstance(op, Append), lambda op: isinstance(op, Replace) and op.start > op.end]),
        (surface_ops(st.just(77)), [lambda op: op == Replace(77, 77)]),
    ],
    ids=[
        "texts",
        "json_values",
        "contents",
        "user_messages",
        "messages",
        "results",
        "surface_ops",
        "surface_ops of ends",
    ],
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


def test_a_fold_that_refuses_a_valid_log_is_found_out() -> None:
    """What every reader must take is not refused."""

    def strict(events: Any) -> SurfaceFold:
        return fold_surface(events, first_seq=1)

    with pytest.raises(AssertionError, match="a valid log was refused: InvalidSurfaceError"):
        check_fold(strict, said())


class TakesAll(Surface):
    def plan(self, event: SessionEvent) -> SurfacePlan:
        return SurfacePlan(event, ())


class Blames(Surface):
    """Names a rule that is none, whatever is broken."""

    def plan(self, event: SessionEvent) -> SurfacePlan:
        try:
            return super().plan(event)
        except InvalidSurfaceError as error:
            raise InvalidSurfaceError(error.reason, rule="taste") from None


class CountsAttempts(Surface):
    def plan(self, event: SessionEvent) -> SurfacePlan:
        self.generation += 1
        return super().plan(event)


class PutsLast(Surface):
    """Puts replacements at the tail."""

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted(self))


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (TakesAll, "breaks .*; it was said: nothing"),
        (Blames, "it was said: {'taste'}"),
        (CountsAttempts, "the surface changed, and .* has not landed"),
        (PutsLast, "where a candidate landed"),
    ],
)
def test_a_surface_that_takes_or_refuses_wrongly_is_found_out(broken: type[Surface], found: str) -> None:
    """The law of surfaces fails where too much is taken, no broken rule is named, or an event lands elsewhere."""
    # given
    log = LogBuilder()
    for number in range(2):
        log.append("user/message", user_message("hi", message_id=f"m{number}"), APPEND)
    # then
    check_surface(Surface, log.events)
    with pytest.raises(AssertionError, match=found):
        check_surface(broken, log.events)


def test_attempts_break_every_rule() -> None:
    """Among the attempts on one log each rule is broken by some, alone where it can be, and some may land."""
    # given
    log = LogBuilder()
    for call_id in ("c", "d"):
        log.append("tool/result", tool_result_message(call_id, "one", turn=1, step=1, message_id=call_id), APPEND)
    log.append("user/message", user_message("three", message_id="m"), APPEND)
    # when
    said = [(event.type, event.data) for event in log.events] + [("turn/start", {})]
    attempts = [attempt for kind, data in said for attempt in naive_attempts(log.events, kind, data)]
    broken = [naive_refusals(log.events, attempt) for attempt in attempts]
    # then
    assert set() in broken
    assert set().union(*broken) == RULES
    assert {rule for rules in broken if len(rules) == 1 for rule in rules} == RULES - {"result-target"}


@hypothesis.given(foreign_values())
@settings(max_examples=50)
def test_what_is_foreign_is_refused(value: Any) -> None:
    """No value of the strategy passes, and a store that takes one is found out."""
    check_refuses_foreign(lambda given: lossless_json.decode(lossless_json.encode(given)), value)
    with pytest.raises(AssertionError, match="was taken, and came back as"):
        check_refuses_foreign(lambda given: given, value)


def test_a_writer_does_not_get_past_the_others_lock() -> None:
    """A compaction of ours does not begin behind a live one of theirs, nor go on when it is no longer the live one."""

    def record(seq: int, what: str, compaction_id: str) -> SessionEvent:
        return SessionEvent("", seq, 0, f"compact/{what}", lossless_json.encode({"compactionId": compaction_id}))

    # given
    start, end, next_start = record(0, "start", "c"), record(1, "end", "c"), record(2, "start", "d")
    # then
    assert ([start], 0) == naive_rebase(Interleaving([], [start], [record(0, "start", "d")]))
    assert ([start, end, next_start], None) == naive_rebase(Interleaving([], [start, end], [record(0, "start", "d")]))
    assert ([start, end], 1) == naive_rebase(Interleaving([start], [end], [end]))
    assert ([start, end, next_start], 1) == naive_rebase(
        Interleaving([start], [end, next_start], [record(1, "summary", "c")])
    )
    assert ([start, end], None) == naive_rebase(Interleaving([start], [], [end]))


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
    """The law of repairs fails for repairs that cannot land, that ask a clock, or that leave something open."""
    # given
    log = LogBuilder()
    log.append("turn/start", {"turn": 1})
    log.append("step/start", {"turn": 1, "step": 1})
    # then
    check_repair(interrupted_turn_closers, log.events)
    with pytest.raises(AssertionError, match=said):
        check_repair(repair, log.events)


def test_a_repair_by_chance_is_found_out() -> None:
    """The law of repairs fails for repairs that are others the second time."""
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


def without_its_result(events: Any) -> Log:
    return [
        SessionEvent("", len(events) + place, each.time, each.type, each.encoded_data)
        for place, each in enumerate(interrupted_turn_closers(events)[-2:])
    ]


def of_no_step(events: Any) -> Log:
    return [
        SessionEvent(
            "",
            each.seq,
            each.time,
            each.type,
            b"null" if each.type == "step/end" else each.encoded_data,
            each.surface_op,
            each.source_event_seqs,
        )
        for each in interrupted_turn_closers(events)
    ]


@pytest.mark.parametrize("repair", [without_its_result, of_no_step])
def test_a_repair_that_says_too_little_is_found_out(repair: Callable[[Any], Log]) -> None:
    """The law of repairs fails where a call gets no result, and where what is closed is not named."""
    # given
    log = LogBuilder()
    call: Any = {"type": "tool-call", "id": "c", "name": "run", "arguments": "{}"}
    log.append("turn/start", {"turn": 1})
    log.append("step/start", {"turn": 1, "step": 1})
    log.append("assistant/message", assistant_message([call], turn=1, step=1, provider="p", model="m"), APPEND)
    # then
    check_repair(interrupted_turn_closers, log.events)
    with pytest.raises(AssertionError, match="what closes the log: expected"):
        check_repair(repair, log.events)

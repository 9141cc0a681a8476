from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.bracket import Bracket, BracketFold, check_brackets
from dsh_compact.checkpoint import compact_checkpoint_source
from dsh_compact.errors import BracketError, InvalidArgumentError
from dsh_session import SessionEvent

CASES = json.loads((Path(__file__).parent / "vectors/invariants.json").read_text("utf-8"))

SUMMARY = {"shadowedRange": {"start": 0, "end": 0}, "shadowedSeqs": [0], "shadowedTokenCount": 9}


def log(*entries: tuple[str, Any]) -> list[SessionEvent]:
    return [
        SessionEvent.from_wire({"type": event_type, "seq": seq, "time": 0, "data": data})
        for seq, (event_type, data) in enumerate(entries)
    ]


def fold_of(events: list[SessionEvent]) -> BracketFold:
    fold = BracketFold()
    for event in events:
        fold.apply(event)
    return fold


def first_fault(events: list[SessionEvent], seed_length: int = 0) -> int | None:
    try:
        check_brackets(iter(events), seed_length)
    except BracketError as error:
        return error.seq
    return None


ENTRIES = st.sampled_from(
    [
        ("compact/start", {"compactionId": "a", "turn": None}),
        ("compaction/start", {"compactionId": "b", "sourceCommandId": "k", "turn": 1}),
        ("compact/summary", {"compactionId": "a", **SUMMARY}),
        ("compact/end", {"compactionId": "a", "turn": None}),
        ("compaction/end", {"compactionId": "b", "turn": 1, "error": "x"}),
        ("compact/prune", SUMMARY),
        ("session/end-seed", {}),
        ("turn/start", {"turn": 1}),
        ("turn/end", {"turn": 1, "reason": "completed"}),
        ("session/title", {"title": "t"}),
    ]
)
LOGS = st.lists(ENTRIES, max_size=12).map(lambda entries: log(*entries))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_recorded_verdict_is_ours(case: Any) -> None:
    """A log is accepted, or refused at the event, where the original says so."""
    events = [SessionEvent.from_wire(wire) for wire in case["events"]]
    expected = None if case["expect"] == "ok" else events[case["expect"]["index"]].seq
    assert expected == first_fault(events, case["seedLength"])


@given(LOGS)
def test_the_state_follows_from_what_comes_after_the_newest_start(events: list[SessionEvent]) -> None:
    """An end after the newest start leaves none, an end-seed makes it stale, and else it is live."""
    types = [event.type for event in events]
    starts = [seq for seq, name in enumerate(types) if name in ("compact/start", "compaction/start")]
    after = types[starts[-1] :] if starts else ["compact/end"]
    if "compact/end" in after or "compaction/end" in after:
        expected = "none"
    else:
        expected = "stale" if "session/end-seed" in after else "live"
    fold = fold_of(events)
    assert expected == fold.state
    assert (fold.live is not None) == (expected == "live")
    if expected != "none":
        assert fold.bracket is not None
        assert starts[-1] == fold.bracket.seq


@given(LOGS, st.integers(0, 12))
def test_a_restored_fold_goes_on_as_if_it_had_never_stopped(events: list[SessionEvent], stop: int) -> None:
    """The state is plain JSON, and everything that later events depend on."""
    state = json.loads(json.dumps(attrs.asdict(fold_of(events[:stop]))))
    resumed = BracketFold.restore(state)
    for event in events[stop:]:
        resumed.apply(event)
    assert fold_of(events) == resumed


@given(LOGS)
def test_checking_changes_nothing(events: list[SessionEvent]) -> None:
    """A refused event leaves the fold as it was, and so does an accepted one until it is applied."""
    fold = fold_of(events[:-1])
    before = attrs.evolve(fold)
    for event in events[-1:]:
        with suppress(BracketError):
            fold.check(event)
    assert before == fold


@given(LOGS)
def test_both_spellings_are_read_alike(events: list[SessionEvent]) -> None:
    """Logs of later versions write compaction/... where ours write compact/...; the verdict is the same."""
    respelled = log(*((event.type.replace("compact/", "compaction/"), event.data) for event in events))
    assert first_fault(events) == first_fault(respelled)


def test_a_bracket_holds_what_its_start_says() -> None:
    """The live bracket names its attempt, the command that asked, and its turn."""
    start = ("compact/start", {"compactionId": "c", "sourceCommandId": "k", "turn": 3})
    fold = fold_of(log(("turn/start", {"turn": 3}), start, ("compact/summary", {"compactionId": "c", **SUMMARY})))
    assert Bracket(seq=1, compaction_id="c", source_command_id="k", turn=3, has_summary=True) == fold.live
    assert fold.turn == 3


def test_a_stale_bracket_blocks_nothing() -> None:
    """After an end-seed another compaction may start, and a turn may."""
    start = ("compact/start", {"compactionId": "c", "turn": None})
    events = log(
        start, ("session/end-seed", {}), start, ("compact/end", {"compactionId": "c", "turn": None, "error": 1})
    )
    assert first_fault(events) is None


def test_only_a_seed_may_hold_a_turn_inside_an_abandoned_bracket() -> None:
    """A boundary inside a bracket is excused where the process that should have ended it is known to be gone."""
    events = log(
        ("compact/start", {"compactionId": "c", "turn": None}),
        ("turn/start", {"turn": 1}),
        ("session/title", {}),
        ("turn/end", {"turn": 1}),
        ("session/end-seed", {}),
        ("turn/start", {"turn": 2}),
    )
    assert first_fault(events, seed_length=5) is None
    assert first_fault(events, seed_length=4) == 1
    assert first_fault(events) == 1


@pytest.mark.parametrize("seed_length", [-1, True, "1"])
def test_a_seed_has_a_length(seed_length: Any) -> None:
    """A length that is none is refused, and names itself."""
    with pytest.raises(InvalidArgumentError, match=f"seed_length: {seed_length!r} found; it is an int >= 0"):
        check_brackets([], seed_length)


@pytest.mark.parametrize("event_type", ["compact/start", "compact/summary", "compact/end"])
def test_a_record_that_is_no_object_is_refused(event_type: str) -> None:
    """Data of a wrong kind is a broken rule, and not a crash."""
    assert first_fault(log((event_type, ["c"]))) == 0


def test_a_start_that_was_not_checked_holds_the_lock_all_the_same() -> None:
    """A start whose data says nothing opens a bracket without names."""
    opened = fold_of(log(("compact/start", None), ("turn/start", 1)))
    assert Bracket(seq=0, compaction_id=None, source_command_id=None, turn=None) == opened.live


@pytest.mark.parametrize(
    "fields",
    [
        {"shadowedSeqs": None},
        {"shadowedRange": None},
        {"shadowedRange": {"start": 0}},
        {"shadowedRange": {"start": False, "end": 0}},
        {"shadowedTokenCount": None},
    ],
)
def test_a_summary_of_another_shape_is_refused(fields: dict[str, Any]) -> None:
    """A range has both ends, and a bool is no seq."""
    start = ("compact/start", {"compactionId": "c", "turn": None})
    assert first_fault(log(start, ("compact/summary", {"compactionId": "c", **SUMMARY, **fields}))) == 1


@pytest.mark.parametrize("turn", [True, 1.0, "1", None])
def test_a_turn_is_the_same_only_in_value_and_type(turn: Any) -> None:
    """Neither true nor 1.0 is turn 1."""
    events = log(("turn/start", {"turn": 1}), ("compact/start", {"compactionId": "c", "turn": turn}))
    assert first_fault(events) == 1


def test_the_error_says_what_was_found_and_what_would_be_right() -> None:
    """The message names the compaction that is in the way."""
    start = ("compact/start", {"compactionId": "c", "turn": None})
    with pytest.raises(BracketError, match=r"seq 1: compact/start inside the compaction 'c' that started at seq 0"):
        check_brackets(log(start, start))


def test_a_checkpoint_belongs_to_the_live_bracket() -> None:
    """A checkpoint of another attempt is refused, one of the live attempt is not, and other replacements pass."""
    start = log(("compact/start", {"compactionId": "c", "turn": None}))

    def replacement(source: Any) -> SessionEvent:
        data = {"id": "m", "role": "user", "source": source, "content": []}
        marker = {"op": "replace", "start": 0, "end": 0}
        return SessionEvent.from_wire(
            {"type": "user/message", "seq": 1, "time": 0, "data": data, "surfaceOp": marker, "sourceEventSeqs": [0]}
        )

    assert first_fault([*start, replacement(compact_checkpoint_source("c"))]) is None
    assert first_fault([*start, replacement(compact_checkpoint_source("d"))]) == 1
    assert first_fault([*start, replacement({"kind": "plugin", "plugin": "other"})], seed_length=2) is None

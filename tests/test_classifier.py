from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from dsh_compact import is_compact_checkpoint
from dsh_projections import EventClassifier, Explanation, replay
from dsh_projections.testing import session_logs
from dsh_session import (
    APPEND,
    InvalidSurfaceError,
    Replace,
    SessionEvent,
    assistant_message,
    is_append_surface_event,
    is_replacement_surface_event,
    is_surface_event,
    user_message,
)
from dsh_session.testing import LogBuilder, naive_chains, naive_classes, naive_surface

CASES = {
    case["name"]: case for case in json.loads((Path(__file__).parent / "vectors/classify.json").read_text("utf-8"))
}


@pytest.mark.parametrize("name", CASES)
def test_the_recorded_classes_are_ours(name: str) -> None:
    """Every event is classed, by its marker alone and by the fold, as the original classes it."""
    events = [SessionEvent.from_wire(wire) for wire in CASES[name]["events"]]
    classifier = replay(EventClassifier(), events)

    def seqs_of(predicate: Any) -> list[int]:
        return [event.seq for event in events if predicate(event)]

    actual = {
        "appendOrigin": seqs_of(is_append_surface_event),
        "replacement": seqs_of(is_replacement_surface_event),
        "logOnly": seqs_of(lambda event: not is_surface_event(event)),
        "checkpoints": seqs_of(is_compact_checkpoint),
        "current": seqs_of(lambda event: classifier.classify(event.seq) == "current"),
        "shadowed": seqs_of(lambda event: classifier.classify(event.seq) == "shadowed"),
        "replacementChain": {
            str(event.seq): list(classifier.chain(event.seq)) for event in events if classifier.chain(event.seq)
        },
    }
    assert CASES[name]["expect"] == actual
    assert seqs_of(lambda event: classifier.classify(event.seq) == "log-only") == CASES[name]["expect"]["logOnly"]


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_classes_and_chains_follow_from_the_fold(events: list[SessionEvent]) -> None:
    """What became of each event, and what it was made from and into, is what the naive fold says."""
    classifier = replay(EventClassifier(), events)
    classes, chains = naive_classes(events), naive_chains(events)
    replaced = {replacement.seq: replacement.shadowed_seqs for replacement in naive_surface(events).replacements}
    for event in events:
        seq, chain = event.seq, chains.get(event.seq, [])
        expected = Explanation(
            seq,
            classes[seq],
            tuple(chain),
            replaced.get(seq, ()),
            event.source_event_seqs or (),
            tuple(other.seq for other in events if seq in (other.source_event_seqs or ())),
        )
        assert expected == classifier.explain(seq)
        assert classes[seq] == classifier.classify(seq)
        assert (chain[0] if chain else None) == classifier.replaced_by(seq)
    assert {seq: name for seq, name in classes.items() if name != "log-only"} == classifier.view()
    assert list(classifier.view()) == sorted(classifier.view())


def test_a_replacement_of_what_is_no_node_is_refused() -> None:
    """Its error says which event does not fit, and every class is as it was."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    classifier = replay(EventClassifier(), log.events)
    with pytest.raises(InvalidSurfaceError) as caught:
        classifier.apply(log.append("user/message", user_message("x"), Replace(0, 9), [0, 9]))
    assert (caught.value.rule, caught.value.seq) == ("end-not-on-surface", 1)
    assert classifier.view() == {0: "current"}


def test_an_event_is_explained() -> None:
    """Any event's class, replacers, what it replaced, what it was made from and what was made from it are told."""
    log = LogBuilder()
    chunk = log.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": {}})
    answer = log.append(
        "assistant/message",
        assistant_message("hi", turn=1, step=1, provider="p", model="m"),
        APPEND,
        [chunk.seq],
    )
    copy = log.append("user/message", user_message("copy"), Replace(answer.seq, answer.seq), [answer.seq])

    classifier = replay(EventClassifier(), log.events)

    assert Explanation(0, "log-only", (), (), (), (1,)) == classifier.explain(chunk.seq)
    assert Explanation(1, "shadowed", (2,), (), (0,), (2,)) == classifier.explain(answer.seq)
    assert Explanation(2, "current", (), (1,), (1,), ()) == classifier.explain(copy.seq)

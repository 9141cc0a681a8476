from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.errors import CompactionError, InvalidArgumentError
from dsh_compact.pruner import PRUNE_MARKER, ToolResultPruner
from dsh_session import APPEND, Session, SessionEvent, SessionHeader, assistant_message, tool_result_message

CASES = json.loads((Path(__file__).parent / "vectors/prune.json").read_text("utf-8"))
CONTENT_CASES = [case for case in CASES if "blocks" in case]
SESSION_CASES = [case for case in CASES if "appended" in case]
CONFIG_CASES = [case for case in CASES if "resolved" in case]
CONFIG_ERROR_CASES = [case for case in CASES if "expectError" in case]

RECORDED_MARKER = "\n\n[... tool result middle pruned ...]\n\n"


def named(cases: list[Any]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def pruner_of(config: dict[str, Any]) -> ToolResultPruner:
    """Make a pruner of a recorded configuration, in which null means default for the keys that are known."""
    known = {"thresholdChars", "headChars", "tailChars"}
    return ToolResultPruner(
        **{
            re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key): value
            for key, value in config.items()
            if value is not None or key not in known
        }
    )


def in_our_words(recorded: Any) -> Any:
    """Return a recorded value with our marker and our spelling."""
    match recorded:
        case str():
            return recorded.replace(RECORDED_MARKER, PRUNE_MARKER).replace("compaction/prune", "compact/prune")
        case list():
            return [in_our_words(item) for item in recorded]
        case dict():
            return {key: in_our_words(value) for key, value in recorded.items()}
        case _:
            return recorded


def new_session() -> Session:
    return Session(SessionHeader(id="s", created_at=0), clock=lambda: 0)


def log_of(session: Session) -> list[dict[str, Any]]:
    return [event.to_wire() for event in session.pending]


def session_with_result(content: Any, **fields: Any) -> Session:
    session = new_session()
    call: Any = {"type": "tool-call", "id": "c", "name": "run", "arguments": "{}"}
    asked = assistant_message([call], turn=1, step=1, provider="p", model="m")
    session.append("assistant/message", asked, APPEND)
    session.append("tool/result", tool_result_message("c", content, turn=1, step=1, **fields), APPEND)
    return session


@named(CONTENT_CASES)
def test_the_recorded_content_is_ours(case: Any) -> None:
    """Content is measured and shortened as the original does it, but for the wording of the marker."""
    pruner = pruner_of(case["config"])
    assert case["measure"] == pruner.measure_content(case["blocks"])
    assert in_our_words(case["expect"]) == pruner.prune_content(case["blocks"])


@named(SESSION_CASES)
def test_the_recorded_events_are_ours(case: Any) -> None:
    """The same records and replacements are appended, in the same order."""
    session = new_session()
    for wire in case["events"]:
        session.append_event(SessionEvent.from_wire(wire))
    landed = pruner_of(case["config"]).prune(session)
    appended = log_of(session)[len(case["events"]) :]
    for event in appended:
        del event["time"]
    assert in_our_words(case["appended"]) == appended
    assert [pruned["replacementSeq"] for pruned in case["result"]["pruned"]] == [event.seq for event in landed]


@named(CONFIG_CASES)
def test_the_recorded_configuration_is_valid(case: Any) -> None:
    """What is not given is at its default."""
    pruner = pruner_of(case["config"])
    resolved = {
        "thresholdChars": pruner.threshold_chars,
        "headChars": pruner.head_chars,
        "tailChars": pruner.tail_chars,
    }
    assert case["resolved"] == resolved


@named(CONFIG_ERROR_CASES)
def test_the_recorded_configuration_is_refused(case: Any) -> None:
    """A wrong value is a ValueError of ours, and an unknown name Python's own TypeError."""
    with pytest.raises((InvalidArgumentError, TypeError)) as caught:
        pruner_of(case["config"])
    assert isinstance(caught.value, TypeError) == ("unknown key" in case["name"])


def test_a_refused_setting_is_named() -> None:
    """The error carries the setting, and is of our family and a ValueError."""
    with pytest.raises(ValueError, match="head_chars: -1 found; a number of characters is an int >= 0") as caught:
        ToolResultPruner(head_chars=-1)
    assert isinstance(caught.value, CompactionError)
    assert isinstance(caught.value, InvalidArgumentError)
    assert caught.value.argument == "head_chars"


def test_the_marker_is_no_longer_than_the_recorded_one() -> None:
    """Every recorded configuration stays valid, and one that is too tight stays refused."""
    assert len(RECORDED_MARKER) == len(PRUNE_MARKER)


@st.composite
def pruners(draw: st.DrawFn) -> ToolResultPruner:
    """Draw a pruner with a small budget, some of it to spare."""
    head, tail, spare = draw(st.integers(0, 8)), draw(st.integers(0, 8)), draw(st.integers(0, 5))
    return ToolResultPruner(head + len(PRUNE_MARKER) + tail + spare, head, tail)


TEXTS = st.builds(
    lambda text, times: text * times, st.text(st.characters(exclude_categories=()), max_size=12), st.integers(0, 9)
)
CONTENTS = st.lists(
    st.builds(lambda text: {"type": "text", "text": text, "extra": 1}, TEXTS)
    | st.builds(lambda text: {"type": "reasoning", "text": text}, TEXTS)
    | st.just({"type": "image", "attachment": "i"}),
    max_size=6,
)


def pruned_by_hand(blocks: list[Any], head: int, tail: int) -> list[Any]:
    """Deal the characters that stay, and the marker, back to the blocks that they came from."""
    texts = [(place, block["text"]) for place, block in enumerate(blocks) if block["type"] == "text"]
    characters = [(place, character) for place, text in texts for character in text]
    marker = (characters[head][0], PRUNE_MARKER)
    kept = [*characters[:head], marker, *characters[len(characters) - tail :]]
    pruned = []
    for place, block in enumerate(blocks):
        text = "".join(part for owner, part in kept if owner == place)
        if block["type"] != "text":
            pruned.append(block)
        elif text:
            pruned.append({**block, "text": text})
    return pruned


@given(pruners(), CONTENTS)
def test_a_long_text_becomes_its_head_the_marker_and_its_tail(pruner: ToolResultPruner, blocks: list[Any]) -> None:
    """Only a text above the threshold is shortened; every character that stays, and every other block, stays put."""
    before = copy.deepcopy(blocks)
    is_long = sum(len(block["text"]) for block in blocks if block["type"] == "text") > pruner.threshold_chars
    expected = pruned_by_hand(blocks, pruner.head_chars, pruner.tail_chars) if is_long else None
    assert expected == pruner.prune_content(blocks)
    assert before == blocks


@given(pruners(), CONTENTS)
def test_pruning_never_grows_and_never_runs_twice(pruner: ToolResultPruner, blocks: list[Any]) -> None:
    """A pruned content is within the threshold, so it is shorter than before and is left alone."""
    pruned = pruner.prune_content(blocks)
    if pruned is not None:
        assert pruner.measure_content(pruned) <= pruner.threshold_chars < pruner.measure_content(blocks)
        assert pruner.prune_content(pruned) is None


def test_text_on_either_side_of_an_image_stays_on_its_side() -> None:
    """The head and the marker stand before the image, and the tail after it."""
    image = {"type": "image", "attachment": "i"}
    content = [{"type": "text", "text": "a" * 50}, image, {"type": "text", "text": "b" * 50}]
    expected = [{"type": "text", "text": "aa" + PRUNE_MARKER}, image, {"type": "text", "text": "bbb"}]
    assert expected == ToolResultPruner(60, 2, 3).prune_content(content)


def test_running_it_twice_changes_nothing() -> None:
    """A session that was pruned has nothing left to prune."""
    session = session_with_result("x" * 10_000)
    pruner = ToolResultPruner()
    assert [event.seq for event in pruner.prune(session)] == [3]
    log = log_of(session)
    assert pruner.prune(session) == []
    assert log == log_of(session)


def test_an_error_result_keeps_its_evidence() -> None:
    """Only the content inside the block changes; what failed is still said."""
    error = {"name": "Timeout", "code": "T1"}
    session = session_with_result("x" * 10_000, is_error=True, error=error, meta={"lines": 3}, message_id="m")
    before = session.surface_events()[1].data
    (landed,) = ToolResultPruner().prune(session)
    before["message"]["content"][0]["content"] = [
        {"type": "text", "text": "x" * 4096 + PRUNE_MARKER + "x" * 1024},
    ]
    assert before == landed.data


def test_the_price_is_the_meter_s() -> None:
    """A compact/prune records what the given meter says that the shadowed result cost."""

    class FlatRate:
        def estimate_message(self, message: Any) -> int:
            assert message["role"] == "user"
            return 7

        def estimate_request(self, header: Any, messages: Any) -> int:
            raise NotImplementedError

    session = session_with_result("x" * 10_000)
    ToolResultPruner(meter=FlatRate()).prune(session)
    expected = {"shadowedRange": {"start": 1, "end": 1}, "shadowedSeqs": [1], "shadowedTokenCount": 7}
    assert ("compact/prune", expected) == (session.pending[2].type, session.pending[2].data)


def test_a_result_that_is_long_only_in_bytes_stays() -> None:
    """The threshold is in characters, whatever they take to store."""
    session = session_with_result("é" * 8192)
    assert ToolResultPruner().prune(session) == []


def test_a_flat_result_of_an_older_log_stays() -> None:
    """Its copy would have to have its shape, which nobody may append any more."""
    session = new_session()
    flat = {
        "turn": 1,
        "step": 1,
        "callId": "c",
        "content": [{"type": "text", "text": "x" * 10_000}],
        "isError": False,
    }
    session.append_event(
        SessionEvent.from_wire({"type": "tool/result", "seq": 0, "time": 0, "data": flat, "surfaceOp": "append"})
    )
    assert ToolResultPruner().prune(session) == []

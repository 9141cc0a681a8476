from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.meter import TokenMeter, count_quarters

CASES = json.loads((Path(__file__).parent / "vectors/tokens.json").read_text("utf-8"))

TEXTS = st.text(st.characters(exclude_categories=()), max_size=40)
BLOCKS = st.recursive(
    st.builds(lambda kind, text: {"type": kind, "text": text}, st.sampled_from(["text", "reasoning"]), TEXTS)
    | st.builds(lambda name, text: {"type": "tool-call", "id": "c", "name": name, "arguments": text}, TEXTS, TEXTS)
    | st.builds(lambda value: {"type": "chart", "value": value}, st.none() | st.booleans() | st.integers() | TEXTS),
    lambda blocks: st.builds(
        lambda content: {"type": "tool-result", "toolCallId": "c", "content": content, "isError": False},
        st.lists(blocks, max_size=3),
    ),
    max_leaves=5,
)
CONTENTS = st.lists(BLOCKS, max_size=4)


def message_of(content: list[Any]) -> dict[str, Any]:
    return {"id": "m", "role": "user", "source": {"kind": "user"}, "content": content}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_recorded_price_is_ours(case: Any) -> None:
    """Every message costs what the original says it does."""
    assert case["tokens"] == TokenMeter().estimate_message(case["message"])


@given(TEXTS)
def test_a_text_costs_a_token_for_every_four_utf16_units(text: str) -> None:
    """A character beyond the basic plane is two units, any other one, a lone surrogate among them."""
    units = sum(2 if ord(character) > 0xFFFF else 1 for character in text)
    assert math.ceil(units / 4) == count_quarters(text)


@given(CONTENTS, CONTENTS)
def test_a_message_costs_its_blocks_and_four(one: list[Any], other: list[Any]) -> None:
    """Parting a message's blocks over two messages adds the frame of one message."""
    meter = TokenMeter()
    parted = meter.estimate_messages([message_of(one), message_of(other)])
    assert parted == meter.estimate_message(message_of(one + other)) + 4


@given(CONTENTS)
def test_a_tool_result_costs_its_blocks_and_four(content: list[Any]) -> None:
    """The content of a result is priced as if it stood in the message."""
    meter = TokenMeter()
    result = {"type": "tool-result", "toolCallId": "call-id-is-free", "content": content, "isError": True}
    assert meter.estimate_message(message_of([result])) == meter.estimate_message(message_of(content)) + 4


def test_a_lone_surrogate_in_an_unknown_block_costs_its_escape() -> None:
    """JSON text writes a lone surrogate with six characters, and everything else as it is."""
    block = {"type": "f", "v": "\ud83d"}
    assert math.ceil(len(r'{"type":"f","v":"\ud83d"}') / 4) + 8 == TokenMeter().estimate_message(message_of([block]))


def test_a_request_is_its_header_and_its_messages() -> None:
    """System text and the tools' JSON text are priced like texts, with four more each."""
    header = {"config": {"provider": "p", "model": "m"}, "system": "x" * 9, "tools": [{"name": "é"}]}
    messages = [message_of([{"type": "text", "text": "abcd"}])]
    assert (3 + 4) + (math.ceil(len('[{"name":"é"}]') / 4) + 4) + (1 + 4 + 4) == TokenMeter().estimate_request(
        header, messages
    )


def test_a_system_that_is_no_text_is_priced_by_its_json_text() -> None:
    """Some providers take system blocks."""
    header = {"config": {}, "system": [{"type": "text", "text": "abc"}]}
    assert math.ceil(len('[{"type":"text","text":"abc"}]') / 4) + 4 == TokenMeter().estimate_request(header, [])


@pytest.mark.parametrize("header", [None, {"config": {}}, {"config": {}, "system": None, "tools": None}])
def test_what_a_header_does_not_hold_costs_nothing(header: Any) -> None:
    """A request before the first header, and one without system text and tools, is its messages."""
    messages = [message_of([]), message_of([])]
    assert TokenMeter().estimate_request(header, messages) == 8


def test_empty_tools_and_system_text_are_there_all_the_same() -> None:
    """What is sent empty still costs its frame."""
    assert TokenMeter().estimate_request({"config": {}, "system": "", "tools": []}, []) == 4 + (1 + 4)


def test_a_tokenizer_takes_the_place_of_the_count() -> None:
    """Every text is priced by the function that is given."""
    meter = TokenMeter(count=lambda text: len(text.split()))
    content = [{"type": "text", "text": "one two three"}, {"type": "tool-call", "name": "run", "arguments": "a b"}]
    assert meter.estimate_message(message_of(content)) == (3 + 4) + (1 + 2 + 4) + 4

"""The message inside an event: its builders, the shapes that are refused, and what a node sends to the model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from dsh_session import (
    APPEND,
    InvalidEventError,
    Replace,
    SessionEvent,
    assistant_message,
    check_data,
    derive_message,
    is_surface_event,
    message_of,
    tool_calls_of,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder, is_same_json, logs

TEXT = {"type": "text", "text": "hi"}
CALL = {"type": "tool-call", "id": "c", "name": "run", "arguments": "{}"}
ASKED = {"id": "m0", "role": "user", "source": {"kind": "user"}, "content": [TEXT]}
ANSWERED = assistant_message([TEXT, CALL], turn=1, step=2, provider="p", model="m", message_id="m1")
RESULT = tool_result_message("c", "ok", turn=1, step=2, message_id="m2")
STEERED = {"turn": 1, "message": ASKED}
HEADER = {"header": {"config": {"provider": "p", "model": "m"}}}

OLDER_USER = {"role": "user", "source": {"kind": "user"}, "content": [TEXT]}
OLDER_ANSWER = {"turn": 1, "step": 2, "content": [TEXT, CALL]}
OLDER_RESULT = {"turn": 1, "step": 2, "callId": "c", "content": [TEXT], "isError": True}
OLDER_HEADER = {"header": {"system": "s"}}


def changed(data: Any, path: str, *value: Any) -> Any:
    """Return data with another value at a path such as ``message.content.0``, or with none there."""
    first, _, rest = path.partition(".")
    key = int(first) if isinstance(data, list) else first
    copy = data.copy()
    if rest:
        copy[key] = changed(data[key], rest, *value)
    elif value:
        (copy[key],) = value
    else:
        del copy[key]
    return copy


def refusal(event_type: str, data: Any, *, is_import: bool = False) -> InvalidEventError:
    """Return the error that data of a type is refused with."""
    with pytest.raises(InvalidEventError) as caught:
        check_data(event_type, data, 7, is_import=is_import)
    return caught.value


def test_a_user_message_is_built_from_a_text() -> None:
    """A text becomes one text block, said by the user, under a fresh id."""
    # when
    message = user_message("hi")
    # then
    assert {**ASKED, "id": message["id"]} == message
    assert message["id"] != user_message("hi")["id"]


def test_a_user_message_is_built_from_blocks() -> None:
    """Blocks, source and id are taken as given."""
    # given
    source: Any = {"kind": "plugin", "plugin": "notes"}
    blocks: Any = (TEXT, {"type": "image"})
    # when
    message = user_message(blocks, source=source, message_id="m0")
    # then
    assert message == {"id": "m0", "role": "user", "source": source, "content": [TEXT, {"type": "image"}]}


@pytest.mark.parametrize("content", [None, {"type": "text"}, b"AF", 7])
def test_content_is_a_text_or_a_list(content: Any) -> None:
    """What a careless tool gives back is refused where the message is built, and named."""
    with pytest.raises(InvalidEventError, match=r"content is .*; it is a str or a list of blocks"):
        tool_result_message("c", content, turn=1, step=2)


def test_an_assistant_message_is_built_with_its_place_and_model() -> None:
    """What the provider did not say is left out."""
    # when
    data = assistant_message("hi", turn=1, step=2, provider="p", model="m")
    # then
    assert data == {
        "turn": 1,
        "step": 2,
        "message": {
            "id": data["message"]["id"],
            "role": "assistant",
            "source": {"kind": "model", "provider": "p", "model": "m"},
            "content": [TEXT],
        },
    }


def test_an_assistant_message_is_built_with_what_the_provider_said() -> None:
    """Usage, even an empty one, and a cut stream are kept."""
    # when
    data = assistant_message([], turn=1, step=2, provider="p", model="m", usage={}, interrupted=True, message_id="m1")
    # then
    assert (data["usage"], data["interrupted"], data["message"]["content"]) == ({}, True, [])


def test_a_tool_result_is_built_around_its_call() -> None:
    """The call's id stands in the source and in the one block."""
    # when
    data = tool_result_message("c", "hi", turn=1, step=2)
    # then
    assert data == {
        "turn": 1,
        "step": 2,
        "message": {
            "id": data["message"]["id"],
            "role": "user",
            "source": {"kind": "tool", "callId": "c"},
            "content": [{"type": "tool-result", "toolCallId": "c", "content": [TEXT], "isError": False}],
        },
    }


def test_a_tool_result_is_built_with_its_failure() -> None:
    """An error, its record for programs and what else is known of it are kept."""
    # when
    data = tool_result_message("c", [], turn=1, step=2, is_error=True, error={"code": "X"}, meta=0)
    # then
    assert data["message"]["content"][0]["isError"] is True
    assert (data["error"], data["meta"]) == ({"code": "X"}, 0)


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("user/message", ASKED),
        ("user/message", user_message("hi")),
        ("user/message", {**ASKED, "content": [], "extra": 1}),
        ("assistant/message", ANSWERED),
        ("assistant/message", assistant_message([], turn=0, step=0, provider="p", model="m")),
        ("tool/result", RESULT),
        ("tool/result", {**RESULT, "error": {"code": "X"}, "meta": None}),
        ("steering/message", STEERED),
        ("request/header", HEADER),
        ("request/header", {"header": {**HEADER["header"], "system": "s", "tools": []}, "reason": "initial"}),
        ("turn/start", None),
        ("tool/call", {}),
        ("unheard-of", [1]),
    ],
)
@pytest.mark.parametrize("is_import", [False, True])
def test_proper_data_is_taken(event_type: str, data: Any, is_import: bool) -> None:
    """What a builder makes is taken, and so are unknown keys and the data of every other type."""
    assert check_data(event_type, data, is_import=is_import) is None


@pytest.mark.parametrize(
    "block", [{"type": "image", "data": 5}, {"type": "hologram"}, {"type": "tool-result"}, {**TEXT, "extra": None}]
)
def test_content_of_unknown_kinds_is_carried(block: dict[str, Any]) -> None:
    """A block of a kind that nobody knows is taken verbatim, in a message and in a result."""
    assert check_data("user/message", {**ASKED, "content": [block]}) is None
    assert check_data("tool/result", changed(RESULT, "message.content.0.content", [block])) is None


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("user/message", {**ASKED, "\ud83d": 1}),
        ("user/message", {**ASKED, "id": "\ud83d", "source": {"kind": "\ud83d", "\ud83d": {}}}),
        ("user/message", {**ASKED, "content": [{"type": "\ud83d"}, {**TEXT, "text": "\ud83d", "\ud83d": []}]}),
        ("assistant/message", changed(ANSWERED, "message.content.1.\ud83d", None)),
        ("tool/result", {**tool_result_message("\ud83d", "\ud83d", turn=1, step=2), "\ud83d": [1]}),
    ],
)
def test_a_lone_surrogate_may_stand_anywhere(event_type: str, data: Any) -> None:
    """Keys, names and texts with lone surrogates are taken like any others."""
    assert check_data(event_type, data) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({**ASKED, "role": "\ud83d"}, "at `$.role`"),
        ({**ASKED, "\ud83d": [1, None], "id": ""}, "at `$.id`"),
        (changed({**ASKED, "\ud83d": 1}, "content"), "missing required field `content`"),
    ],
)
def test_a_lone_surrogate_hides_no_wrong_shape(data: Any, said: str) -> None:
    """Data that holds lone surrogates is checked like any other."""
    assert said in refusal("user/message", data).reason


def test_calls_are_told_apart_by_their_surrogates() -> None:
    """A result block whose call id differs from its source's by a surrogate alone is of another call."""
    # given
    data = {**changed(RESULT, "message.source.callId", "\ud83d"), "\ud83d": 1}
    # when
    error = refusal("tool/result", changed(data, "message.content.0.toolCallId", "\ud83e"))
    # then
    assert r"toolCallId '\ud83e' is not the source's callId '\ud83d'" in error.reason


@pytest.mark.parametrize(
    ("event_type", "data", "said"),
    [
        ("user/message", None, "Expected `object`, got `null`"),
        ("user/message", [ASKED], "Expected `object`, got `array`"),
        ("user/message", changed(ASKED, "id"), "missing required field `id`"),
        ("user/message", changed(ASKED, "source"), "missing required field `source`"),
        ("user/message", changed(ASKED, "content"), "missing required field `content`"),
        ("user/message", {**ASKED, "id": ""}, "length >= 1 - at `$.id`"),
        ("user/message", {**ASKED, "id": 5}, "Expected `str`, got `int` - at `$.id`"),
        ("user/message", {**ASKED, "role": "assistant"}, "'assistant' - at `$.role`"),
        ("user/message", {**ASKED, "source": "user"}, "at `$.source`"),
        ("user/message", {**ASKED, "source": {"kind": ""}}, "at `$.source.kind`"),
        ("user/message", {**ASKED, "content": "hi"}, "Expected `array`, got `str` - at `$.content`"),
        ("user/message", {**ASKED, "content": ["hi"]}, "at `$.content[0]`"),
        ("user/message", {**ASKED, "content": [TEXT, {"text": "hi"}]}, "field `type` - at `$.content[1]`"),
        ("user/message", {**ASKED, "content": [{"type": ""}]}, "at `$.content[0].type`"),
        ("user/message", {**ASKED, "content": [{"type": "text"}]}, "missing required field `text`"),
        ("user/message", {**ASKED, "content": [{"type": "reasoning", "text": 1}]}, "Expected `str`, got `int`"),
        ("user/message", {**ASKED, "content": [changed(CALL, "name")]}, "missing required field `name`"),
        ("user/message", {**ASKED, "content": [{**CALL, "arguments": {}}]}, "Expected `str`, got `object`"),
        ("assistant/message", ANSWERED["message"], "missing required field `turn`"),
        ("assistant/message", changed(ANSWERED, "message"), "missing required field `message`"),
        ("assistant/message", {**ANSWERED, "turn": -1}, "at `$.turn`"),
        ("assistant/message", {**ANSWERED, "turn": True}, "Expected `int`, got `bool` - at `$.turn`"),
        ("assistant/message", {**ANSWERED, "step": 1.5}, "at `$.step`"),
        ("assistant/message", changed(ANSWERED, "message.role", "user"), "at `$.message.role`"),
        ("assistant/message", changed(ANSWERED, "message.id", ""), "at `$.message.id`"),
        ("assistant/message", changed(ANSWERED, "message.source.kind", "plugin"), "at `$.message.source.kind`"),
        ("assistant/message", changed(ANSWERED, "message.source.provider"), "missing required field `provider`"),
        ("assistant/message", changed(ANSWERED, "message.source.model", ""), "at `$.message.source.model`"),
        ("assistant/message", changed(ANSWERED, "message.content.1.id", None), "Expected `str`, got `null`"),
        ("steering/message", ASKED, "missing required field `turn`"),
        ("steering/message", {"turn": 1, "message": OLDER_USER}, "missing required field `id`"),
        ("steering/message", {"turn": 1}, "missing required field `message`"),
        ("tool/result", changed(RESULT, "message"), "missing required field `message`"),
        ("tool/result", changed(RESULT, "message.role", "tool"), "at `$.message.role`"),
        ("tool/result", changed(RESULT, "message.source.kind", "user"), "at `$.message.source.kind`"),
        ("tool/result", changed(RESULT, "message.source.callId"), "missing required field `callId`"),
        ("tool/result", changed(RESULT, "message.content", []), "one tool-result block, not 0 blocks"),
        ("tool/result", changed(RESULT, "message.content", [TEXT, TEXT]), "one tool-result block, not 2 blocks"),
        ("tool/result", changed(RESULT, "message.content", [TEXT]), "tool/result data: "),
        ("tool/result", changed(RESULT, "message.content", [5]), "Expected `object`, got `int`"),
        ("tool/result", changed(RESULT, "message.content.0.isError"), "missing required field `isError`"),
        ("tool/result", changed(RESULT, "message.content.0.content", "ok"), "Expected `array`, got `str`"),
        ("tool/result", changed(RESULT, "message.content.0.content", [{"type": "text"}]), "field `text`"),
        (
            "tool/result",
            changed(RESULT, "message.source.callId", "d"),
            "the block's toolCallId 'c' is not the source's callId 'd'",
        ),
        ("request/header", None, "Expected `object`, got `null`"),
        ("request/header", {}, "missing required field `header`"),
        ("request/header", changed(HEADER, "header.config"), "missing required field `config`"),
        ("request/header", changed(HEADER, "header.config.provider"), "missing required field `provider`"),
        ("request/header", changed(HEADER, "header.config.model", ""), "at `$.header.config.model`"),
    ],
)
def test_data_of_another_shape_is_refused_by_place(event_type: str, data: Any, said: str) -> None:
    """The error names the type, the place, what was found there and what would be right."""
    # when
    error = refusal(event_type, data)
    # then
    assert said in error.reason
    assert error.reason.startswith(f"{event_type} data: ")
    assert error.rule == ("request-header" if event_type == "request/header" else "message-shape")
    assert error.seq == 7


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("user/message", OLDER_USER),
        ("assistant/message", OLDER_ANSWER),
        ("tool/result", OLDER_RESULT),
        ("request/header", OLDER_HEADER),
    ],
)
def test_the_older_shapes_are_imported_and_not_appended(event_type: str, data: Any) -> None:
    """Logs of early 2026-07 hold shapes that nobody may append any more."""
    assert check_data(event_type, data, is_import=True) is None
    assert refusal(event_type, data).seq == 7


@pytest.mark.parametrize(
    ("event_type", "data", "said"),
    [
        ("user/message", None, "Expected `object`"),
        ("user/message", {**ASKED, "id": ""}, "at `$.id`"),
        ("user/message", changed(OLDER_USER, "content"), "field `content`"),
        ("user/message", {**OLDER_USER, "content": [{"type": "text"}]}, "field `text`"),
        ("assistant/message", {**OLDER_ANSWER, "content": [{**CALL, "id": 1}]}, "Expected `str`"),
        ("assistant/message", {**OLDER_ANSWER, "message": None}, "at `$.message`"),
        ("tool/result", changed(OLDER_RESULT, "callId"), "field `callId`"),
        ("tool/result", {**OLDER_RESULT, "content": [{"type": "text"}]}, "field `text`"),
        ("steering/message", {"turn": 1, "message": OLDER_USER}, "field `id`"),
        ("request/header", {"header": "s"}, "Expected `object`, got `str`"),
    ],
)
def test_the_older_shapes_are_shapes_too(event_type: str, data: Any, said: str) -> None:
    """An import takes the older shapes and no others."""
    assert said in refusal(event_type, data, is_import=True).reason


@pytest.mark.parametrize(
    ("event_type", "data", "expected"),
    [
        ("user/message", ASKED, ASKED),
        ("user/message", OLDER_USER, OLDER_USER),
        ("assistant/message", ANSWERED, ANSWERED["message"]),
        ("tool/result", RESULT, RESULT["message"]),
        ("steering/message", STEERED, ASKED),
        ("assistant/message", OLDER_ANSWER, {"role": "assistant", "content": [TEXT, CALL]}),
        (
            "tool/result",
            OLDER_RESULT,
            {
                "role": "user",
                "source": {"kind": "tool", "callId": "c"},
                "content": [{"type": "tool-result", "toolCallId": "c", "content": [TEXT], "isError": True}],
            },
        ),
    ],
)
def test_the_message_stands_inside_the_data(event_type: str, data: Any, expected: Any) -> None:
    """The message is a user event's data, and stands under its key elsewhere; nobody invents an id for an older one."""
    assert expected == message_of(event_type, data)


def test_the_calls_of_a_message_are_its_tool_call_blocks() -> None:
    """Calls are found in the order in which the model made them."""
    # given
    second = {**CALL, "id": "d"}
    # then
    assert tool_calls_of({"content": [CALL, TEXT, second]}) == [CALL, second]
    assert tool_calls_of({"content": []}) == []


@given(logs())
@settings(max_examples=40)
def test_a_node_derives_the_message_inside_it(events: list[SessionEvent]) -> None:
    """Every surface event derives its message verbatim but an empty answer, and no other event derives any."""
    for event in events:
        # given
        data = event.data
        inside = [data] if event.type == "user/message" else [data["message"]] if is_surface_event(event) else []
        expected = [
            message for message in inside if not (event.type == "assistant/message" and message["content"] == [])
        ]
        # when
        actual = derive_message(event)
        # then
        assert is_same_json(expected or [None], [actual])


@given(logs())
@settings(max_examples=40)
def test_every_generated_log_has_proper_data(events: list[SessionEvent]) -> None:
    """What embedders test with is what they may append."""
    for event in events:
        check_data(event.type, event.data, event.seq)


def test_only_an_empty_answer_derives_no_message() -> None:
    """An empty answer only carries usage; an empty question and an empty result are said all the same."""
    # given
    log = LogBuilder()
    log.append("assistant/message", assistant_message([], turn=1, step=1, provider="p", model="m"), APPEND)
    log.append("user/message", user_message([]), APPEND)
    log.append("tool/result", tool_result_message("c", [], turn=1, step=1), APPEND)
    # when
    derived = [derive_message(event) for event in log.events]
    # then
    assert [message is not None for message in derived] == [False, True, True]


def test_an_event_without_a_marker_derives_nothing() -> None:
    """What never was on the surface is never sent, whatever it holds."""
    # given
    log = LogBuilder()
    log.append("user/message", ASKED)
    log.append("turn/start", ASKED, APPEND)
    # then
    assert [derive_message(event) for event in log.events] == [None, None]


def test_a_derived_message_is_the_readers_to_change() -> None:
    """A message that is sent may be changed on the way: the event keeps its own."""
    # given
    event = SessionEvent.from_wire({"type": "user/message", "seq": 1, "time": 0, "data": ASKED, "surfaceOp": "append"})
    # when
    derive_message(event)["content"].clear()
    # then
    assert derive_message(event) == ASKED


def test_a_replacement_derives_its_message_like_an_append() -> None:
    """A checkpoint is sent as what it says."""
    # given
    log = LogBuilder()
    log.append("user/message", ASKED, APPEND)
    log.append("user/message", {**ASKED, "id": "m1"}, Replace(0, 0), [0])
    # then
    assert derive_message(log.events[1]) == {**ASKED, "id": "m1"}

"""A session's messages as requests: what each provider's own types take, and the rules that types cannot say."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from anthropic.types import MessageParam
from anthropic.types import ToolParam as AnthropicToolParam
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.responses import FunctionToolParam, ResponseInputParam
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from dsh_compact import ToolPairing
from dsh_session import (
    Session,
    SessionHeader,
    UnsupportedBlockError,
    UnsupportedHeaderError,
    assistant_message,
    derive_message,
    to_anthropic_messages,
    to_openai_chat,
    to_openai_responses,
    tool_result_message,
    user_message,
)
from dsh_session.providers.requests import BEGUN_BY_MODEL
from dsh_session.providers.sendable import FAILED_SILENTLY
from dsh_session.testing import contents, logs, naive_surface
from stored import work

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_session import SessionEvent

EXACT = ConfigDict(extra="forbid")
CHAT = TypeAdapter(list[ChatCompletionMessageParam], config=EXACT)
CHAT_TOOLS = TypeAdapter(list[ChatCompletionToolParam], config=EXACT)
RESPONSES = TypeAdapter(ResponseInputParam, config=EXACT)
RESPONSES_TOOLS = TypeAdapter(list[FunctionToolParam], config=EXACT)
ANTHROPIC = TypeAdapter(list[MessageParam], config=EXACT)
ANTHROPIC_TOOLS = TypeAdapter(list[AnthropicToolParam], config=EXACT)

CONVERTERS = (to_openai_chat, to_openai_responses, to_anthropic_messages)
PNG = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
PNG_URL = "data:image/png;base64,iVBORw0="
WEB = {"type": "image", "url": "https://example.org/cat.png"}
ATTACHED = {"type": "image", "attachment": {"attachmentId": "img-1", "mediaType": "image/png", "bytes": 5}}


def text(value: str) -> Any:
    return {"type": "text", "text": value}


def call(call_id: str, arguments: str = "{}") -> Any:
    return {"type": "tool-call", "id": call_id, "name": "run", "arguments": arguments}


def said(*blocks: Any) -> Any:
    """What the user says: texts, or blocks."""
    return user_message([text(block) if isinstance(block, str) else block for block in blocks], message_id="u")


def answered(*blocks: Any) -> Any:
    """What the model answers: texts, or blocks."""
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    return assistant_message(content, turn=1, step=1, provider="p", model="m", message_id="a")["message"]


def result(call_id: str, *blocks: Any, is_error: bool = False) -> Any:
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    return tool_result_message(call_id, content, turn=1, step=1, is_error=is_error, message_id="r")["message"]


def check_types(adapter: TypeAdapter[Any], value: Any) -> None:
    """Refuse what is not exactly of an SDK's request types. Their iterables are checked when they are read."""

    def read(part: Any) -> None:
        assert not isinstance(part, BaseModel), f"{part!r} is of no request type"
        if isinstance(part, dict):
            for item in part.values():
                read(item)
        elif not isinstance(part, str | bytes | int | float | None):
            for item in part:
                read(item)

    json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    read(adapter.validate_python(value, strict=True))


def check_chat(messages: list[Any]) -> None:
    """Behind an assistant's message stand the results of its calls, in order; no other results are there."""
    check_types(CHAT, messages)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        calls = message.get("tool_calls", [])
        assert message.get("content") or calls
        waiting = [made["id"] for made in calls]
    assert waiting == []


def check_responses(items: list[Any]) -> None:
    """Calls are followed by their results, in order, before anything else is said."""
    check_types(RESPONSES, items)
    waiting: list[str] = []
    for before, item in pairwise([{"type": "message"}, *items, {"type": "message"}]):
        match item:
            case {"type": "function_call"}:
                assert before.get("type") != "function_call_output" or waiting == []
                waiting.append(item["call_id"])
            case {"type": "function_call_output"}:
                assert item["call_id"] == waiting.pop(0)
            case _:
                assert waiting == []
                assert item.get("content", "…")


def check_anthropic(messages: list[Any]) -> None:
    """The roles alternate from the user's on; results come first, behind their calls; no text is blank."""
    check_types(ANTHROPIC, messages)
    assert [message["role"] for message in messages] == [("user", "assistant")[at % 2] for at in range(len(messages))]
    for before, message in pairwise([{"content": []}, *messages, {"content": []}]):
        asked = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        kinds = [block["type"] for block in message["content"]]
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert results == asked
        assert kinds[: len(asked)] == ["tool_result"] * len(asked)
    for message in messages:
        assert message["content"]
        inner = [block.get("content", []) for block in message["content"]]
        shown = [*message["content"], *(block for content in inner for block in content)]
        assert [block for block in shown if block["type"] == "text" and not block["text"].strip()] == []
        assert [block for block in message["content"] if block.get("is_error") and not block.get("content")] == []


def check_all(messages: list[Any], **options: Any) -> None:
    check_chat(to_openai_chat(messages, **options)["messages"])
    check_responses(to_openai_responses(messages, **options)["input"])
    check_anthropic(to_anthropic_messages(messages, **options)["messages"])


def messages_of(events: list[SessionEvent]) -> list[Any]:
    derived = (derive_message(events[seq]) for seq in naive_surface(events).nodes)
    return [message for message in derived if message is not None]


def is_paired(events: list[SessionEvent]) -> bool:
    pairing = ToolPairing(events[seq] for seq in naive_surface(events).nodes)
    return not pairing.open_calls and not pairing.orphan_results


def blocks_of(messages: list[Any]) -> list[Any]:
    """All blocks of messages, those inside results among them."""
    return [
        inner for message in messages for block in message["content"] for inner in (block, *block.get("content", ()))
    ]


def texts_in(blocks: list[Any]) -> list[str]:
    """The texts of blocks as they are sent: without what nobody can see, and without lone surrogates."""
    texts = [block["text"] for block in blocks if block["type"] == "text" and block["text"]]
    return ["".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in each) for each in texts]


def test_types_are_checked_to_the_last_key() -> None:
    """The check of the types that all tests here rely on bites at any depth."""
    deep = {"type": "text", "text": "x", "colour": "red"}
    for adapter, value in (
        (CHAT, [{"role": "user", "content": [deep]}]),
        (RESPONSES, [{"role": "user", "content": [{**deep, "type": "input_text"}]}]),
        (ANTHROPIC, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [deep]}]}]),
        (ANTHROPIC, [{"role": "user", "content": [deep]}]),
        (CHAT, [{"role": "user", "content": "x", "colour": "red"}]),
        (CHAT, [{"role": "user", "content": "\ud83d"}]),
    ):
        with pytest.raises((ValidationError, AssertionError, UnicodeEncodeError)):
            check_types(adapter, value)


@settings(max_examples=40, deadline=None)
@given(logs())
def test_every_log_makes_requests_that_providers_take(events: list[SessionEvent]) -> None:
    """Whatever the surface holds, what can be sent of it is of the SDKs' types and keeps each provider's rules."""
    check_all(messages_of(events), on_unsupported="drop")


@settings(max_examples=40, deadline=None)
@given(logs())
def test_a_log_is_refused_for_a_reason_alone(events: list[SessionEvent]) -> None:
    """A surface that pairs its calls and holds no unknown kinds is sent whole; any other is refused by name."""
    messages = messages_of(events)
    unknown = [block for block in blocks_of(messages) if block["type"] == "hologram"]

    for convert in CONVERTERS:
        if is_paired(events) and not unknown:
            assert convert(messages) == convert(messages, on_unsupported="drop")
        else:
            with pytest.raises(UnsupportedBlockError) as caught:
                convert(messages)
            assert caught.value.kind in ("hologram", "tool-call", "tool-result")


@st.composite
def conversations(draw: st.DrawFn) -> list[Any]:
    """Messages in which each call gets its result, late and in any order, with users speaking in between."""
    messages = [said("go")]
    for turn in range(draw(st.integers(1, 4))):
        messages.append(said(*draw(contents())))
        calls = [call(f"{turn}-{index}") for index in range(draw(st.integers(0, 3)))]
        messages.append(answered(*draw(st.lists(st.sampled_from(["", "so", "größe"]), max_size=2)), *calls))
        results = [result(made["id"], *draw(contents()), is_error=draw(st.booleans())) for made in calls]
        asides = draw(st.lists(contents().map(lambda blocks: said(*blocks)), max_size=2))
        messages += draw(st.permutations([*results, *asides]))
    return messages


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_nothing_that_can_be_seen_is_lost(messages: list[Any]) -> None:
    """Every text that can be seen is sent: a speaker's in the order of the surface, a tool's with its call."""
    sent = to_anthropic_messages(messages, on_unsupported="drop")["messages"]

    check_all(messages, on_unsupported="drop")
    blocks = [block for message in sent for block in message["content"]]
    for role in ("user", "assistant"):
        own = [block for message in messages if message["role"] == role for block in message["content"]]
        found = [block for message in sent if message["role"] == role for block in message["content"]]
        assert texts_in(own) == texts_in(found)
    for message in messages:
        if message["source"]["kind"] == "tool":
            (own,) = message["content"]
            (found,) = (block for block in blocks if block.get("tool_use_id") == own["toolCallId"])
            is_silent = own["isError"] and not texts_in(own["content"]) and PNG not in own["content"]
            expected = [FAILED_SILENTLY] if is_silent else texts_in(own["content"])
            assert expected == texts_in(found.get("content", []))


@settings(max_examples=10, deadline=None)
@given(logs())
def test_messages_are_not_changed(events: list[SessionEvent]) -> None:
    """The messages given are the caller's: they stay as they were."""
    messages = messages_of(events)

    for convert in CONVERTERS:
        convert(messages, on_unsupported="drop")

    assert messages_of(events) == messages


def test_a_turn_of_work_for_chat() -> None:
    """A session's own messages and header become OpenAI's chat messages and tools."""
    session = Session(SessionHeader(id="s", created_at=0), clock=lambda: 0)
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    tools = [{"name": "run", "description": "Run a command.", "parameters": schema, "icon": "x"}, {"name": "wait"}]
    config = {"provider": "p", "model": "m"}
    session.append("request/header", {"header": {"config": config, "system": "Be brief.", "tools": tools}})
    work(session)

    request = to_openai_chat(session.messages(), session.request_header())

    check_chat(request["messages"])
    check_types(CHAT_TOOLS, request["tools"])
    function = {"name": "run", "arguments": "{}"}
    assert request == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "run", "description": "Run a command.", "parameters": schema}},
            {"type": "function", "function": {"name": "wait", "parameters": {"type": "object", "properties": {}}}},
        ],
    }


def test_a_turn_of_work_for_responses() -> None:
    """The same messages become items, the system text the instructions, and tools say that they are not strict."""
    messages = [said("go"), answered("I run it.", call("c")), result("c", "done"), said("thanks")]

    request = to_openai_responses(messages, {"system": "Be brief.", "tools": [{"name": "run", "parameters": {}}]})

    check_responses(request["input"])
    check_types(RESPONSES_TOOLS, request["tools"])
    assert request == {
        "input": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "I run it."},
            {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
            {"role": "user", "content": "thanks"},
        ],
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "run",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
    }


def test_a_turn_of_work_for_anthropic() -> None:
    """The same messages become alternating ones, with the result first in the user's next."""
    messages = [said("go"), answered("I run it.", call("c", '{"n": 1}')), result("c", "done"), said("thanks")]
    header = {"system": "Be brief.", "tools": [{"name": "run", "description": "Run."}]}

    request = to_anthropic_messages(messages, header)

    check_anthropic(request["messages"])
    check_types(ANTHROPIC_TOOLS, request["tools"])
    assert request == {
        "messages": [
            {"role": "user", "content": [text("go")]},
            {
                "role": "assistant",
                "content": [text("I run it."), {"type": "tool_use", "id": "c", "name": "run", "input": {"n": 1}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c", "content": [text("done")]}, text("thanks")],
            },
        ],
        "system": "Be brief.",
        "tools": [{"name": "run", "description": "Run.", "input_schema": {"type": "object", "properties": {}}}],
    }


@pytest.mark.parametrize(
    ("convert", "expected"),
    [
        (to_openai_chat, {"messages": []}),
        (to_openai_responses, {"input": []}),
        (to_anthropic_messages, {"messages": []}),
    ],
)
def test_nothing_said(convert: Callable[..., Any], expected: Any) -> None:
    """Without messages and without a header, a request has no messages and nothing else."""
    assert expected == convert([])
    assert expected == convert([said("", " \n"), answered(" ")], {"system": "", "tools": [], "config": {}})


def test_results_move_to_their_calls() -> None:
    """Results that arrived late and in another order stand behind their calls, in the order of the calls."""
    messages = [answered(call("a"), call("b")), said("hurry"), result("b", "two"), result("a", "one")]

    chat = to_openai_chat(messages)["messages"]
    items = to_openai_responses(messages)["input"]
    anthropic = to_anthropic_messages(messages)["messages"]

    assert [message.get("tool_call_id", message["role"]) for message in chat] == ["assistant", "a", "b", "user"]
    assert [item.get("call_id", item.get("role")) for item in items] == ["a", "b", "a", "b", "user"]
    assert [block.get("tool_use_id", block["type"]) for block in anthropic[2]["content"]] == ["a", "b", "text"]
    check_all(messages)


def test_an_id_that_is_used_again_is_answered_where_it_is_open() -> None:
    """Of two calls with one id, each gets the result that came while it was the newest open one."""
    again = [answered(call("a")), answered(call("a")), result("a", "of the newer"), result("a", "of the older")]
    messages = [answered(call("a")), result("a", "first"), *again]

    sent = to_openai_chat(messages)["messages"]

    outputs = [message["content"] for message in sent if message["role"] == "tool"]
    assert outputs == ["first", "of the older", "of the newer"]
    check_all(messages)


@pytest.mark.parametrize("convert", CONVERTERS)
@pytest.mark.parametrize(
    ("messages", "kind", "message_id"),
    [
        ([said({"type": "hologram"})], "hologram", "u"),
        ([answered({"type": "hologram"})], "hologram", "a"),
        ([answered(PNG)], "image", "a"),
        ([said(call("c"))], "tool-call", "u"),
        ([said({"type": "reasoning", "text": "hm"})], "reasoning", "u"),
        ([said({"type": "tool-result"})], "tool-result", "u"),
        ([answered(call("c")), result("c", {"type": "hologram"})], "hologram", "r"),
        ([answered(call("c")), said("well?")], "tool-call", "a"),
        ([result("c", "done"), answered(call("c"))], "tool-result", "r"),
        ([answered(call("c")), result("c", "done"), result("c", "done")], "tool-result", "r"),
        ([said(ATTACHED)], "image", "u"),
        ([said({**PNG, "mimeType": "image/svg+xml"})], "image", "u"),
        ([said({**PNG, "data": "not base64"})], "image", "u"),
        ([said({"type": "image", "url": "file:///etc/passwd"})], "image", "u"),
        ([{"role": "user", "source": {"kind": "user"}, "content": [{"type": "hologram"}]}], "hologram", None),
    ],
)
def test_what_cannot_be_sent_is_named(
    convert: Callable[..., Any], messages: list[Any], kind: str, message_id: str | None
) -> None:
    """The error is a ValueError that names the kind of block and the message; when told so, the block is dropped."""
    with pytest.raises(UnsupportedBlockError, match=f"{message_id or 'without an id'}.*{kind}") as caught:
        convert(messages)

    assert isinstance(caught.value, ValueError)
    assert (kind, message_id) == (caught.value.kind, caught.value.message_id)
    check_all(messages, on_unsupported="drop")
    assert kind not in json.dumps(convert(messages, on_unsupported="drop"))


@pytest.mark.parametrize(
    ("header", "place"),
    [
        ({"system": ["Be brief."]}, "system"),
        ({"tools": "{{tools}}"}, "tools"),
        ({"tools": [{"description": "has no name"}]}, "name"),
        ({"tools": [{"name": "run", "parameters": "{}"}]}, "parameters"),
    ],
)
def test_a_header_of_another_shape_is_refused(header: Any, place: str) -> None:
    """System text and tools of another shape are a ValueError that says where."""
    for convert in CONVERTERS:
        with pytest.raises(UnsupportedHeaderError, match=place) as caught:
            convert([said("go")], header)
        assert isinstance(caught.value, ValueError)


def test_images_of_a_user() -> None:
    """Images are sent inline or by URL, in their place among the texts; a data URL is the image that it holds."""
    messages = [said("see", PNG, WEB, {"type": "image", "url": PNG_URL})]

    chat = to_openai_chat(messages)["messages"][0]["content"]
    items = to_openai_responses(messages)["input"][0]["content"]
    anthropic = to_anthropic_messages(messages)["messages"][0]["content"]

    urls = [PNG_URL, WEB["url"], PNG_URL]
    assert chat == [text("see"), *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
    assert items == [
        {"type": "input_text", "text": "see"},
        *({"type": "input_image", "image_url": url, "detail": "auto"} for url in urls),
    ]
    inline = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}}
    assert anthropic == [
        text("see"),
        inline,
        {"type": "image", "source": {"type": "url", "url": WEB["url"]}},
        inline,
    ]
    check_all(messages)


def test_images_in_results() -> None:
    """Chat's tool messages hold text alone, so images follow all results; elsewhere they stay in their result."""
    messages = [answered(call("a"), call("b")), result("a", "a cat:", PNG), result("b", WEB), said("nice")]

    chat = to_openai_chat(messages)["messages"]
    items = to_openai_responses(messages)["input"]
    anthropic = to_anthropic_messages(messages)["messages"]

    assert [(message["role"], message.get("content")) for message in chat] == [
        ("assistant", None),
        ("tool", "a cat:"),
        ("tool", ""),
        ("user", [{"type": "image_url", "image_url": {"url": url}} for url in (PNG_URL, WEB["url"])]),
        ("user", "nice"),
    ]
    assert [[part["type"] for part in item["output"]] for item in items[2:4]] == [
        ["input_text", "input_image"],
        ["input_image"],
    ]
    assert [[part["type"] for part in block["content"]] for block in anthropic[2]["content"][:2]] == [
        ["text", "image"],
        ["image"],
    ]
    check_all(messages)


def test_an_attachment_is_loaded() -> None:
    """An image block that names an attachment is sent as what the caller's loader gives for it, and only such a one."""
    asked = []

    def load(block: Any) -> Any:
        asked.append(block)
        return PNG

    messages = [said(ATTACHED, PNG)]

    for convert in CONVERTERS:
        assert convert(messages, load_image=load) == convert([said(PNG, PNG)])
    assert asked == [ATTACHED] * 3


def test_what_a_loader_gives_is_checked() -> None:
    """A loader that gives no image which can be sent does not help."""
    with pytest.raises(UnsupportedBlockError):
        to_openai_chat([said(ATTACHED)], load_image=lambda block: block)  # type: ignore[arg-type, return-value] # wrong on purpose


def test_errors_of_tools() -> None:
    """Anthropic is told that a tool failed; a failure without output gets a text, which no provider may miss."""
    messages = [
        answered(call("a"), call("b")),
        result("a", "no such file", is_error=True),
        result("b", "", is_error=True),
    ]

    anthropic = to_anthropic_messages(messages)["messages"][2]["content"]
    chat = to_openai_chat(messages)["messages"]

    assert [(block["is_error"], block["content"]) for block in anthropic] == [
        (True, [text("no such file")]),
        (True, [text(FAILED_SILENTLY)]),
    ]
    assert [message["content"] for message in chat[1:]] == ["no such file", FAILED_SILENTLY]
    check_all(messages)


def test_a_tool_that_put_nothing_out() -> None:
    """A success without output is an empty result, and is there all the same."""
    messages = [answered(call("a")), result("a")]

    assert to_openai_chat(messages)["messages"][1] == {"role": "tool", "tool_call_id": "a", "content": ""}
    assert to_openai_responses(messages)["input"][1]["output"] == ""
    assert to_anthropic_messages(messages)["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "a"}]
    check_all(messages)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"path": "a", "deep": [1, null]}', {"path": "a", "deep": [1, None]}),
        ("", {}),
        ('{"path": "a', {"_raw": '{"path": "a'}),
        ("[1]", {"_raw": "[1]"}),
        ('{"n": NaN}', {"_raw": '{"n": NaN}'}),
        ('{"n": 1e999}', {"_raw": '{"n": 1e999}'}),
        (r'{"torn": "\ud83d", "whole": "\ud83d\ude00"}', {"torn": "\ufffd", "whole": "😀"}),
    ],
)
def test_arguments_become_an_object_for_anthropic(arguments: str, expected: Any) -> None:
    """Arguments are the object that their JSON text holds, and a text that holds none is kept; OpenAI gets the text."""
    messages = [answered(call("c", arguments)), result("c", "done")]

    (block,) = to_anthropic_messages(messages)["messages"][1]["content"]

    assert expected == block["input"]
    assert to_openai_responses(messages)["input"][0]["arguments"] == arguments
    check_all(messages)


def test_reasoning_goes_back_to_whom_it_came_from() -> None:
    """Reasoning is sent to Anthropic where it kept its signature, and to nobody else."""
    signed = {"type": "reasoning", "text": "hm", "signature": "c2ln"}
    messages = [said("go"), answered(signed, "so"), answered({"type": "reasoning", "text": "aside"})]

    anthropic = to_anthropic_messages(messages)["messages"]

    assert anthropic[1:] == [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, text("so")]}
    ]
    assert to_openai_chat(messages)["messages"][1:] == [{"role": "assistant", "content": "so"}]
    assert to_openai_responses(messages)["input"][1:] == [{"role": "assistant", "content": "so"}]
    assert to_openai_chat([answered(signed)]) == {"messages": []}
    check_all(messages)


def test_neighbours_of_one_role_are_one_message_for_anthropic() -> None:
    """Consecutive messages of one role are merged, and a conversation that the model begins gets a first message."""
    messages = [answered("hello"), answered("anybody?"), said("yes"), said("", "me")]

    assert to_anthropic_messages(messages)["messages"] == [
        {"role": "user", "content": [text(BEGUN_BY_MODEL)]},
        {"role": "assistant", "content": [text("hello"), text("anybody?")]},
        {"role": "user", "content": [text("yes"), text("me")]},
    ]


def test_texts_that_no_request_can_hold() -> None:
    """Lone surrogates are replaced everywhere, in the header too, and ids still match."""
    torn = "torn \ud83d"
    messages = [said(torn), answered(call(torn, '{"a": "\ud83d"}')), result(torn, torn)]
    header = {"system": torn, "tools": [{"name": "run", "parameters": {"title": torn, "default": [torn, 1.5, True]}}]}

    for convert in CONVERTERS:
        request = convert(messages, header)
        assert "torn \ufffd" in json.dumps(request, ensure_ascii=False)
        json.dumps(request, ensure_ascii=False).encode("utf-8")
    check_all(messages)


def test_older_messages_are_read() -> None:
    """Messages of early logs, which lack a role or an id, are sent like any other."""
    older = {"source": {"kind": "user"}, "content": [text("go")]}
    flat = {"role": "assistant", "content": [text("gone")]}

    assert to_openai_chat([older, flat])["messages"] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "gone"},
    ]

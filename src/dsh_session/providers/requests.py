"""A session's messages as the requests that providers take: OpenAI chat, OpenAI responses, Anthropic messages.

The converters are pure and give plain dicts, the parts of a request that follow from the session. What holds for all:

- A tool's result stands directly behind the message that asked for it, in the order of its calls, wherever it arrived.
- A text without a visible character is left out, and a message that is left with nothing.
- A lone surrogate, which no request can hold, becomes U+FFFD.
- Reasoning is left out; Anthropic alone takes it back, where its block has kept the ``signature`` that it came with.
- What cannot be sent is refused, or left out where the caller says so: a block of another kind, a call without a
  result, a result that answers no call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from dsh_session import lossless_json
from dsh_session.errors import NotJSONError
from dsh_session.providers.sendable import (
    DATA_URL,
    Call,
    Image,
    Prompt,
    Thought,
    read_header,
    read_messages,
    texts_of,
    well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_session.providers.sendable import ImageLoader, OnUnsupported, Shown, Tool

BEGUN_BY_MODEL: Final = "The conversation begins with what follows."
"""What an Anthropic request begins with when its first message is the model's; there the user's must come first."""


def to_openai_chat(
    messages: Iterable[Any],
    header: Any = None,
    *,
    load_image: ImageLoader | None = None,
    on_unsupported: OnUnsupported = "raise",
) -> dict[str, Any]:
    """Make the messages and tools of a request to OpenAI chat completions, or to a server that takes the same.

    Texts of one message join with a newline. Each result is a message with the role ``tool``, which holds text alone:
    images follow in one user's message behind the results. The interface has no place for a result's error flag; its
    text speaks for it.

    Args:
        messages: what `Session.messages` gives, or those of a summary request.
        header: what the request is built with, as `Session.request_header` gives it: its ``system`` text, and its
            ``tools``, each with a ``name``, and a ``description`` and ``parameters``, a JSON schema, where there are
            any. Other keys are for other readers.
        load_image: gives an image that can be sent for an image block that cannot.
        on_unsupported: what to do with what cannot be sent: raise an error, or drop it.

    Returns:
        ``messages``, and ``tools`` where there are any.

    Raises:
        UnsupportedBlockError: something cannot be sent, and is not to be dropped.
        UnsupportedHeaderError: the header's system text or its tools have another shape.

    Cost: O(size of the messages and the header).
    """
    read = read_header(header)
    sent: list[dict[str, Any]] = [{"role": "system", "content": read.system}] if read.system else []
    for said in read_messages(messages, load_image, on_unsupported):
        if isinstance(said, Prompt):
            sent.append({"role": "user", "content": _chat_content(said.content)})
            continue
        texts, calls = said.texts(), said.calls()
        answer: dict[str, Any] = {"role": "assistant"}
        if texts:
            answer["content"] = "\n".join(texts)
        if calls:
            answer["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
        if len(answer) > 1:
            sent.append(answer)
        sent += (
            {"role": "tool", "tool_call_id": call.id, "content": "\n".join(texts_of(call.output))} for call in calls
        )
        images = [shown for call in calls for shown in call.output if isinstance(shown, Image)]
        if images:
            sent.append({"role": "user", "content": _chat_content(images)})
    return _request(
        messages=sent, tools=[{"type": "function", "function": _function(tool)} for tool in read.tools or ()]
    )


def to_openai_responses(
    messages: Iterable[Any],
    header: Any = None,
    *,
    load_image: ImageLoader | None = None,
    on_unsupported: OnUnsupported = "raise",
) -> dict[str, Any]:
    """Make the input, instructions and tools of a request to OpenAI responses.

    An assistant's texts join with a newline; its calls, and then their results, are items of their own behind it.
    Images stay in their results. There is no place for a result's error flag either.

    Args:
        messages: as for `to_openai_chat`.
        header: likewise.
        load_image: likewise.
        on_unsupported: likewise.

    Returns:
        ``input``, and ``instructions`` and ``tools`` where there are any.

    Raises:
        UnsupportedBlockError, UnsupportedHeaderError: as `to_openai_chat`.

    Cost: O(size of the messages and the header).
    """
    read = read_header(header)
    items: list[dict[str, Any]] = []
    for said in read_messages(messages, load_image, on_unsupported):
        if isinstance(said, Prompt):
            items.append({"role": "user", "content": _input_content(said.content)})
            continue
        texts, calls = said.texts(), said.calls()
        if texts:
            items.append({"role": "assistant", "content": "\n".join(texts)})
        items += (
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            for call in calls
        )
        items += (
            {"type": "function_call_output", "call_id": call.id, "output": _input_content(call.output)}
            for call in calls
        )
    tools = [{"type": "function", "strict": False, **_function(tool)} for tool in read.tools or ()]
    return _request(input=items, instructions=read.system, tools=tools)


def to_anthropic_messages(
    messages: Iterable[Any],
    header: Any = None,
    *,
    load_image: ImageLoader | None = None,
    on_unsupported: OnUnsupported = "raise",
) -> dict[str, Any]:
    """Make the messages, system text and tools of a request to Anthropic messages.

    Neighbours of one role are one message. Results come first in the user's message behind their calls, and keep their
    images and their error flag. A call's arguments are sent as the object that their JSON text holds: ``{}`` for an
    empty text, and ``{"_raw": text}`` for one that holds no object, so that the model sees what it wrote. When the
    first message is the model's, ``BEGUN_BY_MODEL`` goes before it.

    Args:
        messages: as for `to_openai_chat`.
        header: likewise.
        load_image: likewise.
        on_unsupported: likewise.

    Returns:
        ``messages``, and ``system`` and ``tools`` where there are any.

    Raises:
        UnsupportedBlockError, UnsupportedHeaderError: as `to_openai_chat`.

    Cost: O(size of the messages and the header).
    """
    read = read_header(header)
    sent: list[dict[str, Any]] = []

    def add(role: str, blocks: Iterable[Any]) -> None:
        if not sent or sent[-1]["role"] != role:
            sent.append({"role": role, "content": []})
        sent[-1]["content"] += blocks

    for said in read_messages(messages, load_image, on_unsupported):
        if isinstance(said, Prompt):
            add("user", map(_anthropic_block, said.content))
            continue
        if not sent:
            add("user", [_anthropic_block(BEGUN_BY_MODEL)])
        add("assistant", map(_anthropic_block, said.content))
        calls = said.calls()
        if calls:
            add("user", map(_anthropic_result, calls))
    return _request(messages=sent, system=read.system, tools=list(map(_anthropic_tool, read.tools or ())))


def _request(**parts: Any) -> dict[str, Any]:
    """Return the parts of a request without those that are empty, but always with what was said."""
    return {key: part for key, part in parts.items() if part or key in ("messages", "input")}


def _function(tool: Tool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **description, "parameters": tool.parameters or {"type": "object", "properties": {}}}


def _chat_content(shown: Sequence[Shown]) -> Any:
    """Return texts as one text, which every server takes, and parts only where there are images."""
    texts = texts_of(shown)
    if len(texts) == len(shown):
        return "\n".join(texts)
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": part.url}}
        for part in shown
    ]


def _input_content(shown: Sequence[Shown]) -> Any:
    texts = texts_of(shown)
    if len(texts) == len(shown):
        return "\n".join(texts)
    return [
        {"type": "input_text", "text": part}
        if isinstance(part, str)
        else {"type": "input_image", "image_url": part.url, "detail": "auto"}
        for part in shown
    ]


def _anthropic_block(part: str | Image | Thought | Call) -> dict[str, Any]:
    match part:
        case str():
            return {"type": "text", "text": part}
        case Image(url):
            data = DATA_URL.fullmatch(url)
            if data is None:
                return {"type": "image", "source": {"type": "url", "url": url}}
            return {"type": "image", "source": {"type": "base64", "media_type": data[1], "data": data[2]}}
        case Thought(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Call():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input_of(part.arguments)}
        case _:
            assert_never(part)


def _anthropic_result(call: Call) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id}
    if call.output:
        result["content"] = list(map(_anthropic_block, call.output))
    if call.is_error:
        result["is_error"] = True
    return result


def _anthropic_tool(tool: Tool) -> dict[str, Any]:
    function = _function(tool)
    schema = function.pop("parameters")
    return {**function, "input_schema": schema}


def _input_of(arguments: str) -> dict[str, Any]:
    try:
        value = lossless_json.parse(arguments or "{}")
    except NotJSONError:
        value = None
    return well_formed(value) if isinstance(value, dict) else {"_raw": arguments}

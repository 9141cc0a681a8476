"""The message inside an event: builders for the three kinds, and what a node sends to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dsh_session.errors import InvalidEventError
from dsh_session.event import is_surface_event

if TYPE_CHECKING:
    from dsh_session.event import SessionEvent
    from dsh_session.types import AssistantMessageData, Block, Source, ToolResultData, UserMessage


def user_message(
    content: str | Sequence[Block], *, source: Source | None = None, message_id: str | None = None
) -> UserMessage:
    """Build the data of a ``user/message``.

    Args:
        content: a text, or blocks.
        source: who says it; the user when None.
        message_id: the message's identity; a new UUID when None.

    Raises:
        InvalidEventError: the content is neither a text nor a list.
    """
    return {
        "id": message_id or str(uuid4()),
        "role": "user",
        "source": source or {"kind": "user"},
        "content": _blocks(content),
    }


def assistant_message(
    content: str | Sequence[Block],
    *,
    turn: int,
    step: int,
    provider: str,
    model: str,
    usage: dict[str, Any] | None = None,
    interrupted: bool = False,
    message_id: str | None = None,
) -> AssistantMessageData:
    """Build the data of an ``assistant/message``.

    Args:
        content: a text, or blocks, tool calls among them.
        turn: the turn that it answers in.
        step: the step of that turn.
        provider: who runs the model.
        model: the model's name there.
        usage: token counts as the provider reported them.
        interrupted: whether the stream was cut before its end.
        message_id: the message's identity; a new UUID when None.

    Raises:
        InvalidEventError: the content is neither a text nor a list.
    """
    data: AssistantMessageData = {
        "turn": turn,
        "step": step,
        "message": {
            "id": message_id or str(uuid4()),
            "role": "assistant",
            "source": {"kind": "model", "provider": provider, "model": model},
            "content": _blocks(content),
        },
    }
    if usage is not None:
        data["usage"] = usage
    if interrupted:
        data["interrupted"] = True
    return data


def tool_result_message(
    call_id: str,
    content: str | Sequence[Block],
    *,
    turn: int,
    step: int,
    is_error: bool = False,
    error: dict[str, Any] | None = None,
    meta: Any = None,
    message_id: str | None = None,
) -> ToolResultData:
    """Build the data of a ``tool/result``.

    Args:
        call_id: the id of the tool-call block that it answers.
        content: the output as a text, or as blocks.
        turn: the turn that the call was made in.
        step: the step of that turn.
        is_error: whether the tool failed.
        error: what failed, for programs, such as ``{"name": ..., "code": ...}``.
        meta: anything for readers other than the model.
        message_id: the message's identity; a new UUID when None.

    Raises:
        InvalidEventError: the content is neither a text nor a list.
    """
    data: ToolResultData = {
        "turn": turn,
        "step": step,
        "message": {
            "id": message_id or str(uuid4()),
            "role": "user",
            "source": {"kind": "tool", "callId": call_id},
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": call_id,
                    "content": _blocks(content),
                    "isError": is_error,
                }
            ],
        },
    }
    if error is not None:
        data["error"] = error
    if meta is not None:
        data["meta"] = meta
    return data


def message_of(event_type: str, data: Any) -> Any:
    """Return the message inside the data of a surface event: the data itself for a ``user/message``.

    Logs of early 2026-07 keep an assistant's and a tool's content flat beside turn and step. Their message is read from
    those fields, without an id, since no reader invents one (ADR-0007).
    """
    match event_type, data:
        case (("assistant/message" | "tool/result" | "steering/message"), {"message": message}):
            return message
        case "assistant/message", {"content": content}:
            return {"role": "assistant", "content": content}
        case "tool/result", {"callId": call_id, "content": content, **rest}:
            block = {
                "type": "tool-result",
                "toolCallId": call_id,
                "content": content,
                "isError": rest.get("isError", False),
            }
            return {"role": "user", "source": {"kind": "tool", "callId": call_id}, "content": [block]}
        case _:
            return data


def tool_calls_of(message: Any) -> list[Any]:
    """Return the tool-call blocks of a message, in order. Cost: O(content blocks)."""
    return [block for block in message["content"] if block["type"] == "tool-call"]


def derive_message(event: SessionEvent) -> Any:
    """Return the message that an event sends to the model while it is a node of the surface.

    Returns:
        The message inside the event, verbatim and fresh; None for every event that is no surface event, and for an
        ``assistant/message`` with empty content, which only carries usage.

    Cost: O(size of the data).
    """
    if not is_surface_event(event):
        return None
    message = message_of(event.type, event.data)
    return None if event.type == "assistant/message" and not message["content"] else message


def _blocks(content: str | Sequence[Block]) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise InvalidEventError(f"content is {content!r:.80}; it is a str or a list of blocks", rule="message-shape")
    return list(content)

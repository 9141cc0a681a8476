"""The shapes that the data of an event must have, as far as readers rely on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec

from dsh_session.errors import InvalidEventError
from dsh_session.message import message_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_data(event_type: str, data: Any, seq: int | None = None, *, is_import: bool = False) -> None:
    """Refuse the data of an event whose type has a shape that readers rely on.

    These are the four types that produce messages, and ``request/header``, which requests are built with. Keys that
    are not known are carried, and so are content blocks of unknown kinds.

    Args:
        event_type: the event's type.
        data: its data, lossless JSON.
        seq: where in its log the event is, for the error.
        is_import: take the older shapes as well, which logs of early 2026-07 hold and nobody may append any more: a
            user message without id, flat assistant messages and results, a request header without its provider.

    Raises:
        InvalidEventError: ``rule`` is ``"message-shape"`` or ``"request-header"``; the reason names the place.

    Cost: O(content blocks).
    """
    shape = _SHAPES.get(event_type)
    if shape is None:
        return
    if is_import and _is_older(event_type, data):
        shape = _OLDER_SHAPES[event_type]
    try:
        _check_shape(data, shape)
        if event_type != "request/header":
            _check_content(event_type, message_of(event_type, data))
    except msgspec.ValidationError as error:
        rule = "request-header" if event_type == "request/header" else "message-shape"
        raise InvalidEventError(f"{event_type} data: {error}", rule=rule, seq=seq) from None


def _is_older(event_type: str, data: Any) -> bool:
    if type(data) is not dict:
        return False
    match event_type:
        case "user/message":
            return "id" not in data
        case "assistant/message" | "tool/result":
            return "message" not in data
        case _:
            return event_type == "request/header"


_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Block(msgspec.Struct):
    type: _Name


class _SourceShape(msgspec.Struct):
    kind: _Name


class _ModelSourceShape(msgspec.Struct):
    kind: Literal["model"]
    provider: _Name
    model: _Name


class _ToolSourceShape(msgspec.Struct):
    kind: Literal["tool"]
    callId: str  # noqa: N815 - the key on the wire


class _UserShape(msgspec.Struct):
    id: _Name
    role: Literal["user"]
    source: _SourceShape
    content: list[_Block]


class _ModelMessageShape(msgspec.Struct):
    id: _Name
    role: Literal["assistant"]
    source: _ModelSourceShape
    content: list[_Block]


class _ToolMessageShape(msgspec.Struct):
    id: _Name
    role: Literal["user"]
    source: _ToolSourceShape
    content: list[Any]


class _AssistantShape(msgspec.Struct):
    turn: _Number
    step: _Number
    message: _ModelMessageShape


class _ToolResultShape(msgspec.Struct):
    turn: _Number
    step: _Number
    message: _ToolMessageShape


class _SteeringShape(msgspec.Struct):
    turn: _Number
    message: _UserShape


class _RouteShape(msgspec.Struct):
    provider: _Name
    model: _Name


class _HeaderConfigShape(msgspec.Struct):
    config: _RouteShape


class _RequestHeaderShape(msgspec.Struct):
    header: _HeaderConfigShape


class _OlderUserShape(msgspec.Struct):
    source: _SourceShape
    content: list[_Block]


class _OlderAssistantShape(msgspec.Struct):
    turn: _Number
    step: _Number
    content: list[_Block]


class _OlderToolResultShape(msgspec.Struct):
    turn: _Number
    step: _Number
    callId: str  # noqa: N815 - the key on the wire
    content: list[_Block]
    isError: bool  # noqa: N815 - the key on the wire


class _OlderHeaderShape(msgspec.Struct):
    header: dict[str, Any]


class _TextShape(msgspec.Struct):
    text: str


class _ToolCallShape(msgspec.Struct):
    id: str
    name: str
    arguments: str


class _ResultBlockShape(msgspec.Struct):
    type: Literal["tool-result"]
    toolCallId: str  # noqa: N815 - the key on the wire
    content: list[_Block]
    isError: bool  # noqa: N815 - the key on the wire


_SHAPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "user/message": _UserShape,
    "assistant/message": _AssistantShape,
    "tool/result": _ToolResultShape,
    "steering/message": _SteeringShape,
    "request/header": _RequestHeaderShape,
}
_OLDER_SHAPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "user/message": _OlderUserShape,
    "assistant/message": _OlderAssistantShape,
    "tool/result": _OlderToolResultShape,
    "request/header": _OlderHeaderShape,
}
_BLOCK_SHAPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "text": _TextShape,
    "reasoning": _TextShape,
    "tool-call": _ToolCallShape,
}


def _check_shape(value: Any, shape: type[msgspec.Struct]) -> None:
    try:
        msgspec.convert(value, shape)
    except UnicodeEncodeError:
        # msgspec cannot compare a str that holds a lone surrogate with a key or a constant.
        msgspec.convert(_with_escapes(value), shape)


def _with_escapes(value: Any) -> Any:
    """Return the value with every lone surrogate spelled out: as long or longer, and no known key or constant."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case list():
            return [_with_escapes(item) for item in value]
        case dict():
            return {_with_escapes(key): _with_escapes(item) for key, item in value.items()}
        case _:
            return value


def _check_content(event_type: str, message: Any) -> None:
    content = message["content"]
    if event_type == "tool/result":
        if len(content) != 1:
            raise msgspec.ValidationError(f"a tool/result has one tool-result block, not {len(content)} blocks")
        _check_shape(content[0], _ResultBlockShape)
        if content[0]["toolCallId"] != message["source"]["callId"]:
            raise msgspec.ValidationError(
                f"the block's toolCallId {content[0]['toolCallId']!r} is not"
                f" the source's callId {message['source']['callId']!r}"
            )
        content = content[0]["content"]
    for block in content:
        shape = _BLOCK_SHAPES.get(block["type"])
        if shape is not None:
            _check_shape(block, shape)

"""The shapes of messages and of the data of events, as TypedDicts."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class TextBlock(TypedDict):
    """Text that somebody wrote or a tool put out."""

    type: Literal["text"]
    text: str


class ReasoningBlock(TypedDict):
    """What a model thought aloud before it answered."""

    type: Literal["reasoning"]
    text: str


class ToolCallBlock(TypedDict):
    """A model's wish to run a tool; ``arguments`` is its JSON text, unparsed."""

    type: Literal["tool-call"]
    id: str
    name: str
    arguments: str


class ToolResultBlock(TypedDict):
    """What a tool gave back for one call."""

    type: Literal["tool-result"]
    toolCallId: str
    content: list[Block]
    isError: bool


Block: TypeAlias = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock | dict[str, Any]
"""One content block. Images and kinds that nobody knows yet are carried as they are."""


class Source(TypedDict):
    """Who made a message: ``user``, ``model``, ``tool``, ``plugin``, ``session-reference`` or another kind."""

    kind: str
    plugin: NotRequired[str]


class ModelSource(TypedDict):
    """The model that made a message."""

    kind: Literal["model"]
    provider: str
    model: str


class ToolSource(TypedDict):
    """The call that a tool's message answers."""

    kind: Literal["tool"]
    callId: str


class UserMessage(TypedDict):
    """The data of a ``user/message``: what the user typed, or what a plugin said in the user's place."""

    id: str
    role: Literal["user"]
    source: Source
    content: list[Block]


class AssistantMessage(TypedDict):
    """A model's answer."""

    id: str
    role: Literal["assistant"]
    source: ModelSource
    content: list[Block]


class ToolResultMessage(TypedDict):
    """A tool's answer: exactly one tool-result block, whose ``toolCallId`` is the source's ``callId``."""

    id: str
    role: Literal["user"]
    source: ToolSource
    content: list[ToolResultBlock]


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


class AssistantMessageData(TypedDict):
    """The data of an ``assistant/message``."""

    turn: int
    step: int
    message: AssistantMessage
    usage: NotRequired[dict[str, Any]]
    interrupted: NotRequired[bool]


class ToolResultData(TypedDict):
    """The data of a ``tool/result``."""

    turn: int
    step: int
    message: ToolResultMessage
    error: NotRequired[dict[str, Any]]
    meta: NotRequired[Any]


class SteeringMessageData(TypedDict):
    """The data of a ``steering/message``: what a user says into a running turn."""

    turn: int
    message: UserMessage


class TurnData(TypedDict):
    """The data of a ``turn/start``, and of a ``turn/end`` with its reason."""

    turn: int
    reason: NotRequired[Any]


class StepData(TypedDict):
    """The data of a ``step/start`` and a ``step/end``."""

    turn: int
    step: int


class AssistantChunkData(TypedDict):
    """The data of an ``assistant/chunk``: one raw stream piece."""

    turn: int
    step: int
    chunk: dict[str, Any]


class ToolCallData(TypedDict):
    """The data of a ``tool/call``: a call that was started; ``arguments`` is the model's JSON text, unparsed."""

    turn: int
    step: int
    callId: str
    name: str
    arguments: str


class RequestHeader(TypedDict):
    """What the next request to the model is built with."""

    config: dict[str, Any]
    system: NotRequired[Any]
    tools: NotRequired[Any]


class RequestHeaderData(TypedDict):
    """The data of a ``request/header``."""

    header: RequestHeader
    reason: NotRequired[str]


class RequestContextData(TypedDict):
    """The data of a ``request/context``: the route of the next request and its window, in tokens."""

    provider: str
    model: str
    contextWindow: int

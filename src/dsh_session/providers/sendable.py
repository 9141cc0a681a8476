"""What of a session's messages can be sent to a provider: read once here, whatever the provider.

Calls have their results, images are URLs, and every text is Unicode with something to see in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

import attrs
import msgspec

from dsh_session.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Base64Image(TypedDict):
    """An image whose bytes are in the log: GIF, JPEG, PNG or WebP."""

    type: Literal["image"]
    mimeType: str
    data: str


class UrlImage(TypedDict):
    """An image at an ``https:``, ``http:`` or ``data:`` URL."""

    type: Literal["image"]
    url: str


ImageBlock: TypeAlias = Base64Image | UrlImage
"""The image blocks that can be sent. A log may hold others, such as one that names an attachment kept elsewhere."""

ImageLoader: TypeAlias = Callable[[Mapping[str, Any]], ImageBlock]
"""Gives an image that can be sent for an image block that cannot."""

OnUnsupported: TypeAlias = Literal["raise", "drop"]
"""What to do with what cannot be sent."""

FAILED_SILENTLY: Final = "The tool failed and put nothing out."
"""What stands for the output of a failed tool that has none; Anthropic refuses an error without content."""

DATA_URL: Final = re.compile(r"data:(image/(?:gif|jpeg|png|webp));base64,([A-Za-z0-9+/]+={0,2})")
"""The data URLs that every provider takes: the media type, and the data."""


class UnsupportedBlockError(SessionError, ValueError):
    """A message holds a block that cannot be sent to a provider.

    Attributes:
        kind: the block's type.
        message_id: the message's id, or None where it has none.
        reason: why it cannot be sent, and what would be right.
    """

    def __init__(self, kind: str, message_id: str | None, reason: str) -> None:
        self.kind = kind
        self.message_id = message_id
        self.reason = reason
        message = "a message without an id" if message_id is None else f"message {message_id!r}"
        super().__init__(f"{message}: a block of type {kind!r} cannot be sent: {reason}")


class UnsupportedHeaderError(SessionError, ValueError):
    """The system text or the tools of a request header have a shape that no request can be made of.

    Attributes:
        reason: what was found, where, and what would be right.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"request header: {reason}")


@attrs.frozen
class Image:
    """An image at a URL, which may hold it: then it matches `DATA_URL`."""

    url: str


@attrs.frozen
class Thought:
    """Reasoning that its provider takes back, for it has kept its signature."""

    text: str
    signature: str


Shown: TypeAlias = str | Image
"""What a user or a tool shows to the model."""


@attrs.define(eq=False)
class Call:
    """A tool call, which gets its output when its result is read."""

    id: str
    name: str
    arguments: str
    message_id: str | None
    output: Sequence[Shown] = ()
    is_error: bool = False
    is_answered: bool = False


@attrs.frozen
class Prompt:
    """What stands in the user's place."""

    content: list[Shown]


@attrs.frozen
class Answer:
    """What the model said, and what its calls gave."""

    content: list[str | Thought | Call]

    def texts(self) -> list[str]:
        """Return the texts, in order."""
        return texts_of(self.content)

    def calls(self) -> list[Call]:
        """Return the calls, in order."""
        return [part for part in self.content if isinstance(part, Call)]


class Tool(msgspec.Struct):
    """A tool that the model may call; ``parameters`` is the JSON schema of its arguments, which are an object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Header(msgspec.Struct):
    """The parts of a request header that a request is made of."""

    system: str | None = None
    tools: list[Tool] | None = None


def read_header(header: Any) -> Header:
    """Read a request header, or None before the first.

    Raises:
        UnsupportedHeaderError: its system text is no text, or its tools are no list of `Tool`.
    """
    try:
        return msgspec.convert(well_formed(header or {}), Header)
    except msgspec.ValidationError as error:
        raise UnsupportedHeaderError(str(error)) from None


def read_messages(
    messages: Iterable[Any], load_image: ImageLoader | None, on_unsupported: OnUnsupported
) -> list[Prompt | Answer]:
    """Read derived messages; each that is returned has something in it.

    Raises:
        UnsupportedBlockError: something cannot be sent, and ``on_unsupported`` is not ``"drop"``.

    Cost: O(size of the messages).
    """
    reader = _Reader(load_image, on_unsupported)
    said = [reader.read(message) for message in well_formed(list(messages))]
    for each in said:
        if isinstance(each, Answer):
            reader.leave_out_open_calls(each)
    return [each for each in said if each.content]


def texts_of(parts: Iterable[Any]) -> list[str]:
    """Return the texts among the parts of a message."""
    return [part for part in parts if isinstance(part, str)]


def well_formed(value: Any) -> Any:
    """Return a JSON value whose texts are Unicode: surrogates that make a character are joined, others are U+FFFD."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [well_formed(item) for item in value]
        case dict():
            return {well_formed(key): well_formed(item) for key, item in value.items()}
        case _:
            return value


@attrs.define
class _Reader:
    """Reads messages in order, and gives calls their results: of equal ids, the newest open call is answered first."""

    load_image: ImageLoader | None
    on_unsupported: OnUnsupported
    open_calls: dict[str, list[Call]] = attrs.field(factory=dict)

    def read(self, message: Any) -> Prompt | Answer:
        is_answer = message.get("role") == "assistant"
        return Answer(list(self._answer(message))) if is_answer else Prompt(list(self._prompt(message)))

    def leave_out_open_calls(self, answer: Answer) -> None:
        for call in answer.calls():
            if not call.is_answered:
                self._refuse("tool-call", call.message_id, f"the call {call.id!r} has no result; a request holds both")
                answer.content.remove(call)

    def _prompt(self, message: Any) -> Iterator[Shown]:
        message_id = message.get("id")
        for block in message["content"]:
            match block:
                case {"type": "tool-result", "toolCallId": str(call_id), "content": list(content)}:
                    output = list(self._shown(content, message_id))
                    self._take_result(call_id, output, message_id, is_error=block.get("isError") is True)
                case _:
                    yield from self._shown([block], message_id)

    def _answer(self, message: Any) -> Iterator[str | Thought | Call]:
        message_id = message.get("id")
        for block in message["content"]:
            match block:
                case {"type": "text", "text": str(text)}:
                    yield from _visible(text)
                case {"type": "reasoning", "text": str(text), "signature": str(signature)}:
                    yield Thought(text, signature)
                case {"type": "reasoning"}:
                    pass
                case {"type": "tool-call", "id": str(call_id), "name": str(name), "arguments": str(arguments)}:
                    call = Call(call_id, name, arguments, message_id)
                    self.open_calls.setdefault(call_id, []).append(call)
                    yield call
                case _:
                    self._refuse(block["type"], message_id, "an assistant's message holds text, reasoning and calls")

    def _take_result(self, call_id: str, output: list[Shown], message_id: str | None, *, is_error: bool) -> None:
        calls = self.open_calls.get(call_id)
        if not calls:
            self._refuse("tool-result", message_id, f"no call {call_id!r} is open before it; a request holds both")
            return
        call = calls.pop()
        call.output = output or ([FAILED_SILENTLY] if is_error else [])
        call.is_error = is_error
        call.is_answered = True

    def _shown(self, blocks: list[Any], message_id: str | None) -> Iterator[Shown]:
        for block in blocks:
            match block:
                case {"type": "text", "text": str(text)}:
                    yield from _visible(text)
                case {"type": "image"}:
                    url = _url_of(block)
                    if url is None and self.load_image is not None:
                        url = _url_of(self.load_image(block))
                    if url is None:
                        self._refuse("image", message_id, _IMAGE_RULE)
                    else:
                        yield Image(url)
                case _:
                    self._refuse(block["type"], message_id, "a user or a tool shows text and images")

    def _refuse(self, kind: str, message_id: str | None, reason: str) -> None:
        if self.on_unsupported == "raise":
            raise UnsupportedBlockError(kind, message_id, reason)


_IMAGE_RULE: Final = "it is neither a GIF, JPEG, PNG or WebP image in base64 nor at a URL; load_image may give one"


def _url_of(image: Any) -> str | None:
    """Return where a provider finds an image: at a URL, or in one; None when it finds none."""
    match image:
        case {"mimeType": str(kind), "data": str(data)}:
            url = f"data:{kind};base64,{data}"
        case {"url": str(url)}:
            pass
        case _:
            return None
    return url if url.startswith(("https://", "http://")) or DATA_URL.fullmatch(url) else None


def _visible(text: str) -> Iterator[str]:
    if text.strip():
        yield text

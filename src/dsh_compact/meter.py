"""Pricing messages and requests in tokens, without a tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_FRAME: Final = 4
"""The tokens that frame each message, block, system text and list of tools."""

_TEXTUAL: Final = ("text", "reasoning")


class Meter(Protocol):
    """What prices messages: `TokenMeter`, a tokenizer, or what a provider last reported.

    Prices are ints >= 0, and the same value always has the same price, so that one may be kept. A request costs its
    header and its messages, each by itself; a meter that goes by a provider's report puts what is left over into the
    header's price.
    """

    def estimate_message(self, message: Any) -> int:
        """Return the tokens that one message costs."""
        ...

    def estimate_header(self, header: Any) -> int:
        """Return the tokens that a request costs beside its messages; the header is None before the first."""
        ...


def count_quarters(text: str) -> int:
    """Return one token for every 4 UTF-16 units of a text, rounded up. Cost: O(text), O(1) when it is ASCII."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    return -(-units // 4)


@attrs.frozen
class TokenMeter:
    """The standard meter: every text at the price of ``count``, and 4 tokens to frame each thing that holds texts.

    Args:
        count: the tokens of a text; one for every 4 UTF-16 units unless a tokenizer is given.
    """

    count: Callable[[str], int] = count_quarters

    def estimate_message(self, message: Mapping[str, Any]) -> int:
        """Return the tokens of one message: its blocks, and 4.

        Text and reasoning cost their text; a tool call its name and its arguments, each rounded up by itself; a tool
        result its blocks; any other block its compact JSON text. Each block costs 4 more. Cost: O(size of the message).
        """
        return sum(map(self._estimate_block, message["content"])) + _FRAME

    def estimate_messages(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Return the tokens of some messages together."""
        return sum(map(self.estimate_message, messages))

    def estimate_header(self, header: Mapping[str, Any] | None) -> int:
        """Return the tokens of what a request is built with.

        Args:
            header: as in the latest ``request/header``; None before the first. Its system text and the JSON text of
                its tools are priced where they are there, each with 4 more.
        """
        parts = () if header is None else (header.get("system"), header.get("tools"))
        return sum(self._estimate_text(part) + _FRAME for part in parts if part is not None)

    def estimate_request(self, header: Mapping[str, Any] | None, messages: Iterable[Mapping[str, Any]]) -> int:
        """Return the tokens of a request: its header, None before the first, and its messages."""
        return self.estimate_header(header) + self.estimate_messages(messages)

    def _estimate_block(self, block: Any) -> int:
        # Every message of a surface passes here, and a match on mappings would take twice the time.
        kind = block.get("type")
        if kind in _TEXTUAL and "text" in block:
            return self.count(block["text"]) + _FRAME
        if kind == "tool-call" and "name" in block and "arguments" in block:
            return self.count(block["name"]) + self.count(block["arguments"]) + _FRAME
        if kind == "tool-result" and "content" in block:
            return sum(map(self._estimate_block, block["content"])) + _FRAME
        return self._estimate_text(block) + _FRAME

    def _estimate_text(self, value: Any) -> int:
        """Price a text as it is, and any other value by its compact JSON text, where a lone surrogate is an escape."""
        if isinstance(value, str):
            return self.count(value)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return self.count(text.encode("utf-8", "backslashreplace").decode("utf-8"))

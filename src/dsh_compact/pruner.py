"""Shortening oversized tool results for the model, without a model.

A result whose text exceeds a threshold becomes its head, a marker, and its tail. The log keeps the full result, and
so does the human's transcript: the copy is one replacement of one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dsh_compact.errors import InvalidArgumentError
from dsh_compact.meter import TokenMeter
from dsh_session import Replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_compact.meter import Meter
    from dsh_session import Session, SessionEvent

PRUNE_MARKER: Final = "\n\n[... middle of output left out ...]\n\n"
"""What stands where text was taken out."""


def _check_chars(_: Any, attribute: attrs.Attribute[int], value: Any) -> None:
    if type(value) is not int or value < 0:
        raise InvalidArgumentError(attribute.name, f"{value!r} found; a number of characters is an int >= 0")


@attrs.frozen
class ToolResultPruner:
    """Shortens tool results whose text is longer than a threshold. Characters are Unicode code points.

    Args:
        threshold_chars: the longest text that stays as it is.
        head_chars: how much to keep of the beginning.
        tail_chars: how much to keep of the end.
        meter: prices what a pruned result takes off the surface.

    Raises:
        InvalidArgumentError: a number is no int >= 0, or head, marker and tail together exceed the threshold, so that
            a result could grow, or be pruned again and again.
    """

    threshold_chars: int = attrs.field(default=8192, validator=_check_chars)
    head_chars: int = attrs.field(default=4096, validator=_check_chars)
    tail_chars: int = attrs.field(default=1024, validator=_check_chars)
    meter: Meter = attrs.field(factory=TokenMeter, kw_only=True)

    def __attrs_post_init__(self) -> None:
        shortened = self.head_chars + len(PRUNE_MARKER) + self.tail_chars
        if shortened > self.threshold_chars:
            raise InvalidArgumentError(
                "threshold_chars",
                f"{self.threshold_chars} found; head, marker and tail take {shortened}, and it is at least that",
            )

    def measure_content(self, blocks: Iterable[Any]) -> int:
        """Return how many characters the text blocks hold together; no other block counts."""
        return sum(len(block["text"]) for block in blocks if block["type"] == "text")

    def prune_content(self, blocks: Sequence[Any]) -> list[Any] | None:
        """Shorten the text of a result's blocks.

        The blocks' texts are one text that is parted: its head and its tail stay in their blocks, the marker stands
        where the head ends, and a text block that is left with nothing goes. All other blocks keep their places.

        Args:
            blocks: the content of a tool-result block. It is not changed.

        Returns:
            The new content, or None when the text does not exceed the threshold.

        Cost: O(size of the blocks).
        """
        total = self.measure_content(blocks)
        if total <= self.threshold_chars:
            return None
        pruned = []
        start = 0
        for block in blocks:
            if block["type"] != "text":
                pruned.append(block)
                continue
            text = block["text"]
            head_end = max(self.head_chars - start, 0)
            tail_start = max(total - self.tail_chars - start, 0)
            marker = PRUNE_MARKER if 0 <= self.head_chars - start < len(text) else ""
            kept = text[:head_end] + marker + text[tail_start:]
            if kept:
                pruned.append({**block, "text": kept})
            start += len(text)
        return pruned

    def prune(self, session: Session) -> list[SessionEvent]:
        """Prune every current tool result of a session, in surface order.

        Each is priced by a ``compact/prune`` and replaced directly after it. Running it again finds nothing to do.

        Returns:
            The replacements that landed.

        Cost: O(nodes + size of the results that may exceed the threshold).
        """
        return [
            landed
            for event in session.surface_events()
            if event.type == "tool/result" and (landed := self._prune_result(session, event)) is not None
        ]

    def _prune_result(self, session: Session, event: SessionEvent) -> SessionEvent | None:
        if len(event.encoded_data) <= self.threshold_chars:
            return None
        data = event.data
        message = data.get("message")
        # A flat result of an older log stays: its copy would have to be flat, and no session appends that shape.
        if message is None:
            return None
        block = message["content"][0]
        content = self.prune_content(block["content"])
        if content is None:
            return None
        record = {
            "shadowedRange": {"start": event.seq, "end": event.seq},
            "shadowedSeqs": [event.seq],
            "shadowedTokenCount": self.meter.estimate_message(message),
        }
        session.append("compact/prune", record)
        block["content"] = content
        return session.append("tool/result", data, Replace(event.seq, event.seq), [event.seq])

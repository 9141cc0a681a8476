"""Title and counts: what a list of sessions shows of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dsh_compact import is_compact_checkpoint
from dsh_session import SURFACE_EVENT_TYPES, is_append_surface_event, lossless_json, message_of, topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_session import SessionEvent

_COUNTED: Final[Mapping[str, str]] = {"turn/start": "turns", "step/start": "steps", "tool/call": "tool_calls"}


@attrs.frozen
class Counts:
    """What was counted in a log.

    Attributes:
        title: the newest title, or None.
        turns: how many turns began.
        steps: how many steps began.
        tool_calls: how many tool calls were started.
        tool_errors: how many tool results are errors.
        user_messages: how many messages the user sent, steering included.
        assistant_messages: how many messages the model answered.
        compactions: how many checkpoints landed.
        tokens: what providers reported, added up by name, such as ``inputTokens``, as far as 64 bits go.
        first_time: the time of the first event that was counted, in Unix milliseconds, or None.
        last_time: the time of the last one.
    """

    title: str | None = None
    turns: int = 0
    steps: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    user_messages: int = 0
    assistant_messages: int = 0
    compactions: int = 0
    tokens: Mapping[str, int] = attrs.Factory(dict)
    first_time: int | None = None
    last_time: int | None = None


_TOPICS: Final = (
    topics("append", SURFACE_EVENT_TYPES)
    | topics("replace", ("user/message",))
    | topics("log", (*_COUNTED, "session/title"))
)


class SessionCounts:
    """The counts of one session. What was said counts once, however often it was copied for the model."""

    version = 1
    topics: frozenset[str] | None = _TOPICS

    def __init__(self) -> None:
        self._counts = Counts()

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event. Cost: O(size of the event)."""
        changes = self._changes(event)
        if changes is not None:
            first = event.time if self._counts.first_time is None else self._counts.first_time
            self._counts = attrs.evolve(self._counts, first_time=first, last_time=event.time, **changes)

    def view(self) -> Counts:
        """Return the counts."""
        return self._counts

    def state(self) -> Any:
        """Return the counts as a JSON value."""
        return attrs.asdict(self._counts)

    def restore(self, state: Any) -> None:
        """Take on the counts of a state."""
        self._counts = Counts(**state)

    def _changes(self, event: SessionEvent) -> dict[str, Any] | None:
        """Return what an event changes, or None when it is not for this reader."""
        counts = self._counts
        if is_append_surface_event(event):
            return self._said(event)
        match event.type:
            case "session/title":
                title = event.data.get("title") if isinstance(event.data, dict) else None
                return {"title": title if isinstance(title, str) else counts.title}
            case kind if kind in _COUNTED:
                return {_COUNTED[kind]: getattr(counts, _COUNTED[kind]) + 1}
            case _ if is_compact_checkpoint(event):
                return {"compactions": counts.compactions + 1}
            case _:
                return None

    def _said(self, event: SessionEvent) -> dict[str, Any]:
        counts = self._counts
        data = event.data
        message = message_of(event.type, data)
        match event.type:
            case "assistant/message":
                return {
                    "assistant_messages": counts.assistant_messages + 1,
                    "tokens": _added(counts.tokens, data.get("usage")),
                }
            case "tool/result":
                return {"tool_errors": counts.tool_errors + (message["content"][0]["isError"] is True)}
            case _:
                return {"user_messages": counts.user_messages + (message["source"]["kind"] == "user")}


def _added(tokens: Mapping[str, int], usage: Any) -> dict[str, int]:
    total = dict(tokens)
    if isinstance(usage, dict):
        for name, count in usage.items():
            if type(count) is int and count >= 0:
                total[name] = min(total.get(name, 0) + count, lossless_json.INT_MAX)
    return total

"""What is open at the end of a log: its turn, its step and its tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dsh_session import lossless_json
from dsh_session.event import APPEND, SessionEvent
from dsh_session.message import message_of, tool_calls_of, tool_result_message

if TYPE_CHECKING:
    from dsh_session.event import Append

_NOT_STARTED = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}

_OUTCOME_UNKNOWN = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}

NOT_STARTED_TEXT: Final = (
    "This tool call was never started: the session was interrupted before it ran. It had no effect and may be retried."
)

OUTCOME_UNKNOWN_TEXT: Final = (
    "The session was interrupted while this tool call was running, and its outcome is unknown. It may have run to its"
    " end, in part, or not at all. Check the present state before you decide whether to run it again; do not assume"
    " that it failed, and do not simply repeat it."
)


@attrs.define
class OpenCall:
    """A tool call that the open step asked for.

    Attributes:
        step: the step that asked.
        started_seq: the ``tool/call`` event that recorded its start, or None.
        is_answered: whether it has its result.
    """

    step: Any
    started_seq: int | None = None
    is_answered: bool = False


@attrs.define
class OpenTurn:
    """What is open at the end of a log: the turn, its step, and the calls of that step.

    Attributes:
        turn: the number of the open turn, or None between turns.
        step: the number of the open step, or None between steps.
        calls: by call id, in the order in which they were first asked for.
    """

    turn: Any = None
    step: Any = None
    calls: dict[str, OpenCall] = attrs.Factory(dict)

    @property
    def unanswered(self) -> list[str]:
        """The ids of the calls that have no result yet."""
        return [call_id for call_id, call in self.calls.items() if not call.is_answered]

    def state(self) -> list[Any]:
        """Return turn, step and calls as a lossless JSON value."""
        return [self.turn, self.step, [[call_id, *attrs.astuple(call)] for call_id, call in self.calls.items()]]

    @classmethod
    def restore(cls, state: list[Any]) -> OpenTurn:
        """Make what a state was read from."""
        turn, step, calls = state
        return cls(turn, step, {call_id: OpenCall(*call) for call_id, *call in calls})

    def apply(self, event_type: str, seq: int, data: Any) -> None:
        """Take in the next event. Outside a turn only a ``turn/start`` opens anything. Cost: O(content blocks)."""
        match event_type, data:
            case "turn/start", {"turn": int(turn)} if _is_number(turn):
                self.turn, self.step, self.calls = turn, None, {}
            case _ if self.turn is None:
                pass
            case "turn/end", _:
                self.turn, self.step, self.calls = None, None, {}
            case "step/start", {"step": int(step)} if _is_number(step):
                self.step = step
            case "step/end", _:
                self.step, self.calls = None, {}
            case "assistant/message", {"step": step}:
                for block in tool_calls_of(message_of(event_type, data)):
                    self.calls[block["id"]] = OpenCall(step)
            case "tool/call", {"callId": str() as call_id} if call_id in self.calls:
                self.calls[call_id].started_seq = seq
            case "tool/result", _:
                call = self.calls.get(message_of(event_type, data)["source"]["callId"])
                if call is not None:
                    call.is_answered = True
            case _:
                pass

    def repair_events(self, session_id: str, next_seq: int, time: int) -> list[SessionEvent]:
        """Return the events that close what is open.

        Args:
            session_id: the session that they are for.
            next_seq: the seq of the first of them.
            time: the time of the last event of the log, in Unix milliseconds.

        Returns:
            An error ``tool/result`` for each unanswered call, then the ``step/end`` and the ``turn/end``; nothing
            between turns.
        """
        if self.turn is None:
            return []
        repairs: list[SessionEvent] = []

        def close(event_type: str, data: Any, marker: Append | None = None, sources: Any = None) -> None:
            encoded = lossless_json.encode(data)
            seq = next_seq + len(repairs)
            repairs.append(SessionEvent(session_id, seq, time, event_type, encoded, marker, sources))

        for call_id in self.unanswered:
            call = self.calls[call_id]
            is_started = call.started_seq is not None
            data = tool_result_message(
                call_id,
                OUTCOME_UNKNOWN_TEXT if is_started else NOT_STARTED_TEXT,
                turn=self.turn,
                step=call.step,
                is_error=True,
                error=_OUTCOME_UNKNOWN if is_started else _NOT_STARTED,
                message_id=f"interrupted-tool-result-{call_id}-{next_seq + len(repairs)}",
            )
            close("tool/result", data, APPEND, (call.started_seq,) if is_started else None)
        if self.step is not None:
            close("step/end", {"turn": self.turn, "step": self.step})
        close("turn/end", {"turn": self.turn, "reason": {"kind": "interrupted"}})
        return repairs


def _is_number(value: int) -> bool:
    """Tell whether a turn or a step is one that a repair event can carry."""
    return type(value) is int and value >= 0

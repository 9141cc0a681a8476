"""The events that are measured: the steps of a coding agent, made without randomness."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from dsh_session import APPEND, Replace, assistant_message, tool_result_message, user_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_session import Session

SENTENCE = "The filter compares the day with the first day of the next month, so the end is left out. "
Candidate = tuple[str, Any, Any]


def agent_steps(count: int, *, result_chars: int = 6_000, chunks: int = 0) -> list[Candidate]:
    """Return type, data and marker of the events of agent steps: an answer, a call, its result, the boundaries.

    A user speaks at every tenth step. ``chunks`` is how many stream pieces each answer came in.
    """
    return list(islice(_steps(result_chars, chunks), count))


def _steps(result_chars: int, chunks: int) -> Iterator[Candidate]:
    route = {"provider": "example", "model": "example-large"}
    text = SENTENCE * 8
    result = (SENTENCE * (result_chars // len(SENTENCE) + 1))[:result_chars]
    arguments = '{"command": "python -m pytest -q tests/test_filter.py", "timeout": 120}'
    for step in range(1 << 60):
        if step % 10 == 0:
            yield "user/message", user_message(SENTENCE * 4, message_id=f"u{step}"), APPEND
        yield "step/start", {"turn": 1, "step": step}, None
        for index in range(chunks):
            chunk = {"type": "text-delta", "index": 0, "text": f" word{index}"}
            yield "assistant/chunk", {"turn": 1, "step": step, "chunk": chunk}, None
        call = {"type": "tool-call", "id": f"call-{step}", "name": "run", "arguments": arguments}
        content = [{"type": "text", "text": text}, call]
        usage = {"inputTokens": 9_000, "outputTokens": 150}
        yield (
            "assistant/message",
            assistant_message(content, turn=1, step=step, usage=usage, message_id=f"a{step}", **route),
            APPEND,
        )
        record = {"turn": 1, "step": step, "callId": f"call-{step}", "name": "run", "arguments": arguments}
        yield "tool/call", record, None
        yield (
            "tool/result",
            tool_result_message(f"call-{step}", result, turn=1, step=step, message_id=f"r{step}"),
            APPEND,
        )
        yield "step/end", {"turn": 1, "step": step}, None


def append_all(session: Session, candidates: list[Candidate]) -> None:
    """Append every candidate."""
    for event_type, data, marker in candidates:
        session.append(event_type, data, marker)


def compacted_log(session: Session, length: int, *, surface: int = 200, save: Any = None, batch: int = 1000) -> None:
    """Bring a session to a length whose surface never exceeds a number of nodes, since it is compacted in time."""
    for event_type, data, marker in cycle(agent_steps(5_000, result_chars=400, chunks=12)):
        if session.next_seq >= length:
            break
        session.append(event_type, data, marker)
        if len(session.surface) >= surface:
            nodes = session.surface.nodes[: surface // 2]
            session.append("user/message", user_message("checkpoint"), Replace(nodes[0], nodes[-1]), nodes)
        if save is not None and len(session.pending) >= batch:
            save(session)
    if save is not None:
        save(session)

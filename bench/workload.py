"""The events that are measured: the steps of a coding agent, made without randomness."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from dsh_compact import begin_compaction
from dsh_session import APPEND, assistant_message, tool_result_message, user_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dsh_session import Session

Candidate = tuple[str, Any, Any]

SENTENCE: Final = "The filter compares the day with the first day of the next month, so the end is left out. "
COMPACTED_AT: Final = 600
"""A long log is compacted when its surface has so many nodes, which is every 3,300 events."""
COMPACTED_TO: Final = 200
"""How many nodes a compaction leaves."""
TAIL: Final = 100
"""How many events of a long log are behind its newest snapshot, whatever its length."""
BATCH: Final = 1000
_STRIDE: Final = 10


def agent_steps(count: int, *, result_chars: int = 600, chunks: int = 0) -> list[Candidate]:
    """Return type, data and marker of the events of agent steps: an answer, a call, its result, the boundaries.

    A user speaks at every tenth step. ``chunks`` is how many stream pieces each answer came in.
    """
    return list(islice(_steps(result_chars, chunks), count))


def topic(candidate: Candidate) -> str:
    """Return the topic that an event is stored under."""
    event_type, _, marker = candidate
    return f"{'append' if marker is APPEND else 'log'}:{event_type}"


def in_batches(candidates: list[Candidate], size: int) -> list[list[Candidate]]:
    """Cut candidates into batches."""
    return [candidates[start : start + size] for start in range(0, len(candidates), size)]


def append_all(session: Session, candidates: Iterable[Candidate]) -> None:
    """Append every candidate."""
    for event_type, data, marker in candidates:
        session.append(event_type, data, marker)


def write_long_log(session: Session, length: int, save: Callable[[Session], object]) -> None:
    """Bring a session to about a length: streamed answers, compacted as a harness would.

    The last save but one is large enough for a snapshot, and the last one is `TAIL` events and too small for one.
    """
    steps = _steps(result_chars=400, chunks=12)
    while (left := length - TAIL - session.next_seq) > 0:
        append_all(session, islice(steps, _STRIDE))
        if len(session.surface) >= COMPACTED_AT:
            _compact(session)
        if len(session.pending) >= BATCH and left > BATCH:
            save(session)
    if len(session.surface) > COMPACTED_TO:
        _compact(session)
    save(session)
    append_all(session, islice(steps, TAIL))
    save(session)


def _compact(session: Session) -> None:
    nodes = session.surface_events()
    answered = [node.seq for node in nodes[:-COMPACTED_TO] if node.type == "tool/result"]
    compaction_id = f"compaction-{session.next_seq}"
    with begin_compaction(session, nodes[0].seq, answered[-1], compaction_id=compaction_id) as compaction:
        compaction.commit(SENTENCE * 20)


def _steps(result_chars: int, chunks: int) -> Iterator[Candidate]:
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
        content: list[Any] = [{"type": "text", "text": text}, call]
        usage = {"inputTokens": 9_000, "outputTokens": 150}
        yield (
            "assistant/message",
            assistant_message(
                content,
                turn=1,
                step=step,
                provider="example",
                model="example-large",
                usage=usage,
                message_id=f"a{step}",
            ),
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

"""Hypothesis strategies for the logs of long sessions: compacted again and again, pruned, and out of line."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hypothesis import strategies as st

from dsh_compact import COMPACT_CHECKPOINT_SOURCE, compact_checkpoint_source
from dsh_session import APPEND, Replace, assistant_message, message_of, tool_result_message, user_message
from dsh_session.testing import log_moves, logs

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from dsh_session import SessionEvent
    from dsh_session.testing import LogBuilder, Move

T = TypeVar("T")

FRAME: Final = "<checkpoint>"
"""What the text of every checkpoint begins with, and no other text of these logs holds."""

_TEXTS: Final = ("", "what went before", "torn \ud83d", "größe 😀")


def session_logs(*, max_moves: int = 24) -> SearchStrategy[list[SessionEvent]]:
    """Give a valid log, cut short anywhere, in which everything happens that a reader may meet.

    Args:
        max_moves: how many moves are made at most, out of `session_moves`.
    """
    return logs(session_moves(), max_moves=max_moves)


def session_moves() -> SearchStrategy[Move]:
    """Give one move of any kind: an ordinary one, an irregular one, or, twice as often as by chance, a compaction."""
    return st.one_of(log_moves(), irregular_moves(), compaction_moves(), compaction_moves())


def compaction_moves() -> SearchStrategy[Move]:
    """Give an attempt to compact a range, in either spelling of its records, or to prune a result.

    An attempt lands, fails before or after its summary, or is left open by a crash; something may be said meanwhile.
    Its bracket stays within the turn, and its checkpoint cites start, summary and every node that it shadows.
    """
    at = st.integers(0, 12)
    return st.one_of(
        st.builds(
            partial,
            st.just(_compact),
            at=at,
            span=st.sampled_from([1, 2, 5, 1000]),
            spelling=st.sampled_from(["compact", "compaction"]),
            outcome=st.sampled_from(["landed", "landed", "landed", "refused", "failed", "crashed"]),
            texts=st.lists(st.sampled_from(_TEXTS), max_size=2),
            command=st.none() | st.just("k1"),
            is_interleaved=st.booleans(),
        ),
        st.builds(partial, st.just(_prune), at=at, spelling=st.sampled_from(["compact", "compaction"])),
    )


def irregular_moves() -> SearchStrategy[Move]:
    """Give a move that readers must bear: a call id used again, a second result, a cut stream, an older flat shape."""
    at = st.integers(0, 12)
    return st.one_of(
        st.builds(partial, st.just(_ask_again), at=at, is_twice=st.booleans(), is_interrupted=st.booleans()),
        st.builds(partial, st.just(_answer_again), at=at, is_error=st.booleans()),
        st.builds(partial, st.just(_say_flat), text=st.sampled_from(_TEXTS)),
        st.builds(partial, st.just(_ask_flat), text=st.sampled_from(_TEXTS)),
    )


def _compact(
    log: LogBuilder,
    *,
    at: int,
    span: int,
    spelling: str,
    outcome: str,
    texts: list[str],
    command: str | None,
    is_interleaved: bool,
) -> None:
    if not log.nodes:
        return
    first = at % len(log.nodes)
    shadowed = log.nodes[first : first + span]
    source: Any = compact_checkpoint_source(f"c{len(log.events)}", command)
    ids = {key: value for key, value in source.items() if key not in COMPACT_CHECKPOINT_SOURCE}
    bracket = {**ids, "turn": _open_turn(log)}
    start = log.append(f"{spelling}/start", bracket)
    if is_interleaved:
        log.append("user/message", user_message("meanwhile", message_id=f"m{len(log.events)}"), APPEND)
    if outcome == "crashed":
        log.append("session/end-seed", {})
        return
    error = {"error": {"name": "SomeError"}}
    if outcome == "failed":
        log.append(f"{spelling}/end", bracket | error)
        return
    blocks: list[Any] = [{"type": "text", "text": text} for text in texts]
    record = {
        **ids,
        "summary": blocks,
        "shadowedRange": {"start": shadowed[0], "end": shadowed[-1]},
        "shadowedSeqs": list(shadowed),
        "shadowedTokenCount": 7 * len(shadowed),
        "provider": "p",
        "model": "m",
    }
    summary = log.append(f"{spelling}/summary", record)
    if outcome == "refused":
        log.append(f"{spelling}/end", bracket | error)
        return
    framed: list[Any] = [{"type": "text", "text": FRAME}, *blocks]
    log.append(
        "user/message",
        user_message(framed, source=source, message_id=f"m{len(log.events)}"),
        Replace(shadowed[0], shadowed[-1]),
        [start.seq, summary.seq, *shadowed],
    )
    log.append(f"{spelling}/end", bracket)


def _prune(log: LogBuilder, at: int, spelling: str) -> None:
    results = [seq for seq in log.nodes if log.events[seq].type == "tool/result"]
    for seq in _pick(results, at):
        record = {"shadowedRange": {"start": seq, "end": seq}, "shadowedSeqs": [seq], "shadowedTokenCount": 7}
        log.append(f"{spelling}/prune", record)
        data = log.events[seq].data
        data["message"]["content"][0]["content"] = [{"type": "text", "text": "pruned"}]
        log.replace("tool/result", data, seq, seq)


def _ask_again(log: LogBuilder, at: int, is_twice: bool, is_interrupted: bool) -> None:
    for call_id in _pick(_asked(log), at):
        calls: list[Any] = [_call(call_id, "again"), _call(call_id, "twice")]
        message_id = f"m{len(log.events)}"
        data = assistant_message(
            calls[: 1 + is_twice],
            turn=1,
            step=1,
            provider="p",
            model="m",
            interrupted=is_interrupted,
            message_id=message_id,
        )
        log.append("assistant/message", data, APPEND)


def _answer_again(log: LogBuilder, at: int, is_error: bool) -> None:
    for call_id in _pick(_asked(log), at):
        data = tool_result_message(
            call_id, "again", turn=1, step=1, is_error=is_error, message_id=f"m{len(log.events)}"
        )
        log.append("tool/result", data, APPEND)


def _say_flat(log: LogBuilder, text: str) -> None:
    data = {"role": "user", "source": {"kind": "user"}, "content": [{"type": "text", "text": text}]}
    log.append("user/message", data, APPEND)


def _ask_flat(log: LogBuilder, text: str) -> None:
    content = [{"type": "text", "text": text}, _call(f"call-{len(log.events)}", "flat")]
    log.append("assistant/message", {"turn": 1, "step": 1, "content": content}, APPEND)


def _call(call_id: str, name: str) -> Any:
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": "{}"}


def _asked(log: LogBuilder) -> list[str]:
    """Every call id that was ever asked for, answered or not, in the order of first asking."""
    answers = [message_of(event.type, event.data) for event in log.events if event.type == "assistant/message"]
    blocks = [block for answer in answers for block in answer["content"]]
    return list(dict.fromkeys(block["id"] for block in blocks if block["type"] == "tool-call"))


def _open_turn(log: LogBuilder) -> int | None:
    boundaries = [event for event in log.events if event.type in {"turn/start", "turn/end"}]
    turn: int | None = boundaries[-1].data["turn"] if boundaries and boundaries[-1].type == "turn/start" else None
    return turn


def _pick(items: list[T], at: int) -> list[T]:
    """Return the item at a place that is counted round and round, or none of none."""
    return [items[at % len(items)]] if items else []

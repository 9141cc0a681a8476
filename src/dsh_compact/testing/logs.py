"""Hypothesis strategies for the logs of long sessions: worth compacting, compacted again and again, pruned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hypothesis import strategies as st

from dsh_compact.checkpoint import COMPACT_CHECKPOINT_SOURCE, compact_checkpoint_source
from dsh_session import APPEND, Replace, assistant_message, tool_result_message, user_message
from dsh_session.testing import LogBuilder, irregular_moves, log_moves, logs

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from dsh_session import SessionEvent
    from dsh_session.testing import Move

T = TypeVar("T")

FRAME: Final = "<checkpoint>"
"""What the text of every checkpoint begins with, and no other text of these logs holds."""

_TEXTS: Final = ("", "what went before", "torn \ud83d", "größe 😀")
_SPANS: Final = st.sampled_from([1, 2, 5, 1000])
_SPELLINGS: Final = st.sampled_from(["compact", "compaction"])


def session_logs(*, max_moves: int = 24) -> SearchStrategy[list[SessionEvent]]:
    """Give a valid log, cut short anywhere, in which everything happens that a reader may meet.

    Args:
        max_moves: how many moves are made at most, out of `session_moves`.
    """
    return logs(session_moves(), max_moves=max_moves)


def session_moves() -> SearchStrategy[Move]:
    """Give one move of any kind: an ordinary one, an irregular one, or, twice as often as by chance, a compaction."""
    return st.one_of(log_moves(), irregular_moves(), compaction_moves(), compaction_moves())


@st.composite
def worked_logs(  # noqa: D417 - Hypothesis passes draw
    draw: DrawFn, *, max_moves: int = 12
) -> list[SessionEvent]:
    """Give the log of a session that has something to compact: long work at its head, and anything behind it.

    Args:
        max_moves: how many moves are made at most, out of `long_moves` and those of `dsh_session.testing.log_moves`.
    """
    log = LogBuilder()
    head = st.lists(long_moves(), min_size=2, max_size=max(max_moves // 2, 2))
    for move in draw(head) + draw(st.lists(log_moves() | long_moves(is_done=False), max_size=max_moves // 2)):
        move(log)
    return log.events


def long_moves(*, is_done: bool = True) -> SearchStrategy[Move]:
    """Give a long message of the user, or a round of tool calls whose results come in any order.

    Args:
        is_done: whether every call has its result; otherwise the last may be still to come.
    """
    size = st.sampled_from([300, 3000, 10])
    return st.one_of(
        st.builds(partial, st.just(_say_much), size=size),
        st.builds(
            partial,
            st.just(_work),
            sizes=st.lists(size, min_size=1, max_size=3),
            order=st.permutations(range(3)),
            is_left_open=st.just(False) if is_done else st.booleans(),
        ),
    )


@st.composite
def compacted_logs(draw: DrawFn, *, max_moves: int = 16) -> list[SessionEvent]:  # noqa: D417 - Hypothesis passes draw
    """Give a log in which a compaction has landed, and most often others, of its checkpoint too.

    So a reader meets checkpoints that stand for checkpoints, at the head, in the middle, and with a seq above those of
    the nodes behind them; and, with them, attempts that failed, were left open by a crash, or only pruned.

    Args:
        max_moves: how many moves are made at most besides, out of `compaction_moves`, `long_moves` and those of
            `dsh_session.testing.log_moves`.
    """
    log = LogBuilder()
    for move in draw(st.lists(long_moves(), min_size=1, max_size=2)):
        move(log)
    _compact(
        log,
        at=0,
        span=draw(_SPANS),
        spelling=draw(_SPELLINGS),
        outcome="landed",
        texts=["what went before"],
        command=None,
        is_interleaved=draw(st.booleans()),
    )
    moves = st.one_of(compaction_moves(), compaction_moves(), long_moves(), log_moves())
    for move in draw(st.lists(moves, max_size=max_moves)):
        move(log)
    return log.events


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
            span=_SPANS,
            spelling=_SPELLINGS,
            outcome=st.sampled_from(["landed", "landed", "landed", "refused", "failed", "crashed"]),
            texts=st.lists(st.sampled_from(_TEXTS), max_size=2),
            command=st.none() | st.just("k1"),
            is_interleaved=st.booleans(),
        ),
        st.builds(partial, st.just(_prune), at=at, spelling=_SPELLINGS),
    )


def _say_much(log: LogBuilder, size: int) -> None:
    log.append("user/message", user_message("word " * (size // 5), message_id=f"m{len(log.events)}"), APPEND)


def _work(log: LogBuilder, sizes: list[int], order: list[int], is_left_open: bool) -> None:
    """Ask for as many calls as there are sizes, and answer them in an order, all or all but the last."""
    place: Any = {"turn": 1, "step": 1}
    asked = len(log.events)
    calls: list[Any] = [
        {"type": "tool-call", "id": f"work-{asked}-{index}", "name": "run", "arguments": "{}"}
        for index in range(len(sizes))
    ]
    data = assistant_message(calls, provider="p", model="m", message_id=f"m{asked}", **place)
    log.append("assistant/message", data, APPEND)
    answered = [index for index in order if index < len(sizes)]
    for index in answered[: len(answered) - is_left_open]:
        text = "line\n" * (sizes[index] // 5)
        data_of_result = tool_result_message(calls[index]["id"], text, message_id=f"m{len(log.events)}", **place)
        log.append("tool/result", data_of_result, APPEND)


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


def _open_turn(log: LogBuilder) -> int | None:
    boundaries = [event for event in log.events if event.type in {"turn/start", "turn/end"}]
    turn: int | None = boundaries[-1].data["turn"] if boundaries and boundaries[-1].type == "turn/start" else None
    return turn


def _pick(items: list[T], at: int) -> list[T]:
    """Return the item at a place that is counted round and round, or none of none."""
    return [items[at % len(items)]] if items else []

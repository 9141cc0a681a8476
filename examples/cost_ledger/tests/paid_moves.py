"""What may happen to a log that a ledger must tell apart: answers that are paid for, copies, and summaries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from dsh_projections.testing import session_moves
from dsh_session import APPEND, assistant_message
from dsh_session.testing import logs

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from dsh_session import SessionEvent
    from dsh_session.testing import LogBuilder, Move

MODELS = [("example", "large"), ("example", "small"), ("example", "new"), ("other", "large")]


def paid_logs() -> SearchStrategy[list[SessionEvent]]:
    """Give a log in which everything happens that a reader may meet, and much of it is paid for."""
    return logs(paid_moves() | session_moves(), max_moves=16)


def paid_moves() -> SearchStrategy[Move]:
    """Give an answer with usage, also in the older flat shape; a copy of one; a summary; another model for requests."""
    model, usage = st.sampled_from(MODELS), usages()
    return st.one_of(
        st.builds(partial, st.just(answer), model=model, usage=usage),
        st.builds(partial, st.just(answer_flat), usage=usage),
        st.builds(partial, st.just(copy_last_answer)),
        st.builds(
            partial,
            st.just(summarise),
            spelling=st.sampled_from(["compact", "compaction"]),
            record=st.builds(
                lambda model, usage: {"provider": model[0], "model": model[1], "usage": usage}, model, usage
            )
            | st.sampled_from([None, {}, {"usage": {"inputTokens": 1}}]),
        ),
        st.builds(partial, st.just(ask), model=model),
    )


def usages() -> SearchStrategy[Any]:
    """Give what providers report, from nothing to more than 64 bits can add up, and what is no count."""
    counts = st.sampled_from([0, 1, 999_999, 2**63 - 1, -1, True, 1.5, "7", None])
    names = st.sampled_from(["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"])
    return st.dictionaries(names, counts, max_size=3) | st.none()


def answer(log: LogBuilder, model: tuple[str, str], usage: Any) -> SessionEvent:
    """Let a model answer."""
    place = {"turn": turn_of(log), "step": 1, "message_id": f"m{len(log.events)}"}
    data = assistant_message("yes", provider=model[0], model=model[1], usage=usage, **place)
    return log.append("assistant/message", data, APPEND)


def answer_flat(log: LogBuilder, usage: Any) -> None:
    """Let a model answer in the shape of early logs, which does not say whose answer it is."""
    content = [{"type": "text", "text": "yes"}]
    log.append("assistant/message", {"turn": turn_of(log), "step": 1, "content": content, "usage": usage}, APPEND)


def copy_last_answer(log: LogBuilder) -> None:
    """Put a copy in the place of the newest answer, its usage and all."""
    for seq in [seq for seq in log.nodes if log.events[seq].type == "assistant/message"][-1:]:
        log.replace("assistant/message", log.events[seq].data, seq, seq)


def summarise(log: LogBuilder, spelling: str, record: Any) -> SessionEvent:
    """Have a summary written."""
    return log.append(f"{spelling}/summary", record)


def ask(log: LogBuilder, model: tuple[str, str]) -> None:
    """Send the requests to another model from here on."""
    config = {"provider": model[0], "model": model[1]}
    log.append("request/header", {"header": {"config": config}, "reason": "change"})


def turn_of(log: LogBuilder) -> int:
    """Return the newest turn, counted from 1; 0 before the first."""
    return [event.type for event in log.events].count("turn/start")

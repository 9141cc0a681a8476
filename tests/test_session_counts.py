from __future__ import annotations

from typing import Any

from dsh_compact import compact_checkpoint_source
from dsh_projections import Counts, SessionCounts, replay
from dsh_session import APPEND, Replace, assistant_message, tool_result_message, user_message
from dsh_session.testing import LogBuilder

ROUTE: Any = {"turn": 1, "step": 1, "provider": "p", "model": "m"}


def test_everything_that_was_said_counts_once() -> None:
    """Turns, steps, calls, errors, messages, compactions and reported tokens are counted; copies are not."""
    log = LogBuilder()
    log.append("session/title", {"title": "first"})
    log.append("turn/start", {"turn": 1})
    log.append("step/start", {"turn": 1, "step": 1})
    said = log.append("user/message", user_message("hello"), APPEND)
    log.append("user/message", user_message("notes", source={"kind": "plugin", "plugin": "n"}), APPEND)
    usage = {"inputTokens": 10, "outputTokens": 2, "cost": 0.5}
    answer = log.append("assistant/message", assistant_message("hi", usage=usage, **ROUTE), APPEND)
    log.append("assistant/message", assistant_message("again", usage={"inputTokens": 5}, **ROUTE), APPEND)
    log.append("assistant/message", assistant_message("copy", usage=usage, **ROUTE), Replace(5, 5), [answer.seq])
    log.append("tool/call", {"turn": 1, "step": 1, "callId": "c", "name": "run", "arguments": "{}"})
    log.append("tool/result", tool_result_message("c", "no", turn=1, step=1, is_error=True), APPEND)
    log.append("tool/result", tool_result_message("c", "yes", turn=1, step=1), APPEND)
    log.append("steering/message", {"turn": 1, "message": user_message("wait")}, APPEND)
    checkpoint: Any = compact_checkpoint_source("x")
    log.append("user/message", user_message("c", source=checkpoint), Replace(3, 3), [said.seq])
    log.append("user/message", user_message("edited"), Replace(4, 4), [4])
    log.append("session/title", {"title": "second"})
    log.append("session/title", {"title": 3})
    log.append("session/title", "no title")
    last = log.events[-1].time
    log.append("plugin/note", {"passed": "over"})

    counts = replay(SessionCounts(), log.events).view()

    assert counts == Counts(
        title="second",
        turns=1,
        steps=1,
        tool_calls=1,
        tool_errors=1,
        user_messages=2,
        assistant_messages=2,
        compactions=1,
        tokens={"inputTokens": 15, "outputTokens": 2},
        first_time=log.events[0].time,
        last_time=last,
    )


def test_an_empty_log_counts_nothing() -> None:
    """A session without events has no title and no times."""
    assert SessionCounts().view() == Counts()


def test_reported_tokens_stay_within_64_bits() -> None:
    """What providers report cannot overflow the counts, and is no number of tokens below 0."""
    log = LogBuilder()
    for reported in (2**63 - 1, 2**63 - 1, -5):
        log.append("assistant/message", assistant_message("hi", usage={"inputTokens": reported}, **ROUTE), APPEND)

    assert replay(SessionCounts(), log.events).view().tokens == {"inputTokens": 2**63 - 1}

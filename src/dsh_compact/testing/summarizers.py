"""Summarizers by script, and Hypothesis strategies for what they may come up with."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from hypothesis import strategies as st

from dsh_compact.summary import Summary
from dsh_session.testing.assertions import hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

    from dsh_compact.transaction import SummaryRequest

Answer: TypeAlias = str | Summary | BaseException
"""What a summarizer does with a request: return a summary or its text, or raise."""

_MOST_REQUESTS: Final = 50


class SummarizerError(Exception):
    """What a summarizer out of `answers` raises."""


@attrs.define
class ScriptedSummarizer:
    """A summarizer that gives some answers in turn, and the last of them from then on.

    Attributes:
        answers: what it gives; an exception is raised.
        requests: copies of the messages of each request, in order.
        raised: the exceptions that it raised.
    """

    answers: Sequence[Answer]
    requests: list[list[Any]] = attrs.field(factory=list)
    raised: list[BaseException] = attrs.field(factory=list)

    def __call__(self, request: SummaryRequest) -> Summary | str:
        """Give the next answer."""
        hold(len(self.requests) < _MOST_REQUESTS, f"a summary was asked for more than {_MOST_REQUESTS} times")
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(deepcopy(request.messages))
        if isinstance(answer, BaseException):
            self.raised.append(answer)
            raise answer
        return answer

    async def ask(self, request: SummaryRequest) -> Summary | str:
        """Give the next answer, after a while in which others run."""
        await asyncio.sleep(0)
        return self(request)


def answers() -> SearchStrategy[Answer]:
    """Give what a summarizer may come up with: a summary, or what must not become a checkpoint, each kind as often."""
    text: Any = {"type": "text", "text": "what matters"}
    reasoning: Any = {"type": "reasoning", "text": "let me think"}
    call: Any = {"type": "tool-call", "id": "x", "name": "run", "arguments": "{}"}
    image: Any = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
    kinds: list[list[Answer]] = [
        ["what matters"],
        [Summary([reasoning, text, call], provider="p", model="m", max_tokens=9, usage={"outputTokens": 3})],
        ["", " \n", Summary([]), Summary([reasoning]), Summary([call])],
        [Summary([text, image]), Summary([text], is_cut_off=True)],
        [SummarizerError("out of reach"), asyncio.CancelledError()],
    ]
    endless = st.just(4000).map("the service is overloaded, ".__mul__)
    return st.one_of([*map(st.sampled_from, kinds), endless])

"""The seam that compaction engines fill, and the standard engine: pressure, overflow, manual.

An engine decides when and what to compact. How a compaction lands is the transaction's business, the same for all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import attrs

from dsh_compact.checkpoint import is_compact_checkpoint
from dsh_compact.errors import (
    CompactionBusyError,
    ContextWindowUnknownError,
    InvalidArgumentError,
    NoProgressError,
    SummaryRejectedError,
)
from dsh_compact.ledger import SurfaceLedger
from dsh_compact.meter import TokenMeter
from dsh_compact.policy import CompactionPolicy, Policies
from dsh_compact.selection import balanced_cut, retained_tail
from dsh_compact.summary import INSTRUCTION, Summary, framed
from dsh_compact.transaction import CompactionResult, SummaryRequest, begin_compaction
from dsh_session import user_message

if TYPE_CHECKING:
    from dsh_compact.meter import Meter
    from dsh_compact.pruner import ToolResultPruner
    from dsh_session import Session

Trigger: TypeAlias = Literal["pressure", "overflow", "manual"]
Summarizer: TypeAlias = Callable[[SummaryRequest], Summary | str]
AsyncSummarizer: TypeAlias = Callable[[SummaryRequest], Awaitable[Summary | str]]

R = TypeVar("R")


@attrs.frozen
class EngineReport:
    """What an engine did to a session.

    Attributes:
        pruned_seqs: the shortened copies of tool results that landed.
        compactions: the compactions that landed.
        tokens_before: what the session's request measured at first.
        tokens_after: what it measures now.
    """

    pruned_seqs: tuple[int, ...]
    compactions: tuple[CompactionResult, ...]
    tokens_before: int
    tokens_after: int


class CompactionEngine(Protocol):
    """What makes a session's surface smaller.

    What an implementation owes, and `dsh_compact.testing.engine_test` checks:

    - it changes the surface through `begin_compaction` and single-node replacements alone, so that every reader
      recognises what it lands;
    - whatever its summarizer does, raising and being cancelled included, no lock stays behind;
    - given a session that fits, it writes nothing, and it comes to an end: the attempts are bounded;
    - it saves nothing: when to make the log durable is the harness's decision.
    """

    def compact(self, session: Session, trigger: Trigger, *, summarize: Summarizer) -> EngineReport | None:
        """Make the surface smaller if the trigger has cause to, and say what was done; None for nothing."""
        ...

    async def acompact(self, session: Session, trigger: Trigger, *, summarize: AsyncSummarizer) -> EngineReport | None:
        """Do the same with a summarizer that is a coroutine function."""
        ...


@attrs.frozen
class BasicCompactionEngine:
    """The standard engine.

    *Pressure*, at a step boundary: when the request measures at least the threshold, prune, and if that does not
    relieve it, compact from the head and keep the policy's tail; each retry keeps half as much. *Overflow*, when a
    provider refused a request as too long: prune, and compact all but the newest balanced tail. *Manual*, between
    turns: compact all but the policy's tail, whatever the request measures.

    Args:
        policy: one policy, or a function that gives one for a provider and a model.
        meter: prices messages and requests.
        pruner: what shortens tool results first, or None.
        instruction: what summarizers are told.
        frame: puts a summary's text into the checkpoint's words.
    """

    policy: CompactionPolicy | Policies = attrs.field(factory=CompactionPolicy)
    meter: Meter = attrs.field(factory=TokenMeter, kw_only=True)
    pruner: ToolResultPruner | None = attrs.field(default=None, kw_only=True)
    instruction: str = attrs.field(default=INSTRUCTION, kw_only=True)
    frame: Callable[[str], str] = attrs.field(default=framed, kw_only=True)

    def compact(
        self,
        session: Session,
        trigger: Trigger,
        *,
        summarize: Summarizer,
        source_command_id: str | None = None,
    ) -> EngineReport | None:
        """Make the surface smaller if the trigger has cause to.

        Args:
            session: the session; nothing is saved.
            trigger: why it is asked.
            summarize: has a range summarised. What it raises ends the compaction and is raised again.
            source_command_id: the command that asked for it.

        Returns:
            What was done; None when nothing was, and nothing was written then. After an overflow, send the request
            again only for a report.

        Raises:
            ContextWindowUnknownError: pressure cannot be measured for this model.
            NoProgressError: the engine did what it may, and the request still measures at least the threshold.
            SummaryRejectedError: the last attempt's summary cannot stand for its range.
            CompactionBusyError, SurfaceChangedError: as `begin_compaction` and its commit.

        Cost: all but the summarizer is O(nodes), whatever the length of the log. A node is decoded for it once, at the
        first measure after it came. A session that fits costs O(request header + new nodes).
        """

        async def answer(request: SummaryRequest) -> Summary | str:
            """Summarise at once."""
            return summarize(request)

        return _run(self.acompact(session, trigger, summarize=answer, source_command_id=source_command_id))

    async def acompact(
        self,
        session: Session,
        trigger: Trigger,
        *,
        summarize: AsyncSummarizer,
        source_command_id: str | None = None,
    ) -> EngineReport | None:
        """Do what `compact` does with a summarizer that is a coroutine function.

        A cancelled summarizer ends the compaction, and the cancellation goes on. To bound its time, put the call into
        an ``asyncio.timeout``.
        """
        policy, window = self._policy_of(session)
        limit = _limit(session, trigger, policy, window)
        header_tokens = self.meter.estimate_header(session.request_header())
        before = header_tokens + self._surface_tokens(session)
        if limit is not None and before < limit:
            return None
        if session.open_compaction is not None:
            raise CompactionBusyError(session.open_compaction)
        pruned = () if self.pruner is None else tuple(event.seq for event in self.pruner.prune(session))
        landed: list[CompactionResult] = []
        retain = 0 if trigger == "overflow" else policy.retained(window)
        attempts = 1 if limit is None else 1 + policy.compaction_retries
        while attempts and (limit is None or header_tokens + self._surface_tokens(session) >= limit):
            attempts -= 1
            selected = self._select(session, retain)
            retain //= 2
            if selected is None:
                continue
            try:
                with begin_compaction(
                    session,
                    *selected,
                    source_command_id=source_command_id,
                    meter=self.meter,
                    instruction=self.instruction,
                    frame=self.frame,
                ) as compaction:
                    landed.append(compaction.commit(await summarize(compaction.request)))
            except SummaryRejectedError:
                if not attempts:
                    raise
        if not pruned and not landed:
            return None
        after = header_tokens + self._surface_tokens(session)
        if limit is not None and after >= limit:
            raise NoProgressError(after, limit)
        return EngineReport(pruned, tuple(landed), before, after)

    def _policy_of(self, session: Session) -> tuple[CompactionPolicy, int | None]:
        """Return the policy for the session's model, and the model's context window as far as it is known."""
        policy = self.policy if isinstance(self.policy, CompactionPolicy) else self.policy(*_route(session))
        match session.request_context():
            case {"contextWindow": window} if type(window) is int and window > 0:
                return policy, window
            case _:
                return policy, policy.context_window

    def _surface_tokens(self, session: Session) -> int:
        return SurfaceLedger.of(session.surface, self.meter).total

    def _select(self, session: Session, retain: int) -> tuple[int, int] | None:
        """Choose a range of which a summary can be accepted: no checkpoint alone, and more than the frame costs."""
        ledger = SurfaceLedger.of(session.surface, self.meter)
        nodes, tokens = list(ledger.tokens), list(ledger.tokens.values())
        cut = retained_tail(tokens, retain)
        if cut:
            cut = balanced_cut(nodes, cut, ledger.pairing)
        if cut == 1 and is_compact_checkpoint(session.surface.event(nodes[0])):
            return None
        frame_tokens = self.meter.estimate_message(user_message(self.frame("")))
        return (nodes[0], nodes[cut - 1]) if sum(tokens[:cut]) > frame_tokens else None


def _limit(session: Session, trigger: Trigger, policy: CompactionPolicy, window: int | None) -> int | None:
    """Return the tokens that a trigger wants the request to stay below, or None when it acts at any measure."""
    match trigger:
        case "pressure":
            limit = policy.threshold(window)
            if limit is None:
                raise ContextWindowUnknownError(*_route(session))
            return limit
        case "overflow":
            return None
        case "manual":
            if session.open_turn.turn is not None:
                raise InvalidArgumentError(
                    "trigger", f"manual inside turn {session.open_turn.turn}; a manual compaction is between turns"
                )
            return None
        case _:
            raise InvalidArgumentError("trigger", f"{trigger!r} found; it is pressure, overflow or manual")


def _route(session: Session) -> tuple[str | None, str | None]:
    match session.request_header():
        case {"config": {"provider": str() as provider, "model": str() as model}}:
            return provider, model
        case _:
            return None, None


def _run(steps: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that has nothing to wait for."""
    try:
        while True:
            steps.send(None)
    except StopIteration as stop:
        result: R = stop.value
        return result

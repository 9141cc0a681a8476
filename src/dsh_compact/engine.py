"""The seam that compaction engines fill, and the standard engine: pressure, overflow, manual.

An engine decides when and what to compact. How a compaction lands is the transaction's business, the same for all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import attrs

from dsh_compact.checkpoint import is_compact_checkpoint
from dsh_compact.errors import ContextWindowUnknownError, InvalidArgumentError, NoProgressError, SummaryRejectedError
from dsh_compact.meter import TokenMeter
from dsh_compact.selection import select_compactable_range
from dsh_compact.summary import INSTRUCTION, Summary, framed
from dsh_compact.transaction import CompactionResult, SummaryRequest, begin_compaction
from dsh_session import derive_message

if TYPE_CHECKING:
    from dsh_compact.meter import Meter
    from dsh_compact.pruner import ToolResultPruner
    from dsh_session import Session

Trigger: TypeAlias = Literal["pressure", "overflow", "manual"]
Summarizer: TypeAlias = Callable[[SummaryRequest], Summary | str]
AsyncSummarizer: TypeAlias = Callable[[SummaryRequest], Awaitable[Summary | str]]


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

    What an implementation owes:

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


def _check_ratio(_: Any, attribute: attrs.Attribute[float], value: Any) -> None:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise InvalidArgumentError(attribute.name, f"{value!r} found; a ratio lies between 0 and 1")


def _check_count(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or value < 0:
        raise InvalidArgumentError(attribute.name, f"{value!r} found; it is an int >= 0")


@attrs.frozen(kw_only=True)
class CompactionPolicy:
    """When to compact, and how much to keep.

    Attributes:
        threshold_ratio: the part of the context window at which pressure acts.
        threshold_tokens: the same as a number of tokens, which wins where it is given.
        retain_ratio: the part of the context window to keep at the tail.
        retain_tokens: the same as a number of tokens, which wins where it is given.
        compaction_retries: how many attempts may follow the first.
        context_window: the model's window, in tokens, where the log does not say it.

    Raises:
        InvalidArgumentError: a ratio lies outside 0 to 1, or a number is no int >= 0.
    """

    threshold_ratio: float = attrs.field(default=0.8, validator=_check_ratio)
    threshold_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(_check_count))
    retain_ratio: float = attrs.field(default=0.16, validator=_check_ratio)
    retain_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(_check_count))
    compaction_retries: int = attrs.field(default=1, validator=_check_count)
    context_window: int | None = attrs.field(default=None, validator=attrs.validators.optional(_check_count))


Policies: TypeAlias = Callable[[str | None, str | None], CompactionPolicy]
"""Gives the policy for a provider and a model, which are None before the first request header."""

_Steps: TypeAlias = Generator[SummaryRequest, "Summary | str", EngineReport | None]


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
            NoProgressError: all attempts landed, and the request still measures at least the threshold.
            SummaryRejectedError: the last attempt's summary cannot stand for its range.
            CompactionBusyError, SurfaceChangedError: as `begin_compaction` and its commit.

        Cost: all but the summarizer is O(size of the surface), whatever the length of the log.
        """
        steps = self._steps(session, trigger, source_command_id)
        try:
            request = next(steps)
            while True:
                try:
                    answer = summarize(request)
                except BaseException as error:  # noqa: BLE001 - it is raised again, out of the steps
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as stop:
            report: EngineReport | None = stop.value
            return report

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
        steps = self._steps(session, trigger, source_command_id)
        try:
            request = next(steps)
            while True:
                try:
                    answer = await summarize(request)
                except BaseException as error:  # noqa: BLE001 - it is raised again, out of the steps
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as stop:
            report: EngineReport | None = stop.value
            return report

    def _steps(self, session: Session, trigger: Trigger, source_command_id: str | None) -> _Steps:
        policy = self._policy_for(session)
        window = self._window_of(session, policy)
        before = self._measure(session)
        limit: int | None = None
        match trigger:
            case "pressure":
                limit = self._threshold(session, policy, window)
                if before < limit:
                    return None
                retain = self._retained(policy, window)
            case "overflow":
                retain = 0
            case "manual":
                if session.open_turn.turn is not None:
                    raise InvalidArgumentError(
                        "trigger", f"manual inside turn {session.open_turn.turn}; a manual compaction is between turns"
                    )
                retain = self._retained(policy, window)
            case _:
                raise InvalidArgumentError("trigger", f"{trigger!r} found; it is pressure, overflow or manual")
        pruned = () if self.pruner is None else tuple(event.seq for event in self.pruner.prune(session))
        landed: list[CompactionResult] = []
        attempts = 1 + (policy.compaction_retries if trigger == "pressure" else 0)
        while attempts and (limit is None or not (pruned or landed) or self._measure(session) >= limit):
            selected = self._select(session, retain)
            if selected is None:
                break
            attempts -= 1
            try:
                with begin_compaction(
                    session,
                    *selected,
                    stability="range" if trigger == "manual" else "surface",
                    source_command_id=source_command_id,
                    meter=self.meter,
                    instruction=self.instruction,
                    frame=self.frame,
                ) as compaction:
                    landed.append(compaction.commit((yield compaction.request)))
            except SummaryRejectedError:
                if not attempts:
                    raise
            retain //= 2
        if not pruned and not landed:
            return None
        after = self._measure(session)
        if landed and limit is not None and after >= limit:
            raise NoProgressError(after, limit)
        return EngineReport(pruned, tuple(landed), before, after)

    def _policy_for(self, session: Session) -> CompactionPolicy:
        return self.policy if isinstance(self.policy, CompactionPolicy) else self.policy(*_route(session))

    def _window_of(self, session: Session, policy: CompactionPolicy) -> int | None:
        context = session.request_context()
        window = context.get("contextWindow") if isinstance(context, dict) else None
        return window if type(window) is int else policy.context_window

    def _threshold(self, session: Session, policy: CompactionPolicy, window: int | None) -> int:
        if policy.threshold_tokens is not None:
            return policy.threshold_tokens
        if window is None:
            raise ContextWindowUnknownError(*_route(session))
        return int(policy.threshold_ratio * window)

    def _retained(self, policy: CompactionPolicy, window: int | None) -> int:
        if policy.retain_tokens is not None:
            return policy.retain_tokens
        return int(policy.retain_ratio * (window or 0))

    def _measure(self, session: Session) -> int:
        return self.meter.estimate_request(session.request_header(), session.messages())

    def _select(self, session: Session, retain: int) -> tuple[int, int] | None:
        events = session.surface_events()
        messages = map(derive_message, events)
        tokens = [0 if message is None else self.meter.estimate_message(message) for message in messages]
        selected = select_compactable_range(events, tokens, retain)
        is_one_checkpoint = selected is not None and selected[0] == selected[1] and is_compact_checkpoint(events[0])
        return None if is_one_checkpoint else selected


def _route(session: Session) -> tuple[str | None, str | None]:
    header = session.request_header()
    config = header.get("config") if isinstance(header, dict) else None
    if not isinstance(config, dict):
        return None, None
    return config.get("provider"), config.get("model")

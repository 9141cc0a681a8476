"""A session goes on, is compacted, pruned, forked, saved, killed and reopened, and its readers stay right."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dsh_compact import (
    BasicCompactionEngine,
    Compaction,
    CompactionBusyError,
    CompactionError,
    CompactionPolicy,
    InvalidArgumentError,
    SurfaceChangedError,
    SurfaceLedger,
    TokenMeter,
    ToolResultPruner,
    begin_compaction,
    check_brackets,
    is_compact_checkpoint,
)
from dsh_compact.testing import TRIGGERS, ScriptedSummarizer, SummarizerError, answers
from dsh_projections import HumanTranscript, ModelSurface, replay
from dsh_session import (
    APPEND,
    SessionStore,
    assistant_message,
    derive_message,
    is_append_surface_event,
    to_anthropic_messages,
    to_openai_chat,
    to_openai_responses,
    tool_calls_of,
    tool_result_message,
    user_message,
)
from dsh_session.testing import naive_surface
from stored import ticking_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_compact import Summary
    from dsh_session import Session, SessionEvent

WINDOW = 900
POLICY = CompactionPolicy(context_window=WINDOW, threshold_ratio=0.5)
IMAGE: Any = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
sizes = st.sampled_from([400, 2000, 40, 0])
outcomes = st.lists(answers(), min_size=1, max_size=2)
at = st.integers(0, 9)


def text(size: int) -> Any:
    return {"type": "text", "text": "word " * (size // 5) or "-"}


class CompactedSession(RuleBasedStateMachine):
    """A harness that obeys the rules, and a process that may die at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SessionStore.open(":memory:", clock=ticking_clock())
        self.compaction: Compaction | None = None
        self.turns = 0
        self.calls = 0

    def teardown(self) -> None:
        self.store.close()

    @initialize(is_pruning=st.booleans(), turns=st.sampled_from([2, 4, 0]))
    def begin(self, is_pruning: bool, turns: int) -> None:
        self.engine = BasicCompactionEngine(POLICY, pruner=ToolResultPruner(300, 100, 50) if is_pruning else None)
        self.take(self.store.create())
        for _ in range(turns):
            self.work(400, [1, 0])

    def take(self, session: Session) -> None:
        """Go on with a session, whose readers begin anew."""
        self.session = session
        self.compaction = None
        self.saved = list(self.store.log(session.id))
        self.transcript, self.surface = HumanTranscript(), ModelSurface()
        self.seen = 0

    @property
    def log(self) -> list[SessionEvent]:
        return [*self.saved, *self.session.pending]

    @property
    def place(self) -> Any:
        return {"turn": self.session.open_turn.turn or 0, "step": self.session.open_turn.step or 0}

    def is_between_turns(self) -> bool:
        return self.session.open_turn.turn is None

    def is_unlocked(self) -> bool:
        return self.session.open_compaction is None

    @rule(size=sizes, has_image=st.booleans())
    def say(self, size: int, has_image: bool) -> None:
        blocks = [IMAGE, text(size)] if has_image else [text(size)]
        if self.is_between_turns():
            self.session.append("user/message", user_message(blocks), APPEND)
        else:
            data = {"turn": self.place["turn"], "message": user_message(blocks)}
            self.session.append("steering/message", data, APPEND)

    @precondition(lambda self: self.is_between_turns() and self.is_unlocked())
    @rule()
    def begin_turn(self) -> None:
        self.turns += 1
        self.session.append("turn/start", {"turn": self.turns})
        self.session.append("step/start", {"turn": self.turns, "step": 1})

    @precondition(lambda self: not self.is_between_turns() and self.is_unlocked())
    @rule(size=sizes)
    def end_turn(self, size: int) -> None:
        for call_id in self.session.open_turn.unanswered:
            self.session.append("tool/result", tool_result_message(call_id, [text(size)], **self.place), APPEND)
        self.session.append("step/end", self.place)
        self.session.append("turn/end", {"turn": self.place["turn"]})

    @precondition(lambda self: self.is_between_turns() and self.is_unlocked())
    @rule(size=sizes, call_counts=st.lists(st.integers(0, 2), max_size=3))
    def work(self, size: int, call_counts: list[int]) -> None:
        """Have a whole turn."""
        self.say(size, has_image=False)
        self.begin_turn()
        for call_count in call_counts:
            self.answer(size, call_count, is_empty=False)
            while self.session.open_turn.unanswered:
                self.give_result(-1, size, is_error=False)
        self.end_turn(size)

    @precondition(lambda self: not self.is_between_turns() and not self.session.open_turn.unanswered)
    @rule(size=sizes, call_count=st.integers(0, 3), is_empty=st.booleans())
    def answer(self, size: int, call_count: int, is_empty: bool) -> None:
        calls: list[Any] = []
        for _ in range(call_count):
            self.calls += 1
            calls.append({"type": "tool-call", "id": f"call-{self.calls}", "name": "run", "arguments": "{}"})
        blocks = [] if is_empty and not calls else [text(size), *calls]
        data = assistant_message(blocks, provider="p", model="m", **self.place)
        self.session.append("assistant/message", data, APPEND)

    @precondition(lambda self: self.session.open_turn.unanswered)
    @rule(at=at, size=sizes, is_error=st.booleans())
    def give_result(self, at: int, size: int, is_error: bool) -> None:
        unanswered = self.session.open_turn.unanswered
        call_id = unanswered[at % len(unanswered)]
        data = tool_result_message(call_id, [text(size)], is_error=is_error, **self.place)
        self.session.append("tool/result", data, APPEND)

    @precondition(lambda self: self.is_unlocked())
    @rule()
    def prune(self) -> None:
        self.shrinks(lambda: ToolResultPruner(200, 80, 40).prune(self.session))

    @rule(trigger=st.sampled_from(TRIGGERS), script=outcomes, is_async=st.booleans())
    def compact(self, trigger: Any, script: list[Any], is_async: bool) -> None:
        summarizer = ScriptedSummarizer(script)

        def run() -> None:
            if is_async:
                asyncio.run(self.engine.acompact(self.session, trigger, summarize=summarizer.ask))
            else:
                self.engine.compact(self.session, trigger, summarize=summarizer)

        was_locked, before = self.session.open_compaction, self.session.next_seq
        try:
            self.shrinks(run)
        except CompactionBusyError:
            assert was_locked is not None
        except InvalidArgumentError:
            assert trigger == "manual"
            assert not self.is_between_turns()
        except (CompactionError, SummarizerError, asyncio.CancelledError):
            pass
        assert was_locked == self.session.open_compaction
        if was_locked is not None:
            assert before == self.session.next_seq

    @precondition(lambda self: len(self.session.surface))
    @rule(first=at, length=at, stability=st.sampled_from([None, "surface", "range"]))
    def begin_by_hand(self, first: int, length: int, stability: Any) -> None:
        nodes = self.session.surface.nodes
        start = nodes[first % len(nodes)]
        end = nodes[min(first % len(nodes) + length, len(nodes) - 1)]
        was_locked, before = self.session.open_compaction, self.session.next_seq
        try:
            self.compaction = begin_compaction(self.session, start, end, stability=stability)
        except CompactionBusyError:
            assert was_locked is not None
            assert before == self.session.next_seq
        except InvalidArgumentError:
            assert before == self.session.next_seq

    @precondition(lambda self: self.compaction is not None)
    @rule(answer=answers())
    def finish_by_hand(self, answer: str | Summary | BaseException) -> None:
        compaction, self.compaction = self.compaction, None
        assert compaction is not None

        def run() -> None:
            if isinstance(answer, BaseException):
                compaction.fail(answer)
            else:
                compaction.commit(answer)

        before = self.session.surface.nodes
        try:
            self.shrinks(run)
        except (CompactionError, SurfaceChangedError):
            assert before == self.session.surface.nodes
        assert self.session.open_compaction is None

    def shrinks(self, act: Callable[[], object]) -> None:
        """Check that the surface does not grow, and that the readers keep up, whatever comes of an act."""
        meter = TokenMeter()
        nodes, tokens = len(self.session.surface), meter.estimate_messages(self.session.messages())
        try:
            act()
        finally:
            assert len(self.session.surface) <= nodes
            assert meter.estimate_messages(self.session.messages()) <= tokens

    @rule()
    def save(self) -> None:
        self.store.save(self.session)
        self.saved = list(self.store.log(self.session.id))

    @rule(how_much_is_saved=st.sampled_from([1.0, 1.0, 0.5, 0.0]), is_resumed=st.booleans())
    def be_killed(self, how_much_is_saved: float, is_resumed: bool) -> None:
        """Lose what was not saved. Resumed, nothing is open any more; loaded, a lock that was saved holds."""
        killed = self.store.load(self.session.id)
        for event in self.session.pending[: int(len(self.session.pending) * how_much_is_saved)]:
            killed.receive(event)
        self.store.save(killed)
        self.take(self.store.resume(killed.id) if is_resumed else self.store.load(killed.id))
        if is_resumed:
            assert self.session.open_compaction is None
            assert self.is_between_turns()
        else:
            assert self.session.open_compaction == killed.open_compaction

    @precondition(lambda self: self.is_between_turns())
    @rule()
    def fork(self) -> None:
        self.save()
        if self.saved:
            parent = self.session.id
            self.take(self.store.fork(parent))
            assert list(self.store.log(parent)) == self.renamed(parent)[:-1]

    def renamed(self, session_id: str) -> list[SessionEvent]:
        """Return the events of the log as those of another session."""
        return [type(event).from_wire(event.to_wire(), session_id) for event in self.log]

    @invariant()
    def is_in_order(self) -> None:
        log = self.log
        seeds = [event.seq for event in log if event.type == "session/end-seed"]
        check_brackets(log, seed_length=seeds[-1] + 1 if seeds else 0)
        assert naive_surface(log).nodes == self.session.surface.nodes

    @invariant()
    def pairs_calls_and_results(self) -> None:
        asked: Counter[str] = Counter()
        answered: Counter[str] = Counter()
        for message in self.session.messages():
            asked.update(call["id"] for call in tool_calls_of(message))
            results = [block["toolCallId"] for block in message["content"] if block["type"] == "tool-result"]
            answered.update(results)
            assert answered <= asked
        assert max(answered.values(), default=1) == 1

    @invariant()
    def is_sendable(self) -> None:
        """While calls are open there is no request to make; then they are left out."""
        messages = self.session.messages()
        for convert in (to_openai_chat, to_openai_responses, to_anthropic_messages):
            convert(messages, on_unsupported="drop" if self.session.open_turn.unanswered else "raise")

    @invariant()
    def is_priced_right(self) -> None:
        messages = map(derive_message, self.session.surface_events())
        expected = [0 if message is None else TokenMeter().estimate_message(message) for message in messages]
        ledger = SurfaceLedger.of(self.session.surface, TokenMeter())
        assert expected == list(ledger.tokens.values())
        assert sum(expected) == ledger.total

    @invariant()
    def is_read_right(self) -> None:
        """Live readers show what a replay shows, and the human has lost nothing that was said."""
        log = self.log
        replay(self.transcript, log[self.seen :])
        replay(self.surface, log[self.seen :])
        self.seen = len(log)
        assert replay(HumanTranscript(), log).entries == self.transcript.entries
        assert self.session.messages() == self.surface.messages()
        said = [event.seq for event in log if is_append_surface_event(event) or is_compact_checkpoint(event)]
        assert said == [entry.seq for entry in self.transcript.entries]


TestCompactedSession = CompactedSession.TestCase
TestCompactedSession.settings = settings(
    deadline=None, max_examples=25, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
)

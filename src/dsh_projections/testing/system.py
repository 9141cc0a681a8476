"""A state machine of the whole system: a harness at work, its store, compactions, readers, crashes, a second writer."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from hypothesis import note
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
from dsh_projections.history_pager import HistoryPager
from dsh_projections.human_transcript import HumanTranscript
from dsh_projections.model_surface import ModelSurface
from dsh_projections.projection import replay
from dsh_projections.testing.laws import check_page, check_pages_tile
from dsh_session import (
    APPEND,
    ConflictError,
    RebaseError,
    Replace,
    SessionEvent,
    SessionStore,
    assistant_message,
    derive_message,
    is_append_surface_event,
    lossless_json,
    to_anthropic_messages,
    to_openai_chat,
    to_openai_responses,
    tool_calls_of,
    tool_result_message,
    user_message,
)
from dsh_session.testing import naive_surface, show_log
from dsh_session.testing.assertions import expect, hold, taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_compact import CompactionEngine, Summary
    from dsh_projections.projection import Projection
    from dsh_session import Session

IMAGE: Final[Any] = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
SIZES: Final = st.sampled_from([400, 2000, 40, 0])
PLACES: Final = st.integers(0, 9)


class SystemMachine(RuleBasedStateMachine):
    """A harness that obeys the rules, a process that may die at any time, and another one that writes meanwhile.

    Turns are worked, compacted by an engine and by hand, pruned, saved, forked, killed and loaded again, and rebased
    behind another writer. After every step the log is in order, calls and results are paired, the messages can be sent,
    and each reader shows what a fresh replay shows; compaction takes nothing from the transcript, and pages tile the
    log. pytest runs ``TestMine = SystemMachine.TestCase``.

    Subclass it to add rules and invariants of your own, and to put something of yours in its place: override
    `open_store`, `make_engine` and `readers`.

    Attributes:
        store: where the session is kept.
        engine: what compacts it.
        session: the session at work. After a rule in which it was killed, forked or rebased, its log is another one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store = self.open_store()
        self.engine = self.make_engine()
        self._compaction: Compaction | None = None
        self._turns = 0
        self._calls = 0
        self._live: dict[str, Projection[Any]]
        self._kept: tuple[int, dict[str, bytes]]
        self._take(self.store.create())

    def open_store(self) -> SessionStore:
        """Open the store, which is closed at the end. One in memory, with a clock that gives each time once."""
        return SessionStore.open(":memory:", clock=partial(next, count(1_700_000_000_000)))

    def make_engine(self) -> CompactionEngine:
        """Make the engine. The standard one, with a window that a few messages fill."""
        return BasicCompactionEngine(CompactionPolicy(context_window=900, threshold_ratio=0.5))

    def readers(self) -> dict[str, Projection[Any]]:
        """Make readers of yours, by names of your choice; they read along, crash, and are held to a fresh replay."""
        return {}

    def teardown(self) -> None:
        """Print the log, and close the store."""
        note(show_log(self.log))
        self.store.close()

    @property
    def log(self) -> list[SessionEvent]:
        """The log of the session, what is pending included."""
        return [*self._saved, *self.session.pending]

    @property
    def place(self) -> Any:
        """The open turn and step, as data of events names them; 0 where none is open."""
        return {"turn": self.session.open_turn.turn or 0, "step": self.session.open_turn.step or 0}

    def is_between_turns(self) -> bool:
        """Tell whether no turn is open."""
        return self.session.open_turn.turn is None

    def is_unlocked(self) -> bool:
        """Tell whether no compaction is live."""
        return self.session.open_compaction is None

    @initialize(turns=st.sampled_from([2, 4, 0]))
    def begin(self, turns: int) -> None:
        """Have some turns behind, so that there is something to compact."""
        for _ in range(turns):
            self.work(400, [1, 0])

    @rule(size=SIZES, has_image=st.booleans())
    def say(self, size: int, has_image: bool) -> None:
        """Say something as the user, into the turn if one is open."""
        blocks = [IMAGE, _text(size)] if has_image else [_text(size)]
        if self.is_between_turns():
            self.session.append("user/message", user_message(blocks), APPEND)
        else:
            data = {"turn": self.place["turn"], "message": user_message(blocks)}
            self.session.append("steering/message", data, APPEND)

    @precondition(lambda self: self.is_between_turns() and self.is_unlocked())
    @rule()
    def begin_turn(self) -> None:
        """Begin a turn and its step."""
        self._turns += 1
        self.session.append("turn/start", {"turn": self._turns})
        self.session.append("step/start", {"turn": self._turns, "step": 1})

    @precondition(lambda self: not self.is_between_turns() and self.is_unlocked())
    @rule(size=SIZES)
    def end_turn(self, size: int) -> None:
        """Answer every open call, and end the step and the turn."""
        for call_id in self.session.open_turn.unanswered:
            self.session.append("tool/result", tool_result_message(call_id, [_text(size)], **self.place), APPEND)
        self.session.append("step/end", self.place)
        self.session.append("turn/end", {"turn": self.place["turn"]})

    @precondition(lambda self: self.is_between_turns() and self.is_unlocked())
    @rule(size=SIZES, call_counts=st.lists(st.integers(0, 2), max_size=3))
    def work(self, size: int, call_counts: list[int]) -> None:
        """Have a whole turn, with a round of calls for each count."""
        self.say(size, has_image=False)
        self.begin_turn()
        for call_count in call_counts:
            self.answer(size, call_count, is_empty=False)
            while self.session.open_turn.unanswered:
                self.give_result(-1, size, is_error=False)
        self.end_turn(size)

    @precondition(lambda self: not self.is_between_turns() and not self.session.open_turn.unanswered)
    @rule(size=SIZES, call_count=st.integers(0, 3), is_empty=st.booleans())
    def answer(self, size: int, call_count: int, is_empty: bool) -> None:
        """Answer as the model, with calls or with nothing at all."""
        calls: list[Any] = []
        for _ in range(call_count):
            self._calls += 1
            calls.append({"type": "tool-call", "id": f"call-{self._calls}", "name": "run", "arguments": "{}"})
        blocks = [] if is_empty and not calls else [_text(size), *calls]
        data = assistant_message(blocks, provider="p", model="m", **self.place)
        self.session.append("assistant/message", data, APPEND)

    @precondition(lambda self: self.session.open_turn.unanswered)
    @rule(at=PLACES, size=SIZES, is_error=st.booleans())
    def give_result(self, at: int, size: int, is_error: bool) -> None:
        """Give the result of an open call."""
        unanswered = self.session.open_turn.unanswered
        call_id = unanswered[at % len(unanswered)]
        data = tool_result_message(call_id, [_text(size)], is_error=is_error, **self.place)
        self.session.append("tool/result", data, APPEND)

    @precondition(lambda self: self.is_unlocked())
    @rule()
    def prune(self) -> None:
        """Shorten the results of tools."""
        self._shrink(lambda: ToolResultPruner(200, 80, 40).prune(self.session))

    @rule(trigger=st.sampled_from(TRIGGERS), script=st.lists(answers(), min_size=1, max_size=2), is_async=st.booleans())
    def compact(self, trigger: Any, script: list[Any], is_async: bool) -> None:
        """Have the engine compact, whatever its summarizer comes up with; a live compaction makes it refuse."""
        summarizer = ScriptedSummarizer(script)

        def run() -> None:
            if is_async:
                asyncio.run(self.engine.acompact(self.session, trigger, summarize=summarizer.ask))
            else:
                self.engine.compact(self.session, trigger, summarize=summarizer)

        was_locked, before = self.session.open_compaction, self.session.next_seq
        try:
            self._shrink(run)
        except CompactionBusyError:
            hold(was_locked is not None, "the engine says that a compaction is live, and none is")
        except InvalidArgumentError:
            hold(trigger == "manual" and not self.is_between_turns(), f"the engine refused {trigger} between turns")
        except (CompactionError, SummarizerError, asyncio.CancelledError):
            pass
        expect(was_locked, self.session.open_compaction, "the live compaction, after the engine was asked")
        hold(was_locked is None or before == self.session.next_seq, "the engine wrote into a live compaction")

    @precondition(lambda self: len(self.session.surface) > 0)
    @rule(first=PLACES, length=PLACES, stability=st.sampled_from([None, "surface", "range"]))
    def begin_by_hand(self, first: int, length: int, stability: Any) -> None:
        """Begin a compaction of any range; it is refused where one is live or a pair would be cut."""
        nodes = self.session.surface.nodes
        start = nodes[first % len(nodes)]
        end = nodes[min(first % len(nodes) + length, len(nodes) - 1)]
        was_locked, before = self.session.open_compaction, self.session.next_seq
        try:
            self._compaction = begin_compaction(self.session, start, end, stability=stability)
        except CompactionBusyError:
            hold(was_locked is not None, "a compaction is said to be live, and none is")
            expect(before, self.session.next_seq, "the end of a log in which a compaction is live")
        except InvalidArgumentError:
            expect(before, self.session.next_seq, "the end of a log in which no compaction may begin")

    @precondition(lambda self: self._compaction is not None)
    @rule(answer=answers())
    def finish_by_hand(self, answer: str | Summary | BaseException) -> None:
        """Commit the compaction that was begun by hand, or fail it."""
        compaction: Any = self._compaction
        self._compaction = None
        finish = compaction.fail if isinstance(answer, BaseException) else compaction.commit
        before = self.session.surface.nodes
        try:
            self._shrink(partial(finish, answer))
        except (CompactionError, SurfaceChangedError):
            expect(before, self.session.surface.nodes, "the surface after a compaction that failed")
        expect(None, self.session.open_compaction, "the live compaction, after it was finished")

    @rule()
    def save(self) -> None:
        """Make everything durable."""
        self.store.save(self.session)
        self._saved = list(self.store.log(self.session.id))
        expect(self.session.next_seq, len(self._saved), "the length of a log that was saved")

    @precondition(lambda self: self._compaction is None)
    @rule(size=SIZES, at=PLACES, is_rewriting=st.booleans())
    def be_overtaken(self, size: int, at: int, is_rewriting: bool) -> None:
        """Have another writer say or rewrite something first. What is pending lands behind that, or is given up."""
        other = self.store.load(self.session.id)
        theirs = [event.seq for event in other.surface_events() if event.type == "user/message"]
        if is_rewriting and theirs:
            node = theirs[at % len(theirs)]
            message = user_message([_text(size)], source={"kind": "plugin", "plugin": "other"})
            other.append("user/message", message, Replace(node, node), [node])
        else:
            other.append("user/message", user_message([_text(size)]), APPEND)
        self.store.save(other)
        pending, state = self.session.pending, self.session.state()
        try:
            self.store.save(self.session)
        except ConflictError:
            expect((pending, state), (self.session.pending, self.session.state()), "what is pending, after a conflict")
        else:
            expect((), pending, "what was saved behind events that it does not know")
        try:
            self.store.save(self.session, on_conflict="rebase")
        except RebaseError:
            expect((pending, state), (self.session.pending, self.session.state()), "what is pending, after a rebase")
        self._take(self.store.load(self.session.id))

    @rule(how_much_is_saved=st.sampled_from([1.0, 1.0, 0.5, 0.0]), is_resumed=st.booleans())
    def be_killed(self, how_much_is_saved: float, is_resumed: bool) -> None:
        """Lose what was not saved. Resumed, nothing is open any more; loaded, a lock that was saved holds."""
        killed = self.store.load(self.session.id)
        for event in self.session.pending[: int(len(self.session.pending) * how_much_is_saved)]:
            killed.append_event(event)
        self.store.save(killed)
        self._take(self.store.resume(killed.id) if is_resumed else self.store.load(killed.id))
        if is_resumed:
            expect(None, self.session.open_compaction, "the live compaction of a resumed session")
            hold(self.is_between_turns(), "a resumed session is inside a turn")
        else:
            expect(killed.open_compaction, self.session.open_compaction, "the live compaction of a loaded session")

    @precondition(lambda self: self.is_between_turns())
    @rule()
    def fork(self) -> None:
        """Go on in a child, whose log is the parent's and the end of its seed."""
        self.save()
        if self._saved:
            parent = self.session.id
            self._take(self.store.fork(parent))
            inherited = [SessionEvent.from_wire(event.to_wire(), parent) for event in self._saved[:-1]]
            expect(list(self.store.log(parent)), inherited, "what a child has of its parent")

    @rule()
    def keep_readers(self) -> None:
        """Keep the states of the readers, and up to where they have read."""
        self._kept = len(self.log), {name: lossless_json.encode(each.state()) for name, each in self._live.items()}

    @rule()
    def crash_readers(self) -> None:
        """Go on with readers from their kept states, and what they have missed since."""
        self._seen, states = self._kept
        self._live = self._readers()
        for name, state in states.items():
            self._live[name].restore(lossless_json.decode(state))
        self._read_on()

    @invariant()
    def is_in_order(self) -> None:
        """Hold the log to the rules of brackets, and the surface to a naive fold."""
        log = self.log
        seeds = [event.seq for event in log if event.type == "session/end-seed"]
        with taken("the order of the log"):
            check_brackets(log, seed_length=seeds[-1] + 1 if seeds else 0)
        expect(naive_surface(log).nodes, self.session.surface.nodes, "the surface, against a naive fold")

    @invariant()
    def pairs_calls_and_results(self) -> None:
        """Let no result stand before its call, nor a call have two."""
        asked: Counter[str] = Counter()
        answered: Counter[str] = Counter()
        for message in self.session.messages():
            asked.update(call["id"] for call in tool_calls_of(message))
            answered.update(block["toolCallId"] for block in message["content"] if block["type"] == "tool-result")
            hold(answered <= asked, f"results without a call before them: {answered - asked}")
        hold(max(answered.values(), default=1) == 1, f"calls with several results: {answered}")

    @invariant()
    def is_sendable(self) -> None:
        """Write the messages for every provider. While calls are open there is no request; then they are left out."""
        messages = self.session.messages()
        for convert in (to_openai_chat, to_openai_responses, to_anthropic_messages):
            with taken("what the model is sent"):
                convert(messages, on_unsupported="drop" if self.session.open_turn.unanswered else "raise")

    @invariant()
    def is_priced_right(self) -> None:
        """Hold the ledger of the surface to what its messages measure one by one."""
        messages = map(derive_message, self.session.surface_events())
        expected = [0 if message is None else TokenMeter().estimate_message(message) for message in messages]
        ledger = SurfaceLedger.of(self.session.surface, TokenMeter())
        expect((expected, sum(expected)), (list(ledger.tokens.values()), ledger.total), "the prices of the surface")

    @invariant()
    def is_read_right(self) -> None:
        """Let live readers show what a replay shows, the human lose nothing that was said, and pages tile the log."""
        log = self.log
        self._read_on()
        for name, reader in self._readers().items():
            expect(replay(reader, log).view(), self._live[name].view(), f"what the {name} shows, against a replay")
        expect(self.session.messages(), self._live["surface"].view(), "what the model is sent")
        said = [event.seq for event in log if is_append_surface_event(event) or is_compact_checkpoint(event)]
        expect(said, [entry.seq for entry in self._live["transcript"].view()], "what the human sees")
        check_pages_tile(HistoryPager(log), log, 2)
        check_page(HistoryPager(log), log, len(log), 2)

    def _take(self, session: Session) -> None:
        """Go on with a session, whose readers begin anew."""
        self.session = session
        self._compaction = None
        self._saved = list(self.store.log(session.id))
        self._live = self._readers()
        self._seen = 0
        self._kept = 0, {}

    def _readers(self) -> dict[str, Projection[Any]]:
        return {"transcript": HumanTranscript(), "surface": ModelSurface(), **self.readers()}

    def _read_on(self) -> None:
        log = self.log
        for reader in self._live.values():
            replay(reader, log[self._seen :])
        self._seen = len(log)

    def _shrink(self, act: Callable[[], object]) -> None:
        """Check that the surface does not grow, whatever comes of an act."""
        meter = TokenMeter()
        nodes, tokens = len(self.session.surface), meter.estimate_messages(self.session.messages())
        try:
            act()
        finally:
            hold(len(self.session.surface) <= nodes, "the surface has more nodes than before")
            hold(meter.estimate_messages(self.session.messages()) <= tokens, "the surface costs more than before")


def _text(size: int) -> Any:
    return {"type": "text", "text": "word " * (size // 5) or "-"}

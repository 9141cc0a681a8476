"""What the author of a compaction engine imports: the laws that bind it, and logs and answers to try it on.

Start from `check_engine`, which holds an engine against every law; `worked_logs` gives it sessions that are worth
compacting, and `answers` what a summarizer may come up with. A law's name begins with ``check_``: it raises
`AssertionError` for what breaks it. All of it needs the ``testing`` extra.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import deepcopy
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import attrs
from hypothesis import strategies as st

from dsh_compact.bracket import BracketFold
from dsh_compact.checkpoint import is_compact_checkpoint
from dsh_compact.engine import Trigger
from dsh_compact.errors import CompactionError
from dsh_compact.meter import TokenMeter
from dsh_compact.summary import Summary
from dsh_session import (
    APPEND,
    Replace,
    Session,
    SessionHeader,
    assistant_message,
    derive_message,
    is_append_surface_event,
    lossless_json,
    message_of,
    tool_calls_of,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder, log_moves, naive_surface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from dsh_compact.engine import CompactionEngine, EngineReport
    from dsh_compact.meter import Meter
    from dsh_compact.transaction import SummaryRequest
    from dsh_session import SessionEvent
    from dsh_session.testing import Move

Answer: TypeAlias = str | Summary | BaseException
"""What a summarizer does with a request: return a summary or its text, or raise."""

TRIGGERS: Final[tuple[Trigger, ...]] = get_args(Trigger)
_MOST_REQUESTS: Final = 50
_WIDE, _NARROW = 10**9, 400  # context windows, in tokens, that every session of `worked_logs` fits, and that few do


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
        _hold(len(self.requests) < _MOST_REQUESTS, f"a summary was asked for more than {_MOST_REQUESTS} times")
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


def answers() -> SearchStrategy[Answer]:
    """Give what a summarizer may come up with: mostly a summary, and everything that must not become a checkpoint."""
    text: Any = {"type": "text", "text": "what matters"}
    reasoning: Any = {"type": "reasoning", "text": "let me think"}
    call: Any = {"type": "tool-call", "id": "x", "name": "run", "arguments": "{}"}
    good: SearchStrategy[Answer] = st.sampled_from(
        [
            "what matters",
            Summary([reasoning, text, call], provider="p", model="m", max_tokens=9, usage={"outputTokens": 3}),
        ]
    )
    bad: SearchStrategy[Answer] = st.sampled_from(
        [
            "",
            " \n",
            Summary([]),
            Summary([reasoning]),
            Summary([call]),
            Summary([text, {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}]),
            Summary([text], is_cut_off=True),
            SummarizerError("out of reach"),
            asyncio.CancelledError(),
        ]
    )
    endless = st.just(4000).map("the service is overloaded, ".__mul__)
    return good | good | bad | endless


def check_engine(
    make_engine: Callable[[], CompactionEngine],
    events: Sequence[SessionEvent],
    script: Sequence[Answer],
    *,
    meter: Meter | None = None,
) -> None:
    """Check every law that binds every engine, for every trigger.

    The session has the log, repaired as `SessionStore.resume` does it; its latest ``request/context`` says what the
    context window is, and the engine must go by that.

    Args:
        make_engine: makes the engine.
        events: a log, of `worked_logs` for instance.
        script: what the summarizer gives in turn; see `answers`.
        meter: what the engine measures with; `TokenMeter` when None.
    """
    check_leaves_alone_what_fits(make_engine, events)
    for trigger in TRIGGERS:
        check_lands_whole_or_not_at_all(make_engine, events, trigger, script, meter=meter)
        check_async_equals_sync(make_engine, events, trigger, script)
        check_comes_to_rest(make_engine, events, trigger)


def check_leaves_alone_what_fits(make_engine: Callable[[], CompactionEngine], events: Sequence[SessionEvent]) -> None:
    """Check that under pressure an engine does nothing to a session that fits, writes nothing and asks for nothing.

    Args:
        make_engine: makes the engine.
        events: a log.
    """
    for is_async in (False, True):
        session = _session(events, _WIDE)
        before = session.pending
        summarizer = ScriptedSummarizer(["what matters"])
        report, error = _run(make_engine(), session, "pressure", summarizer, is_async=is_async)
        _hold(report is None and error is None, f"a session that fits was given {report or error!r}")
        _hold(session.pending == before, f"a session that fits was written to: {session.pending[len(before) :]}")
        _hold(not summarizer.requests, "a summary of a session that fits was asked for")


def check_lands_whole_or_not_at_all(
    make_engine: Callable[[], CompactionEngine],
    events: Sequence[SessionEvent],
    trigger: Trigger,
    script: Sequence[Answer],
    *,
    meter: Meter | None = None,
) -> None:
    """Check that what an engine does is in the log, in order, and takes nothing from anybody.

    No lock stays behind, and brackets are well formed. Nothing is said in anybody's name: all that enters the surface
    are checkpoints, each directly behind its summary, and replacements of single nodes. What a checkpoint stands for
    was summarised, exactly as the model was sent it. No result loses its call, and the surface does not grow. A
    cancellation comes out. Where the engine says that it did nothing, it wrote nothing.

    Args:
        make_engine: makes the engine.
        events: a log.
        trigger: why the engine is asked.
        script: what the summarizer gives in turn.
        meter: what the engine measures with; `TokenMeter` when None.
    """
    price = (meter or TokenMeter()).estimate_message
    for is_async in (False, True):
        session = _session(events, _NARROW)
        before, nodes_before, messages_before = session.pending, session.surface.nodes, session.messages()
        orphans_before = _orphans(session.surface_events())
        summarizer = ScriptedSummarizer(script)
        report, error = _run(make_engine(), session, trigger, summarizer, is_async=is_async)
        log = session.pending
        written = log[len(before) :]
        _hold(log[: len(before)] == before, "what was in the log before is no longer there")
        _hold(bool(written) or session.surface.nodes == nodes_before, "the surface changed without an event")
        if report is None and error is None:
            _hold(not written, f"nothing was reported, and {written} were written")
        _hold(session.open_compaction is None, f"the compaction at seq {session.open_compaction} was left open")
        _check_written(log, len(before), summarizer.requests)
        _hold(len(session.surface) <= len(nodes_before), "the surface has more nodes than before")
        _hold(
            sum(map(price, session.messages())) <= sum(map(price, messages_before)),
            "the surface costs more than before",
        )
        orphans = _orphans(session.surface_events()) - orphans_before
        _hold(not orphans, f"the results of {sorted(orphans)} have lost their calls")
        cancellations = [raised for raised in summarizer.raised if not isinstance(raised, Exception)]
        _hold(cancellations in ([], [error]), f"{cancellations} was kept back")


def check_async_equals_sync(
    make_engine: Callable[[], CompactionEngine],
    events: Sequence[SessionEvent],
    trigger: Trigger,
    script: Sequence[Answer],
) -> None:
    """Check that ``compact`` and ``acompact`` ask for the same and write the same, but for the names they make up.

    Args:
        make_engine: makes the engine.
        events: a log.
        trigger: why the engine is asked.
        script: what the summarizer gives in turn.
    """
    seen = []
    for is_async in (False, True):
        session = _session(events, _NARROW)
        begin = session.next_seq
        summarizer = ScriptedSummarizer(script)
        _, error = _run(make_engine(), session, trigger, summarizer, is_async=is_async)
        seen.append((_nameless(session.pending[begin:]), len(summarizer.requests), type(error)))
    _hold(seen[0] == seen[1], f"compact gave {seen[0]}, and acompact {seen[1]}")


def check_comes_to_rest(
    make_engine: Callable[[], CompactionEngine], events: Sequence[SessionEvent], trigger: Trigger
) -> None:
    """Check that an engine which is asked again and again, and gets good summaries, soon leaves the surface alone.

    Args:
        make_engine: makes the engine.
        events: a log.
        trigger: why the engine is asked.
    """
    session = _session(events, _NARROW)
    engine = make_engine()
    times = len(session.surface) + 2
    for _ in range(times):
        before = session.surface.generation
        _run(engine, session, trigger, ScriptedSummarizer(["what matters"]), is_async=False)
        if session.surface.generation == before:
            return
    raise AssertionError(f"asked {times} times, the engine still finds something to do")


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


def _session(events: Sequence[SessionEvent], window: int) -> Session:
    """Make a session between turns whose log is one of the past."""
    session = Session(SessionHeader(id="s", created_at=0), clock=partial(next, count(1)))
    for event in events:
        session.receive(event)
    for closer in session.closers():
        session.receive(closer)
    session.append("session/end-seed", {})
    session.append("request/context", {"provider": "p", "model": "m", "contextWindow": window})
    return session


def _run(
    engine: CompactionEngine, session: Session, trigger: Trigger, summarizer: ScriptedSummarizer, *, is_async: bool
) -> tuple[EngineReport | None, BaseException | None]:
    """Ask an engine, and return its report, and what came out of it instead: an error of ours, or of the summarizer."""
    try:
        if is_async:
            return asyncio.run(engine.acompact(session, trigger, summarize=summarizer.ask)), None
        return engine.compact(session, trigger, summarize=summarizer), None
    except (CompactionError, SummarizerError, asyncio.CancelledError) as error:
        # An event loop makes a cancellation anew on its way out.
        is_cancelled = isinstance(error, asyncio.CancelledError) and summarizer.raised
        return None, summarizer.raised[-1] if is_cancelled else error


def _check_written(log: Sequence[SessionEvent], begin: int, requests: Sequence[list[Any]]) -> None:
    fold = BracketFold()
    shadowed = {replacement.seq: replacement.shadowed_seqs for replacement in naive_surface(log).replacements}
    for event in log:
        if event.seq >= begin:
            fold.check(event)
            _hold(not is_append_surface_event(event), f"{event} was appended to the conversation")
            if is_compact_checkpoint(event):
                behind = log[event.seq - 1].type
                _hold(behind == "compact/summary", f"the checkpoint at seq {event.seq} stands behind a {behind}")
                derived = [derive_message(log[seq]) for seq in shadowed[event.seq]]
                sent = [message for message in derived if message is not None]
                asked = [messages[:-1] for messages in requests]
                _hold(sent in asked, f"what the checkpoint at seq {event.seq} replaces was not what was summarised")
            elif isinstance(event.surface_op, Replace):
                _hold(len(shadowed[event.seq]) == 1, f"{event} replaces several nodes and is no checkpoint")
        fold.apply(event)


def _orphans(surface_events: Iterable[SessionEvent]) -> Counter[str]:
    """Count, by call id, the results on a surface that answer no call which stands open before them."""
    is_open: Counter[str] = Counter()
    orphans: Counter[str] = Counter()
    for event in surface_events:
        message = message_of(event.type, event.data)
        if event.type == "assistant/message":
            is_open.update(call["id"] for call in tool_calls_of(message))
        elif event.type == "tool/result":
            call_id = message["source"]["callId"]
            found = is_open if is_open[call_id] else orphans
            found[call_id] += -1 if found is is_open else 1
    return orphans


def _nameless(events: Iterable[SessionEvent]) -> list[Any]:
    """Return events without their times, and with numbers for the ids of compactions and checkpoints."""
    wires = [{**event.to_wire(), "time": 0} for event in events]
    names = [wire["data"][key] for wire in wires for key in ("compactionId", "id") if key in wire["data"]]
    text = lossless_json.encode(wires).decode()
    for number, name in enumerate(dict.fromkeys(names)):
        text = text.replace(name, f"#{number}")
    return [text]


def _hold(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise AssertionError(otherwise)

"""The laws of compaction engines, each a function that raises `AssertionError` for what breaks it, and their test.

A law takes an engine, which serves any number of sessions, and a log out of `worked_logs`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, get_args

import hypothesis
from hypothesis import given, note
from hypothesis import strategies as st

from dsh_compact.bracket import BracketFold
from dsh_compact.checkpoint import is_compact_checkpoint
from dsh_compact.engine import Trigger
from dsh_compact.errors import CompactionError, InvalidArgumentError
from dsh_compact.meter import TokenMeter
from dsh_compact.summary import Summary
from dsh_compact.testing.logs import worked_logs
from dsh_compact.testing.summarizers import ScriptedSummarizer, SummarizerError, answers
from dsh_session import (
    COMPACT_RECORDS,
    Replace,
    derive_message,
    is_append_surface_event,
    lossless_json,
    message_of,
    tool_calls_of,
)
from dsh_session.testing import naive_surface, session_of, show_log
from dsh_session.testing.assertions import hold, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import SearchStrategy

    from dsh_compact.engine import CompactionEngine, EngineReport
    from dsh_compact.meter import Meter
    from dsh_compact.testing.summarizers import Answer
    from dsh_session import Session, SessionEvent

TRIGGERS: Final[tuple[Trigger, ...]] = get_args(Trigger)
_WIDE, _NARROW = 10**9, 400  # context windows, in tokens, that every session of `worked_logs` fits, and that few do


def engine_test(
    engine: CompactionEngine,
    *,
    meter: Meter | None = None,
    logs: SearchStrategy[list[SessionEvent]] | None = None,
    scripts: SearchStrategy[list[Answer]] | None = None,
    settings: hypothesis.settings | None = None,
) -> Callable[[], None]:
    """Make a test of everything that binds a compaction engine.

    It is given a name where pytest looks for tests: ``test_mine = engine_test(MyEngine())``.

    Args:
        engine: the engine; it serves every session that the test makes.
        meter: what the engine measures with; `TokenMeter` when None.
        logs: what the sessions have behind them; `worked_logs` when None.
        scripts: what the summarizer gives in turn; up to three of `answers` when None.
        settings: of Hypothesis; those of the loaded profile, without a deadline, when None.

    Returns:
        A test without arguments, for pytest to find or for anybody to call.
    """
    if isinstance(engine, type):
        raise TypeError(f"engine_test is given {engine!r}; it is an engine, and not what makes one")

    @settings or hypothesis.settings(deadline=None)
    @given(
        events=worked_logs() if logs is None else logs,
        script=st.lists(answers(), min_size=1, max_size=3) if scripts is None else scripts,
    )
    def test(events: list[SessionEvent], script: list[Answer]) -> None:
        note(show_log(events))
        check_engine_laws(engine, events, script, meter=meter)

    return test


def check_engine_laws(
    engine: CompactionEngine,
    events: Sequence[SessionEvent],
    script: Sequence[Answer],
    *,
    meter: Meter | None = None,
) -> None:
    """Check every law that binds every engine, for every trigger.

    The session has the log, repaired as `SessionStore.resume` does it; its latest ``request/context`` says what the
    context window is, and the engine must go by that.

    Args:
        engine: the engine.
        events: a log, of `worked_logs` for instance.
        script: what the summarizer gives in turn; see `answers`.
        meter: what the engine measures with; `TokenMeter` when None.
    """
    check_leaves_alone_what_fits(engine, events)
    for trigger in TRIGGERS:
        check_lands_whole_or_not_at_all(engine, events, trigger, script, meter=meter)
        check_async_equals_sync(engine, events, trigger, script)
        check_comes_to_rest(engine, events, trigger)


def check_leaves_alone_what_fits(engine: CompactionEngine, events: Sequence[SessionEvent]) -> None:
    """Check that under pressure an engine does nothing to a session that fits, writes nothing and asks for nothing.

    Args:
        engine: the engine.
        events: a log.
    """
    for is_async in (False, True):
        session = _session(events, _WIDE)
        before = session.pending
        summarizer = ScriptedSummarizer(["what matters"])
        report, error = _run(engine, session, "pressure", summarizer, is_async=is_async)
        hold(report is None and error is None, f"a session that fits was given {report or error!r}")
        hold(session.pending == before, f"a session that fits was written to: {session.pending[len(before) :]}")
        hold(not summarizer.requests, "a summary of a session that fits was asked for")


def check_lands_whole_or_not_at_all(
    engine: CompactionEngine,
    events: Sequence[SessionEvent],
    trigger: Trigger,
    script: Sequence[Answer],
    *,
    meter: Meter | None = None,
) -> None:
    """Check that what an engine does is in the log, in order, and takes nothing from anybody.

    No lock stays behind, and brackets are well formed. Nothing is said in anybody's name: all that enters the surface
    are checkpoints, each directly behind its summary, and replacements of single nodes. What a checkpoint stands for
    was summarised, exactly as the model was sent it, by an answer that is a whole text, and the checkpoint cites start,
    summary and all that it stands for. No result loses its call, and the surface does not grow. A cancellation comes
    out, and no error says that what the engine asked for itself could not be. Where the engine says that it did
    nothing, it wrote nothing.

    Args:
        engine: the engine.
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
        report, error = _run(engine, session, trigger, summarizer, is_async=is_async)
        log = session.pending
        written = log[len(before) :]
        hold(log[: len(before)] == before, "what was in the log before is no longer there")
        hold(bool(written) or session.surface.nodes == nodes_before, "the surface changed without an event")
        if report is None and error is None:
            hold(not written, f"nothing was reported, and {written} were written")
        hold(session.open_compaction is None, f"the compaction at seq {session.open_compaction} was left open")
        hold(not isinstance(error, InvalidArgumentError), f"the engine asked for what cannot be: {error!r}")
        _check_written(log, len(before), summarizer.requests)
        given = script[: len(summarizer.requests)]
        is_landed = any(map(is_compact_checkpoint, written))
        hold(not is_landed or any(map(_is_whole_text, given)), f"a checkpoint was made of {given}")
        hold(len(session.surface) <= len(nodes_before), "the surface has more nodes than before")
        hold(
            sum(map(price, session.messages())) <= sum(map(price, messages_before)),
            "the surface costs more than before",
        )
        orphans = _orphans(session.surface_events()) - orphans_before
        hold(not orphans, f"the results of {sorted(orphans)} have lost their calls")
        cancellations = [raised for raised in summarizer.raised if not isinstance(raised, Exception)]
        hold(cancellations in ([], [error]), f"{cancellations} was kept back")


def check_async_equals_sync(
    engine: CompactionEngine,
    events: Sequence[SessionEvent],
    trigger: Trigger,
    script: Sequence[Answer],
) -> None:
    """Check that ``compact`` and ``acompact`` ask for the same and write the same, but for the names they make up.

    Args:
        engine: the engine.
        events: a log.
        trigger: why the engine is asked.
        script: what the summarizer gives in turn.
    """
    seen = []
    for is_async in (False, True):
        session = _session(events, _NARROW)
        begin = session.next_seq
        summarizer = ScriptedSummarizer(script)
        _, error = _run(engine, session, trigger, summarizer, is_async=is_async)
        seen.append((_nameless(session.pending[begin:]), len(summarizer.requests), type(error)))
    hold(seen[0] == seen[1], f"compact gave {seen[0]}, and acompact {seen[1]}")


def check_comes_to_rest(engine: CompactionEngine, events: Sequence[SessionEvent], trigger: Trigger) -> None:
    """Check that an engine which is asked again and again, and gets good summaries, soon leaves the surface alone.

    Args:
        engine: the engine.
        events: a log.
        trigger: why the engine is asked.
    """
    session = _session(events, _NARROW)
    times = len(session.surface) + 2
    for _ in range(times):
        before = session.surface.generation
        _run(engine, session, trigger, ScriptedSummarizer(["what matters"]), is_async=False)
        if session.surface.generation == before:
            return
    raise AssertionError(f"asked {times} times, the engine still finds something to do")


def _session(events: Sequence[SessionEvent], window: int) -> Session:
    """Make a session between turns whose log is one of the past."""
    session = session_of(events)
    for repair in session.repair_events():
        session.append_event(repair)
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
            with taken("what was written"):
                fold.check(event)
            hold(not is_append_surface_event(event), f"{event} was appended to the conversation")
            if is_compact_checkpoint(event):
                behind = log[event.seq - 1].type
                hold(behind == "compact/summary", f"the checkpoint at seq {event.seq} stands behind a {behind}")
                derived = [derive_message(log[seq]) for seq in shadowed[event.seq]]
                sent = [message for message in derived if message is not None]
                asked = [messages[:-1] for messages in requests]
                hold(sent in asked, f"what the checkpoint at seq {event.seq} replaces was not what was summarised")
                start = max(each.seq for each in log[: event.seq] if COMPACT_RECORDS.get(each.type) == "start")
                uncited = {start, event.seq - 1, *shadowed[event.seq]}.difference(event.source_event_seqs or ())
                hold(not uncited, f"the checkpoint at seq {event.seq} does not cite {sorted(uncited)}")
            elif isinstance(event.surface_op, Replace):
                hold(len(shadowed[event.seq]) == 1, f"{event} replaces several nodes and is no checkpoint")
        fold.apply(event)


def _is_whole_text(answer: Answer) -> bool:
    """Tell whether an answer is one that may become a checkpoint: whole, and text, beside which a model may think."""
    match answer:
        case str():
            return bool(answer.strip())
        case Summary(content, is_cut_off=False):
            kinds = {block["type"] for block in content}
            texts = [block["text"] for block in content if block["type"] == "text"]
            return kinds <= {"text", "reasoning", "tool-call"} and bool("".join(texts).strip())
        case _:
            return False


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

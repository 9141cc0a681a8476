"""The standard engine: when it acts, what it keeps, how it ends; and the laws of any engine."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_compact import (
    BasicCompactionEngine,
    CompactionBusyError,
    CompactionError,
    CompactionPolicy,
    CompactionResult,
    ContextWindowUnknownError,
    EngineReport,
    InvalidArgumentError,
    NoProgressError,
    Summary,
    SummaryRejectedError,
    SurfaceLedger,
    TokenMeter,
    ToolResultPruner,
    begin_compaction,
    check_brackets,
)
from dsh_compact.testing import ScriptedSummarizer, check_engine_laws, engine_test, worked_logs
from dsh_session import APPEND, Replace, lossless_json, user_message
from played import ROUTE, WORDS, in_short, in_short_later, names, new_session, play, played, types
from stored import say

if TYPE_CHECKING:
    from dsh_compact import SummaryRequest
    from dsh_session import Session, SessionEvent

TEXT: Any = {"type": "text", "text": "in short"}
TIGHT = CompactionPolicy(threshold_tokens=200, retain_tokens=0)


def measure(session: Session) -> int:
    return TokenMeter().estimate_request(session.request_header(), session.messages())


def compact(session: Session, policy: CompactionPolicy = TIGHT, trigger: Any = "pressure") -> EngineReport | None:
    return BasicCompactionEngine(policy).compact(session, trigger, summarize=in_short)


QUICK = settings(deadline=None, max_examples=30)
test_the_standard_engine_keeps_every_law = engine_test(BasicCompactionEngine(), settings=QUICK)
test_the_standard_engine_with_a_pruner_keeps_every_law = engine_test(
    BasicCompactionEngine(pruner=ToolResultPruner(300, 100, 50)), settings=QUICK
)


@settings(deadline=None, max_examples=12)
@given(worked_logs(), st.integers(0, 400), st.integers(0, 3))
def test_the_laws_hold_for_any_policy(events: list[SessionEvent], retain: int, retries: int) -> None:
    """What is kept and how often it is tried changes nothing in what an engine owes."""
    policy = CompactionPolicy(retain_tokens=retain, compaction_retries=retries)
    check_engine_laws(BasicCompactionEngine(policy), events, ["", "what matters"])


@pytest.mark.parametrize("trigger", ["pressure", "overflow", "manual"])
def test_compact_and_acompact_do_the_same(trigger: Any) -> None:
    """The coroutine takes the same steps: it lands equal events, and reports the same."""
    # given
    sessions = [played("U A[a] R[a] A U A U") for _ in range(2)]
    engine = BasicCompactionEngine(TIGHT)
    # when
    reports = [
        engine.compact(sessions[0], trigger, summarize=in_short),
        asyncio.run(engine.acompact(sessions[1], trigger, summarize=in_short_later)),
    ]
    # then
    assert all(report is not None and report.compactions for report in reports)
    assert types(sessions[0].pending) == types(sessions[1].pending)
    assert sessions[0].surface.nodes == sessions[1].surface.nodes
    results = [(result.checkpoint_seq, result.shadowed_seqs) for report in reports for result in report.compactions]
    assert results[0] == results[1]


@pytest.mark.parametrize("excess", [-1, 0])
def test_pressure_acts_when_the_request_reaches_the_threshold(excess: int) -> None:
    """A token below it nothing is done and nothing is written; at the threshold it compacts."""
    # given
    session = played("U A U A U")
    session.append("request/header", {"header": {"config": ROUTE, "system": WORDS, "tools": [{"name": "run"}]}})
    policy = CompactionPolicy(threshold_tokens=measure(session) - excess, retain_tokens=0)
    before = session.pending
    # when
    report = compact(session, policy)
    # then
    assert (excess == 0) == (report is not None)
    assert (excess == 0) == (session.pending != before)


def test_the_threshold_and_the_tail_are_parts_of_the_window_that_the_log_names() -> None:
    """The latest request context says the window; the policy's own is for logs that do not."""
    # given
    session = played("U A U A U A U")
    tokens = measure(session)
    policy = CompactionPolicy(threshold_ratio=0.5, retain_ratio=0.25, context_window=1)
    session.append("request/context", {**ROUTE, "contextWindow": 2 * tokens + 2})
    assert compact(session, policy) is None
    session.append("request/context", {**ROUTE, "contextWindow": 2 * tokens})
    # when
    report = compact(session, policy)
    # then
    assert report is not None
    assert (tokens, measure(session)) == (report.tokens_before, report.tokens_after)
    assert names(session)[0] == "C"
    kept = session.messages()[1:]
    price = TokenMeter().estimate_messages
    assert price(kept) >= tokens // 2 > price(kept[1:])


@pytest.mark.parametrize("window", [True, 0, -1, "1000"])
def test_without_a_context_the_policy_s_window_counts(window: Any) -> None:
    """A window that is none counts as unknown. A number of tokens in the policy wins over every ratio."""
    session = played("U A U A U")
    session.append("request/context", {**ROUTE, "contextWindow": window})
    tokens = measure(session)
    assert compact(session, CompactionPolicy(threshold_ratio=1, context_window=tokens + 1)) is None
    assert compact(session, CompactionPolicy(threshold_ratio=1, context_window=tokens)) is not None
    session = played("U A U A U")
    assert compact(session, CompactionPolicy(threshold_tokens=tokens + 1, context_window=1)) is None


def test_an_unknown_window_is_an_error_that_names_the_model() -> None:
    """Pressure cannot be measured then; overflow and manual compactions work all the same."""
    # given
    session = played("U A U A U")
    session.append("request/header", {"header": {"config": ROUTE}})
    before = session.pending
    # when
    with pytest.raises(ContextWindowUnknownError, match="no context window for model 'm' of provider 'p'") as caught:
        compact(session, CompactionPolicy())
    # then
    assert (caught.value.provider, caught.value.model) == ("p", "m")
    assert isinstance(caught.value, ValueError)
    assert before == session.pending
    assert compact(session, CompactionPolicy(), "manual") is not None
    play(session, "U A U")
    assert compact(session, CompactionPolicy(), "overflow") is not None


def test_a_policy_may_follow_from_the_model() -> None:
    """A function is asked with the route of the next request, and with None before the first."""
    # given
    asked: list[Any] = []

    def policy_for(provider: str | None, model: str | None) -> CompactionPolicy:
        asked.append((provider, model))
        return CompactionPolicy(threshold_tokens=0 if model == "small" else 10**9)

    engine = BasicCompactionEngine(policy_for)
    session = played("U A U A U")
    found = []
    # when
    for model in (None, "large", "small"):
        if model is not None:
            session.append("request/header", {"header": {"config": {"provider": "p", "model": model}}})
        try:
            found.append(engine.compact(session, "pressure", summarize=in_short))
        except NoProgressError as error:
            found.append(error)
    # then
    assert asked == [(None, None), ("p", "large"), ("p", "small")]
    assert found[:2] == [None, None]
    assert isinstance(found[2], NoProgressError)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("threshold_ratio", 1.1),
        ("threshold_ratio", True),
        ("retain_ratio", -0.1),
        ("retain_ratio", "0.5"),
        ("threshold_tokens", -1),
        ("retain_tokens", 1.0),
        ("compaction_retries", -1),
        ("compaction_retries", None),
        ("context_window", False),
        ("context_window", 0),
    ],
)
def test_a_wrong_setting_is_refused_by_name(setting: str, value: Any) -> None:
    """A ratio lies between 0 and 1, and a number is an int >= 0."""
    with pytest.raises(InvalidArgumentError, match=f"{setting}: {value!r} found") as caught:
        CompactionPolicy(**{setting: value})
    assert setting == caught.value.argument


def test_overflow_keeps_no_more_than_it_must() -> None:
    """All but the newest node goes, whatever the policy would keep, and however little the request measures."""
    session = played("U A U A U A")
    report = compact(session, CompactionPolicy(retain_tokens=10**6), "overflow")
    assert report is not None
    assert names(session) == ["C", "A"]


def test_a_manual_compaction_keeps_the_policy_s_tail() -> None:
    """It acts at any measure, keeps what the policy keeps, and its records carry the command that asked for it."""
    session = played("U A U A U A")
    tail = TokenMeter().estimate_messages(session.messages()[-2:])
    engine = BasicCompactionEngine(CompactionPolicy(retain_tokens=tail, threshold_tokens=10**9))
    assert engine.compact(session, "manual", summarize=in_short, source_command_id="k1") is not None
    assert names(session) == ["C", "U", "A"]
    assert [event.data["sourceCommandId"] for event in session.pending if event.type == "compact/start"] == ["k1"]


def test_a_manual_compaction_is_between_turns() -> None:
    """Inside a turn it is refused; pressure and overflow act there too, and their brackets carry the turn."""
    # given
    session = played("U A U A ( U")
    before = session.pending
    # when
    with pytest.raises(InvalidArgumentError, match="manual inside turn"):
        compact(session, TIGHT, "manual")
    # then
    assert before == session.pending
    compact(session, TIGHT, "overflow")
    assert [session.open_turn.turn] * 2 == [
        event.data["turn"] for event in session.pending if event.type in ("compact/start", "compact/end")
    ]


def test_an_unknown_trigger_is_refused() -> None:
    """The three triggers are named."""
    with pytest.raises(InvalidArgumentError, match="'idle' found; it is pressure, overflow or manual"):
        compact(played("U A U"), TIGHT, "idle")


@pytest.mark.parametrize("trigger", ["pressure", "overflow", "manual"])
@pytest.mark.parametrize("script", ["", "U", "A[a]", "A[a] R[a]", "A[a] U"])
def test_where_no_cut_is_balanced_nothing_is_written(trigger: Any, script: str) -> None:
    """With nothing to part from the newest node, or a call open across every cut, there is nothing to do."""
    session = played(script)
    before = session.pending
    assert compact(session, CompactionPolicy(threshold_tokens=0), trigger) is None
    assert before == session.pending


@pytest.mark.parametrize("trigger", ["pressure", "overflow", "manual"])
def test_what_costs_no_more_than_the_frame_is_not_summarised(trigger: Any) -> None:
    """No summary of it could be accepted, so none is asked for."""
    # given
    session = new_session()
    for text in ("hi", "hello", "bye"):
        say(session, text)
    before = session.pending
    summarizer = ScriptedSummarizer(["in short"])
    # when
    report = BasicCompactionEngine(TIGHT).compact(session, trigger, summarize=summarizer)
    # then
    assert report is None
    assert before == session.pending
    assert summarizer.requests == []


@pytest.mark.parametrize("trigger", ["pressure", "overflow", "manual"])
def test_a_live_compaction_is_in_the_way(trigger: Any) -> None:
    """The engine says so before it writes anything, a pruned result included."""
    # given
    session = played("U A[a] R[a] U")
    start = session.append("compact/start", {"compactionId": "c", "turn": None})
    before = session.pending
    engine = BasicCompactionEngine(TIGHT, pruner=ToolResultPruner(100, 10, 10))
    # when
    with pytest.raises(CompactionBusyError) as caught:
        engine.compact(session, trigger, summarize=in_short)
    # then
    assert start.seq == caught.value.seq
    assert before == session.pending


def test_a_session_that_fits_is_not_in_anybody_s_way() -> None:
    """With nothing to do, a live compaction of somebody else is no error."""
    session = played("U A U")
    begin_compaction(session, 0, 1)
    assert compact(session, CompactionPolicy(threshold_tokens=10**6)) is None


def test_pruning_comes_first_and_may_be_enough() -> None:
    """When shortened results relieve the pressure, nothing is summarised."""
    # given
    session = played("U A[a] R[a] A U")
    long = session.surface.event(2).data
    long["message"]["content"][0]["content"] = [{"type": "text", "text": "x" * 20_000}]
    session.append("tool/result", long, Replace(2, 2), [2])
    summarizer = ScriptedSummarizer(["in short"])
    policy = CompactionPolicy(threshold_tokens=2000)
    # when
    report = BasicCompactionEngine(policy, pruner=ToolResultPruner()).compact(session, "pressure", summarize=summarizer)
    # then
    assert report is not None
    assert (report.pruned_seqs, report.compactions) == ((7,), ())
    assert report.tokens_before > 2000 > report.tokens_after == measure(session)
    assert summarizer.requests == []
    assert types(session.pending[6:]) == ["compact/prune", "tool/result"]


def test_pruning_that_is_not_enough_is_followed_by_a_compaction() -> None:
    """Both are reported, and the pruned copy is what is summarised."""
    # given
    session = played("U A[a] R[a] A U")
    engine = BasicCompactionEngine(TIGHT, pruner=ToolResultPruner(100, 20, 20))
    summarizer = ScriptedSummarizer(["in short"])
    # when
    report = engine.compact(session, "pressure", summarize=summarizer)
    # then
    assert report is not None
    assert report.pruned_seqs == (6,)
    assert [result.shadowed_seqs for result in report.compactions] == [(0, 1, 6, 3)]
    assert "left out" in summarizer.requests[0][2]["content"][0]["content"][0]["text"]


def test_pruning_alone_that_is_not_enough_is_no_progress() -> None:
    """What was pruned stays pruned; the error says what the request measures now."""
    session = played("A[a,b] R[a] U")
    engine = BasicCompactionEngine(TIGHT, pruner=ToolResultPruner(100, 20, 20))
    with pytest.raises(NoProgressError) as caught:
        engine.compact(session, "pressure", summarize=in_short)
    assert (measure(session), 200) == (caught.value.tokens, caught.value.limit)
    assert types(session.pending[3:]) == ["compact/prune", "tool/result"]


def test_each_retry_keeps_half_as_much() -> None:
    """Attempts go on until the request is below the threshold, as many as the policy allows."""
    # given
    session = played("U A U A U A U A U A U")
    whole = TokenMeter().estimate_messages(session.messages())
    policy = CompactionPolicy(threshold_tokens=whole * 7 // 10, retain_tokens=whole * 3 // 4, compaction_retries=5)
    summarizer = ScriptedSummarizer(["in short"])
    # when
    report = BasicCompactionEngine(policy).compact(session, "pressure", summarize=summarizer)
    # then
    assert report is not None
    assert len(report.compactions) == 2
    assert [CompactionResult] * 2 == [type(result) for result in report.compactions]
    assert report.compactions[0].checkpoint_seq == report.compactions[1].shadowed_seqs[0]
    assert report.tokens_after < whole * 7 // 10
    check_brackets(session.pending)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_attempts_are_bounded(retries: int) -> None:
    """When the request does not get below the threshold, the engine stops and says so; what landed stays."""
    # given
    session = played("U A U A U A U A U A U")
    whole = TokenMeter().estimate_messages(session.messages())
    policy = CompactionPolicy(threshold_tokens=1, retain_tokens=whole // 2, compaction_retries=retries)
    summarizer = ScriptedSummarizer(["in short"])
    # when
    with pytest.raises(NoProgressError) as caught:
        BasicCompactionEngine(policy).compact(session, "pressure", summarize=summarizer)
    # then
    assert (measure(session), 1) == (caught.value.tokens, caught.value.limit)
    assert f"measures {measure(session)} tokens; it must come below 1" in str(caught.value)
    assert 1 <= len(summarizer.requests) <= 1 + retries
    assert names(session)[0] == "C"


@pytest.mark.parametrize("room", [0, 1])
def test_progress_is_to_come_below_the_threshold(room: int) -> None:
    """A request that measures exactly the threshold is still too long."""
    # given
    twin, session = played("U A U A U"), played("U A U A U")
    compact(twin, trigger="overflow")
    policy = CompactionPolicy(threshold_tokens=measure(twin) + room, retain_tokens=0)
    # when
    if room:
        assert compact(session, policy) is not None
    else:
        with pytest.raises(NoProgressError):
            compact(session, policy)
    # then
    assert measure(twin) == measure(session)


def test_a_range_that_holds_nothing_at_first_is_sought_with_less_kept() -> None:
    """Where the tail to keep leaves no balanced cut, a retry keeps half, and may find one."""
    session = played("A[a] R[a] U A U")
    tail = TokenMeter().estimate_messages(session.messages()[1:])
    policy = CompactionPolicy(threshold_tokens=1, retain_tokens=tail, compaction_retries=1)
    with pytest.raises(NoProgressError):
        compact(session, policy)
    assert names(session)[0] == "C"


def test_a_rejected_summary_is_asked_for_again_under_pressure() -> None:
    """Each failed attempt is in the log; the first that is accepted lands."""
    # given
    session = played("U A U A U")
    policy = CompactionPolicy(threshold_tokens=300, retain_tokens=0, compaction_retries=2)
    summarizer = ScriptedSummarizer(["", Summary([TEXT], is_cut_off=True), "in short"])
    # when
    report = BasicCompactionEngine(policy).compact(session, "pressure", summarize=summarizer)
    # then
    assert report is not None
    assert len(report.compactions) == 1
    failed = ["compact/start", "compact/end"]
    landed = ["compact/start", "compact/summary", "user/message", "compact/end"]
    assert types(session.pending[5:]) == [*failed, *failed, *landed]


@pytest.mark.parametrize(("trigger", "attempts"), [("pressure", 2), ("overflow", 1), ("manual", 1)])
def test_the_last_rejected_summary_is_an_error(trigger: Any, attempts: int) -> None:
    """Only pressure tries again; the surface is as it was, and no lock is left."""
    # given
    session = played("U A U A U")
    summarizer = ScriptedSummarizer([""])
    # when
    with pytest.raises(SummaryRejectedError, match="it has no text"):
        BasicCompactionEngine(TIGHT).compact(session, trigger, summarize=summarizer)
    # then
    assert attempts == len(summarizer.requests)
    assert session.surface.nodes == (0, 1, 2, 3, 4)
    assert session.open_compaction is None


@pytest.mark.parametrize("error", [ValueError("no route"), KeyboardInterrupt(), CompactionError("mine")])
def test_what_a_summarizer_raises_comes_out(error: BaseException) -> None:
    """It is not tried again: the bracket is closed with the error, and the caller decides."""
    session = played("U A U A U")
    summarizer = ScriptedSummarizer([error])
    with pytest.raises(type(error)) as caught:
        BasicCompactionEngine(TIGHT).compact(session, "pressure", summarize=summarizer)
    assert caught.value is error
    assert len(summarizer.requests) == 1
    assert types(session.pending[5:]) == ["compact/start", "compact/end"]


def test_stop_iteration_from_a_summarizer_is_no_answer() -> None:
    """An iterator that has run out is a mistake in the summarizer, and never an end without an error."""
    session = played("U A U A U")
    replies = iter(())
    with pytest.raises(RuntimeError):
        BasicCompactionEngine(TIGHT).compact(session, "manual", summarize=lambda _: next(replies))
    assert session.open_compaction is None


def test_a_summarizer_that_is_cancelled_frees_the_lock() -> None:
    """The cancellation goes on, and the bracket is closed with it."""
    # given
    session = played("U A U A U")

    async def cancelled() -> None:
        async def never(_: SummaryRequest) -> str:
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(BasicCompactionEngine(TIGHT).acompact(session, "manual", summarize=never))
        await asyncio.sleep(0)
        assert session.open_compaction == 5
        task.cancel()
        await task

    # when
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    # then
    assert session.open_compaction is None
    assert session.pending[-1].data["error"]["message"] == "CancelledError"
    assert session.surface.nodes == (0, 1, 2, 3, 4)


def test_a_summarizer_that_never_returns_is_bounded_by_its_caller() -> None:
    """A timeout around the call ends the compaction like any other cancellation."""
    # given
    session = played("U A U A U")

    async def never(_: SummaryRequest) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def bounded() -> None:
        async with asyncio.timeout(0.01):
            await BasicCompactionEngine(TIGHT).acompact(session, "pressure", summarize=never)

    # when
    with pytest.raises(TimeoutError):
        asyncio.run(bounded())
    # then
    assert types(session.pending[5:]) == ["compact/start", "compact/end"]
    assert session.open_compaction is None


def test_a_summarizer_gets_the_engine_s_words() -> None:
    """Instruction and frame can be replaced."""
    session = played("U A U A U")
    engine = BasicCompactionEngine(TIGHT, instruction="Sum up.", frame=lambda text: f"<{text}>")
    summarizer = ScriptedSummarizer(["in short"])
    engine.compact(session, "manual", summarize=summarizer)
    assert summarizer.requests[0][-1]["content"][0]["text"] == "Sum up."
    assert session.messages()[0]["content"][0]["text"] == "<in short>"


def test_another_meter_takes_the_place_of_ours() -> None:
    """It prices the header and each message, and nothing of ours is asked."""

    # given
    class ByMessage:
        def estimate_message(self, message: Any) -> int:
            return 1 if "plugin" in message["source"] else 2

        def estimate_header(self, header: Any) -> int:
            return 100 if header is None else 200

    session = played("U A U A U")
    engine = BasicCompactionEngine(CompactionPolicy(threshold_tokens=110, retain_tokens=4), meter=ByMessage())
    # when
    report = engine.compact(session, "pressure", summarize=in_short)
    # then
    assert report is not None
    assert (report.tokens_before, report.tokens_after) == (110, 105)
    assert names(session) == ["C", "A", "U"]


def test_every_node_is_decoded_once_in_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressure is measured again and again, and each call decodes what is new, and then only what is summarised."""
    # given
    session = played("U A[a] R[a] A U A U A U")
    session.append("request/context", {**ROUTE, "contextWindow": 10**6})
    read: list[bytes] = []
    decode = lossless_json.decode
    monkeypatch.setattr(lossless_json, "decode", lambda encoded: read.append(encoded) or decode(encoded))
    engine = BasicCompactionEngine(CompactionPolicy(retain_tokens=0))
    nodes = {event.encoded_data: event.seq for event in session.surface_events()}

    def decoded() -> list[int]:
        seqs = [nodes[encoded] for encoded in read if encoded in nodes]
        read.clear()
        return seqs

    # when
    found = []
    for _ in range(2):
        engine.compact(session, "pressure", summarize=in_short)
        found.append(decoded())
    event = say(session, "more")
    nodes[event.encoded_data] = event.seq
    engine.compact(session, "pressure", summarize=in_short)
    found.append(decoded())
    engine.compact(session, "manual", summarize=lambda request: str(len(request.messages)))
    found.append(decoded())
    # then
    assert [[*range(9)], [], [event.seq], [*range(9)]] == found


def test_a_ledger_is_what_a_naive_reading_finds() -> None:
    """Through appends, pruning and compactions prices, total and balance are those of the surface as it is."""
    # given
    session = new_session()
    meter = TokenMeter()
    for script in ("U A[a]", "R[a] A", "U A[b,c] R[c]", "A0 R[b] U"):
        play(session, script)
        for act in (lambda: None, lambda: ToolResultPruner(100, 20, 20).prune(session), lambda: compact(session)):
            act()
            # when
            ledger = SurfaceLedger.of(session.surface, meter)
            # then
            fresh = SurfaceLedger.of(
                type(session.surface).restore(
                    session.surface.nodes,
                    next_seq=session.next_seq,
                    generation=session.surface.generation,
                    fetch=lambda _: session.surface_events(),
                ),
                meter,
            )
            prices = {
                event.seq: meter.estimate_message(message)
                if (message := event.data.get("message", event.data))["content"]
                else 0
                for event in session.surface_events()
            }
            assert list(prices.items()) == list(ledger.tokens.items()) == list(fresh.tokens.items())
            assert sum(prices.values()) == ledger.total
            assert [fresh.pairing.balanced_after(seq) for seq in prices] == [
                ledger.pairing.balanced_after(seq) for seq in prices
            ]


def test_another_meter_has_a_ledger_of_its_own() -> None:
    """Prices are kept by the meter that set them."""
    session = played("U A")
    words = TokenMeter(count=lambda text: len(text.split()))
    first = SurfaceLedger.of(session.surface, TokenMeter())
    assert first is SurfaceLedger.of(session.surface, TokenMeter())
    assert SurfaceLedger.of(session.surface, words).total == words.estimate_messages(session.messages())
    assert session.surface.event(0).surface_op == APPEND


def test_a_ledger_lives_no_longer_than_its_surface() -> None:
    """What is kept of a session goes with it."""
    session = played("U A")
    ledger = weakref.ref(SurfaceLedger.of(session.surface, TokenMeter()))
    assert ledger() is SurfaceLedger.of(session.surface, TokenMeter())
    del session
    gc.collect()
    assert ledger() is None


class Broken(BasicCompactionEngine):
    """An engine that breaks a law; each of its children breaks one."""

    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        return await super().acompact(session, trigger, **arguments)


class WritesWhenItFits(Broken):
    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        session.append("note", None)
        return await super().acompact(session, trigger, **arguments)


class LeavesALock(Broken):
    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        report = await super().acompact(session, trigger, **arguments)
        if report is not None:
            session.append("compact/start", {"compactionId": "c", "turn": None})
        return report


class SaysSomething(Broken):
    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        report = await super().acompact(session, trigger, **arguments)
        if report is not None:
            say(session, "compacted")
        return report


class Forgets(Broken):
    """Replaces the tail unasked, by a message that is no checkpoint."""

    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        report = await super().acompact(session, trigger, **arguments)
        if report is not None:
            nodes = session.surface.nodes
            message = user_message("gone", source={"kind": "plugin", "plugin": "x"})
            session.append("user/message", message, Replace(nodes[0], nodes[-1]), nodes)
        return report


class SummarisesLess(Broken):
    """Asks for a summary of a part, and lets it stand for the whole."""

    async def acompact(self, session: Session, trigger: Any, *, summarize: Any, **_: Any) -> EngineReport | None:
        async def part(request: SummaryRequest) -> Any:
            request.messages[:-1] = request.messages[1:-1]
            return await summarize(request)

        return await super().acompact(session, trigger, summarize=part)


class PartsACall(Broken):
    """Replaces an assistant's message by one without its calls."""

    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        report = await super().acompact(session, trigger, **arguments)
        if report is not None:
            for event in session.surface_events():
                if event.type == "assistant/message":
                    data = event.data
                    data["message"]["content"] = [TEXT]
                    session.append("assistant/message", data, Replace(event.seq, event.seq), [event.seq])
        return report


class Swells(Broken):
    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        report = await super().acompact(session, trigger, **arguments)
        if report is not None:
            (node, *_) = session.surface.nodes
            session.append("user/message", user_message(WORDS * 5000), Replace(node, node), [node])
        return report


class NeverStopsAsking(Broken):
    async def acompact(self, session: Session, trigger: Any, *, summarize: Any, **_: Any) -> EngineReport | None:
        while True:
            try:
                return await super().acompact(session, trigger, summarize=summarize)
            except SummaryRejectedError:
                pass


class NeverRests(Broken):
    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        report = await super().acompact(session, trigger, **arguments)
        if report is None and trigger == "manual":
            (event, *_) = session.surface_events()
            session.append("user/message", event.data, Replace(event.seq, event.seq), [event.seq])
            report = EngineReport((), (), 0, 0)
        return report


class KeepsACancellationBack(Broken):
    async def acompact(self, session: Session, trigger: Any, **arguments: Any) -> EngineReport | None:
        try:
            return await super().acompact(session, trigger, **arguments)
        except asyncio.CancelledError:
            return EngineReport((), (), 0, 0)


class DiffersWhenAwaited(Broken):
    def compact(self, *_: Any, **__: Any) -> EngineReport | None:
        return None


@pytest.mark.parametrize(
    ("broken", "script", "found"),
    [
        (WritesWhenItFits, ["in short"], "a session that fits was written to"),
        (LeavesALock, ["in short"], "was left open"),
        (SaysSomething, ["in short"], "was appended to the conversation"),
        (Forgets, ["in short"], "replaces several nodes and is no checkpoint"),
        (SummarisesLess, ["in short"], "was not what was summarised"),
        (PartsACall, ["in short"], "have lost their calls"),
        (Swells, ["in short"], "the surface costs more than before"),
        (NeverStopsAsking, [""], "a summary was asked for more than 50 times"),
        (NeverRests, ["in short"], "still finds something to do"),
        (KeepsACancellationBack, [asyncio.CancelledError()], "was kept back"),
        (DiffersWhenAwaited, ["in short"], "compact gave"),
    ],
)
def test_the_laws_find_an_engine_that_breaks_one(broken: type[Broken], script: list[Any], found: str) -> None:
    """Each broken engine is told apart from a good one by the law that it breaks."""
    events = played("U A U A[a] R[a] A[b] R[b] U A[c] R[c]").pending
    policy = CompactionPolicy(retain_tokens=300)
    with pytest.raises(AssertionError, match=found):
        check_engine_laws(broken(policy), events, script)
    check_engine_laws(BasicCompactionEngine(policy), events, script)

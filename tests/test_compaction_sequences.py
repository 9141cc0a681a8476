"""The sequences that compaction is known to break on, each with the outcome that is right.

``U`` user, ``A`` assistant, ``A[x]`` calls x, ``R[x]`` the result of x, ``C`` a landed checkpoint.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from dsh_compact import (
    BasicCompactionEngine,
    CompactionBusyError,
    CompactionPolicy,
    Summary,
    SummaryRejectedError,
    ToolPairing,
    ToolResultPruner,
    begin_compaction,
    check_brackets,
)
from dsh_compact.testing import ScriptedSummarizer
from dsh_projections import HumanTranscript, ModelSurface, replay
from dsh_projections.testing import check_live_equals_replay, check_nothing_said_is_lost
from dsh_session import (
    APPEND,
    Replace,
    Session,
    is_append_surface_event,
    to_anthropic_messages,
    to_openai_chat,
    to_openai_responses,
    tool_result_message,
)
from dsh_session.testing import naive_surface
from played import IMAGE, in_short, in_short_later, names, play, played

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_session import SessionEvent, SessionStore

ALL = CompactionPolicy(threshold_tokens=200, retain_tokens=0)


def compact(session: Session, trigger: Any = "overflow") -> Any:
    return BasicCompactionEngine(ALL).compact(session, trigger, summarize=in_short)


def check_readers(events: Sequence[SessionEvent]) -> None:
    """Check every reader of a log: the human lost nothing, the model is sent the surface, brackets are in order."""
    check_nothing_said_is_lost(HumanTranscript, events)
    check_live_equals_replay(HumanTranscript, events)
    assert naive_surface(events).nodes == replay(ModelSurface(), events).nodes
    check_brackets(events, seed_length=len(events))


def check_sendable(session: Session) -> None:
    """Check that every provider takes the session's messages as they are."""
    for convert in (to_openai_chat, to_openai_responses, to_anthropic_messages):
        convert(session.messages())


def test_a_range_that_starts_numerically_above_its_end() -> None:
    """U A U A C: the next range goes from the checkpoint to an older message, by position."""
    # given
    session = played("U A U A")
    first = begin_compaction(session, 0, 1).commit("in short").checkpoint_seq
    # when
    second = begin_compaction(session, first, 3).commit("shorter").checkpoint_seq
    # then
    assert first > 3
    assert Replace(first, 3) == session.surface.event(second).surface_op
    assert (second,) == session.surface.nodes
    check_readers(session.pending)


def test_compacting_everything_twice_loses_nothing() -> None:
    """U A U A C(first two) U A C(all): the transcript has every line, and what left the surface was summarised."""
    # given
    session = played("U A U A")
    first = begin_compaction(session, 0, 1)
    expected = session.messages()
    first.commit("in short")
    play(session, "U A")
    before, sent = session.surface.nodes, session.messages()
    # when
    second = begin_compaction(session, before[0], before[-1])
    second.commit("all of it in short")
    # then
    assert expected[:2] == first.request.messages[:-1]
    assert sent == second.request.messages[:-1]
    assert len(session.surface) == 1
    appended = [event.seq for event in session.pending if is_append_surface_event(event)]
    entries = replay(HumanTranscript(), session.pending).entries
    assert appended == [entry.seq for entry in entries if entry.kind != "compaction"]
    assert [entry.summary for entry in entries if entry.kind == "compaction"] == ["in short", "all of it in short"]
    check_readers(session.pending)


@pytest.mark.parametrize(
    ("script", "cuts"),
    [
        ("U A[a,b] R[a] R[b] U", {0, 1, 4}),
        ("U A[a,b] R[b] R[a] U", {0, 1, 4}),
        ("A[a] U A[b] R[b] R[a] U", {0, 5}),
        ("U A[a] R[a] A[b] R[b] U", {0, 1, 3, 5}),
        ("U A[a] U A U", {0, 1}),
        ("U A[a] R[a] R[a] U", {0, 1, 3, 4}),
        ("R[a] U A U", {0, 1, 2, 3}),
    ],
)
def test_a_cut_falls_only_where_no_call_is_open(script: str, cuts: set[int]) -> None:
    """Whatever is to be kept, and whatever range is asked for, calls and their results stay together."""
    # given
    length = len(script.split())
    found = set()
    # when
    for retain in range(0, 1200, 40):
        session = played(script)
        policy = CompactionPolicy(retain_tokens=retain)
        report = BasicCompactionEngine(policy).compact(session, "manual", summarize=in_short)
        found.add(0 if report is None else len(report.compactions[0].shadowed_seqs))
    allowed = {end + 1 for end in range(length) if ToolPairing(played(script).surface_events()).balanced_after(end)}
    # then
    assert cuts == found
    assert cuts - {0} == allowed - {length}


@pytest.mark.parametrize("trigger", ["pressure", "overflow", "manual"])
def test_an_open_call_is_never_compacted_and_its_late_result_pairs(trigger: Any) -> None:
    """U A A[x] waits for an approval: what stands before it is compacted, and R[x] arrives after C."""
    # given
    session = played("U A U A[x]")
    # when
    assert compact(session, trigger) is not None
    between = names(session)
    play(session, "R[x]")
    # then
    assert between == ["C", "A[x]"]
    pairing = ToolPairing(session.surface_events())
    assert (pairing.open_calls, pairing.orphan_results) == ([], [])
    check_sendable(session)
    check_readers(session.pending)
    # when there is more behind it
    play(session, "U A")
    compact(session, trigger)
    # then
    assert names(session) == ["C", "A"]


@pytest.mark.parametrize("trigger", ["pressure", "overflow", "manual"])
def test_a_second_compaction_of_the_same_finds_nothing(trigger: Any) -> None:
    """U A U C C: a checkpoint alone is not compacted again, and nothing is written."""
    # given
    session = played("U A U A")
    first = compact(session, trigger)
    before = session.pending
    policy = CompactionPolicy(threshold_tokens=0, retain_tokens=0)
    # when
    second = BasicCompactionEngine(policy).compact(session, trigger, summarize=in_short)
    # then
    assert first is not None
    assert second is None
    assert before == session.pending
    assert names(session) == ["C", "A"]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_appended_during_summarisation_survives(is_async: bool) -> None:
    """Between turns it stands behind the checkpoint, and was not summarised."""
    # given
    session = played("U A U A")
    summarizer = ScriptedSummarizer(["in short"])

    def meanwhile(request: Any) -> Any:
        play(session, "U")
        return summarizer(request)

    async def meanwhile_later(request: Any) -> Any:
        await in_short_later(request)
        return meanwhile(request)

    engine = BasicCompactionEngine(ALL)
    # when
    if is_async:
        asyncio.run(engine.acompact(session, "manual", summarize=meanwhile_later))
    else:
        engine.compact(session, "manual", summarize=meanwhile)
    # then
    assert names(session) == ["C", "A", "U"]
    assert [message["id"] for message in summarizer.requests[0][:-1]] == ["U@0", "A@1", "U@2"]
    check_readers(session.pending)


def test_a_range_that_holds_the_only_user_message() -> None:
    """U A A: the checkpoint stands in the user's place, so every provider takes what is left."""
    session = played("U A A")
    compact(session)
    assert names(session) == ["C", "A"]
    assert [message["role"] for message in session.messages()] == ["user", "assistant"]
    check_sendable(session)
    check_readers(session.pending)


def test_an_empty_assistant_message_in_the_range() -> None:
    """It sends nothing, so it is not summarised and costs nothing; its node goes with the range."""
    # given
    session = played("U A0 A U")
    sent = session.messages()
    summarizer = ScriptedSummarizer(["in short"])
    # when
    report = BasicCompactionEngine(ALL).compact(session, "manual", summarize=summarizer)
    # then
    assert report is not None
    assert report.compactions[0].shadowed_seqs == (0, 1, 2)
    assert sent[:2] == summarizer.requests[0][:-1]
    assert names(session) == ["C", "U"]
    check_readers(session.pending)


def test_a_range_of_empty_assistant_messages_is_left_alone() -> None:
    """There is nothing to summarise in it."""
    session = played("A0 A0 U")
    before = session.pending
    assert compact(session) is None
    assert before == session.pending


def test_images_in_the_range_are_sent_and_leave_the_surface() -> None:
    """The summarizer sees them where they stood; the checkpoint is text; the transcript keeps them."""
    # given
    session = played("U! A[a]")
    result: Any = tool_result_message("a", [IMAGE], turn=0, step=1)
    session.append("tool/result", result, APPEND)
    play(session, "A U")
    sent = session.messages()
    summarizer = ScriptedSummarizer(["in short"])
    # when
    BasicCompactionEngine(ALL).compact(session, "overflow", summarize=summarizer)
    # then
    assert sent[:4] == summarizer.requests[0][:-1]
    assert [block for message in sent[:1] for block in message["content"] if block["type"] == "image"] == [IMAGE]
    assert "image" not in str(session.messages()[0]["content"])
    entries = replay(HumanTranscript(), session.pending).entries
    assert [entry.attachments for entry in entries if getattr(entry, "attachments", ())] == [(IMAGE,)] * 2
    check_sendable(session)


def test_duplicate_results_for_one_call_stand_in_nobody_s_way() -> None:
    """A[a] R[a] R[a]: the second answers nothing; all three go, or the second stays behind as it was."""
    # given
    session = played("U A[a] R[a] R[a] U")
    # when
    compact(session)
    # then
    assert names(session) == ["C", "U"]
    check_sendable(session)
    check_readers(session.pending)


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("is_landing", [False, True])
@pytest.mark.parametrize("kept", range(5))
def test_a_process_killed_between_any_two_events(
    store: SessionStore, kept: int, is_landing: bool, is_inside: bool
) -> None:
    """Reopened, readers are right at once; the lock holds until the session is resumed, and then blocks nothing."""
    # given
    session = store.create(id="s")
    play(session, "( U A U A" if is_inside else "U A U A")
    store.save(session)
    before = session.surface.nodes
    with begin_compaction(session, before[0], before[1], stability="range") as compaction:
        if is_landing:
            compaction.commit("in short")
    killed = store.load("s")
    for event in session.pending[:kept]:
        killed.append_event(event)
    store.save(killed)
    ends = len(session.pending)
    is_locked = 0 < kept < ends
    has_landed = is_landing and kept >= 3
    expected = [*(("C",) if has_landed else ("U", "A")), "U", "A"]
    # when it is only loaded
    loaded = store.load("s")
    # then
    assert expected == names(loaded)
    assert is_locked == (loaded.open_compaction is not None)
    check_readers(list(store.log("s")))
    if is_locked:
        with pytest.raises(CompactionBusyError):
            begin_compaction(loaded, loaded.surface.nodes[0], loaded.surface.nodes[-2])
        with pytest.raises(CompactionBusyError):
            compact(loaded)
    # when it is resumed
    resumed = store.resume("s")
    # then
    assert expected == names(resumed)
    assert resumed.open_compaction is None
    compact(resumed)
    store.save(resumed)
    assert names(resumed) == ["C", "A"]
    assert names(store.load("s")) == ["C", "A"]
    check_readers(list(store.log("s")))


SCRIPTS: dict[str, Any] = {
    "raises": ConnectionError("out of reach"),
    "nothing": "",
    "an error text longer than the range": "the service is overloaded, please try again later. " * 99,
    "only reasoning": [{"type": "reasoning", "text": "let me think"}],
    "an image": [{"type": "text", "text": "see"}, IMAGE],
    "is cancelled": asyncio.CancelledError(),
}


@pytest.mark.parametrize("trigger", ["pressure", "overflow", "manual"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_summarizer_that_fails_changes_no_surface(name: str, trigger: Any) -> None:
    """Whatever it comes up with instead of a summary, every attempt is closed, and the next one can begin."""
    # given
    session = played("U A[a] R[a] A U")
    answer = Summary(SCRIPTS[name]) if isinstance(SCRIPTS[name], list) else SCRIPTS[name]
    before = session.surface.nodes, session.messages()
    expected = type(answer) if isinstance(answer, BaseException) else SummaryRejectedError
    # when
    with pytest.raises(expected):
        asyncio.run(BasicCompactionEngine(ALL).acompact(session, trigger, summarize=ScriptedSummarizer([answer]).ask))
    # then
    assert before == (session.surface.nodes, session.messages())
    assert session.open_compaction is None
    assert session.pending[-1].type == "compact/end"
    assert session.pending[-1].data["error"]["message"].startswith(expected.__name__)
    check_readers(session.pending)
    assert compact(session, trigger) is not None


def test_a_pruned_result_that_is_compacted_is_whole_in_the_transcript() -> None:
    """Pruning and compaction are for the model; the human's card keeps the full text."""
    session = played("U A[a] R[a] A U")
    (full,) = [entry.text for entry in replay(HumanTranscript(), session.pending).entries if entry.kind == "tool"]
    ToolResultPruner(100, 20, 20).prune(session)
    compact(session)
    (card,) = [entry for entry in replay(HumanTranscript(), session.pending).entries if entry.kind == "tool"]
    assert full == card.text
    check_readers(session.pending)

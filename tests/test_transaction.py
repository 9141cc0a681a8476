"""One compaction as a transaction: what it checks, what it writes, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsh_compact import (
    INSTRUCTION,
    BracketError,
    CompactionBusyError,
    CompactionClosedError,
    CompactionError,
    InvalidArgumentError,
    Summary,
    SummaryRejectedError,
    SurfaceChangedError,
    TokenMeter,
    begin_compaction,
    check_brackets,
    is_compact_checkpoint,
)
from dsh_compact.summary import framed
from dsh_session import APPEND, NotJSONError, Replace, user_message
from played import IMAGE, ROUTE, WORDS, names, new_session, play, played, types
from stored import compact

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_compact import Compaction
    from dsh_session import Session, SessionStore

LANDED = ["compact/start", "compact/summary", "user/message", "compact/end"]
FAILED = ["compact/start", "compact/end"]
SHORT: Any = {"type": "text", "text": "in short"}


def price(session: Session, seqs: list[int]) -> int:
    return TokenMeter().estimate_messages(
        [event.data.get("message", event.data) for event in session.surface_events() if event.seq in seqs]
    )


def error_of(session: Session) -> str:
    return str(session.pending[-1].data["error"]["message"])


def test_a_commit_lands_the_checkpoint_directly_behind_its_summary() -> None:
    """Start, summary, checkpoint and end are written in that order, and each names what it belongs to."""
    # given
    session = played("U A[a] R[a] A U")
    session.append("request/header", {"header": {"config": ROUTE, "system": "be brief"}})
    begin, tokens = session.next_seq, price(session, [0, 1, 2, 3])
    # when
    compaction = begin_compaction(session, 0, 3, compaction_id="c1", source_command_id="k1")
    result = compaction.commit("in short")
    # then
    start, summary, checkpoint, end = session.pending[begin:]
    ids = {"compactionId": "c1", "sourceCommandId": "k1"}
    assert types(session.pending[begin:]) == LANDED
    assert ids | {"turn": None} == start.data == end.data
    assert summary.data == ids | {
        "summary": [SHORT],
        "shadowedRange": {"start": 0, "end": 3},
        "shadowedSeqs": [0, 1, 2, 3],
        "shadowedTokenCount": tokens,
        "provider": "p",
        "model": "m",
    }
    assert (Replace(0, 3), (start.seq, summary.seq, 0, 1, 2, 3)) == (
        checkpoint.surface_op,
        checkpoint.source_event_seqs,
    )
    assert is_compact_checkpoint(checkpoint)
    assert ids.items() <= checkpoint.data["source"].items()
    assert [{"type": "text", "text": framed("in short")}] == checkpoint.data["content"]
    assert (checkpoint.seq, 4) == session.surface.nodes
    assert ("c1", checkpoint.seq, (0, 1, 2, 3), tokens, price(session, [checkpoint.seq])) == (
        result.compaction_id,
        result.checkpoint_seq,
        result.shadowed_seqs,
        result.tokens_before,
        result.tokens_after,
    )
    assert not compaction.is_open
    check_brackets(session.pending)


def test_a_summary_record_keeps_what_the_summarizer_said_of_itself() -> None:
    """The raw output is kept where it is more than the text, and so are route, limit and usage."""
    # given
    session = played("U A U")
    raw: list[Any] = [{"type": "reasoning", "text": "let me think"}, {"type": "text", "text": " in short "}]
    # when
    begin_compaction(session, 0, 1).commit(
        Summary(raw, provider="q", model="small", max_tokens=99, usage={"outputTokens": 7})
    )
    # then
    record = session.pending[-3].data
    assert record["summary"] == [SHORT]
    assert raw == record["rawOutput"]
    assert (
        record["provider"],
        record["model"],
        record["maxTokens"],
        record["usage"],
    ) == ("q", "small", 99, {"outputTokens": 7})
    assert [{"type": "text", "text": framed("in short")}] == session.messages()[0]["content"]


def test_without_a_request_header_the_route_is_unknown() -> None:
    """Readers rely on a provider and a model, so a summary record always has them."""
    session = played("U A U")
    begin_compaction(session, 0, 1).commit("in short")
    record = session.pending[-3].data
    assert (record["provider"], record["model"]) == ("unknown", "unknown")


def test_each_compaction_has_an_id_of_its_own() -> None:
    """Where none is given, ids are minted, and none repeats."""
    session = played("U A U")
    ids = set()
    for _ in range(2):
        with begin_compaction(session, 0, 1) as compaction:
            ids.add(compaction.id)
    assert len(ids) == 2


def test_the_request_is_the_last_one_again_with_the_instruction_behind_it() -> None:
    """Header and messages are exactly as last sent, so a prefix cache serves; the instruction is not the user's."""
    # given
    session = played("U! A[a,b] R[b] R[a] A0 A U")
    header = {"config": ROUTE, "system": "be brief", "tools": [{"name": "run", "parameters": {"type": "object"}}]}
    session.append("request/header", {"header": header})
    sent = session.request_header(), session.messages()
    # when
    request = begin_compaction(session, 0, 5).request
    # then
    assert sent[0] == request.header
    assert sent[1][:5] == request.messages[:-1]
    assert request.messages[-1]["content"] == [{"type": "text", "text": INSTRUCTION}]
    assert request.messages[-1]["role"] == "user"
    assert request.messages[-1]["source"] == {"kind": "plugin", "plugin": "compact-instruction"}
    assert request.tokens == TokenMeter().estimate_messages(sent[1][:5])


def test_the_messages_of_a_request_are_the_summarizer_s_to_change() -> None:
    """They are read from the log once, and changing them changes nothing but themselves."""
    # given
    session = played("U A U")
    expected = session.messages()
    request = begin_compaction(session, 0, 1).request
    # when
    request.messages[0]["content"].clear()
    # then
    assert request.messages[0]["content"] == []
    assert expected == session.messages()


def test_instruction_frame_and_meter_are_the_caller_s() -> None:
    """Words and prices can be replaced; the default is only a default."""

    # given
    class Count:
        def estimate_message(self, message: Any) -> int:
            return 5 if message["content"][0]["text"] == "<in short>" else 3

        def estimate_header(self, header: Any) -> int:
            raise AssertionError(header)

    session = played("U A U")
    # when
    compaction = begin_compaction(session, 0, 1, meter=Count(), instruction="Sum up.", frame=lambda text: f"<{text}>")
    result = compaction.commit("in short")
    # then
    assert compaction.request.messages[-1]["content"][0]["text"] == "Sum up."
    assert session.messages()[0]["content"][0]["text"] == "<in short>"
    assert (result.tokens_before, result.tokens_after) == (6, 5)


@pytest.mark.parametrize(
    ("start", "end", "argument", "found"),
    [
        (9, 1, "start, end", "9..1 found"),
        (0, 9, "start, end", "0..9 found"),
        (2, 1, "start, end", "2..1 found"),
        (-1, 1, "start, end", "-1..1 found"),
        (0, 1, "end", "1 found; a tool call is open across the cut after it"),
        (0, 2, "end", "2 found; a tool call is open across the cut after it"),
        (2, 4, "start", "2 found; a tool call is open across the cut before it"),
        (3, 3, "start", "3 found; a tool call is open across the cut before it"),
    ],
)
def test_a_range_begins_and_ends_at_nodes_where_no_call_is_open(
    start: int, end: int, argument: str, found: str
) -> None:
    """Anything else is refused before the lock is taken."""
    # given
    session = played("U A[a,b] R[a] R[b] A U")
    before = session.pending
    # when
    with pytest.raises(InvalidArgumentError, match=r"found") as caught:
        begin_compaction(session, start, end)
    # then
    assert argument == caught.value.argument
    assert found in caught.value.reason
    assert before == session.pending


def test_one_checkpoint_alone_is_no_range() -> None:
    """It would become itself again; together with another node it is a range."""
    # given
    session = played("U A U A")
    seq = begin_compaction(session, 0, 1).commit("in short").checkpoint_seq
    before = session.pending
    # when
    with pytest.raises(InvalidArgumentError, match=f"{seq}..{seq} is one checkpoint") as caught:
        begin_compaction(session, seq, seq)
    # then
    assert caught.value.argument == "start, end"
    assert before == session.pending
    assert (seq, 2) == begin_compaction(session, seq, 2).nodes


def test_one_compaction_at_a_time() -> None:
    """While one is live another one is refused, and says which is in the way."""
    # given
    session = played("U A U")
    compaction = begin_compaction(session, 0, 1)
    # when
    with pytest.raises(CompactionBusyError) as caught:
        begin_compaction(session, 0, 1)
    # then
    assert caught.value.seq == 3
    compaction.fail("enough")
    assert begin_compaction(session, 0, 1).is_open


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "it has no text"),
        (WORDS * 99, "framed, it costs"),
        (Summary([{"type": "reasoning", "text": "let me think"}]), "it has no text"),
        (Summary([SHORT, IMAGE]), "it carries a block of type 'image'"),
        (Summary([SHORT], is_cut_off=True), "it was cut off"),
    ],
)
def test_a_summary_that_cannot_stand_for_the_range_fails_the_compaction(answer: Summary | str, reason: str) -> None:
    """It is refused, the lock is freed with the reason, and the surface is as it was."""
    # given
    session = played("U A U")
    compaction = begin_compaction(session, 0, 1)
    # when
    with pytest.raises(SummaryRejectedError, match=reason):
        compaction.commit(answer)
    # then
    assert types(session.pending[3:]) == FAILED
    assert error_of(session).startswith(f"SummaryRejectedError: summary rejected: {reason}")
    assert session.surface.nodes == (0, 1, 2)
    assert session.open_compaction is None
    check_brackets(session.pending)


@pytest.mark.parametrize("cost", [-1, 0])
def test_a_framed_summary_must_cost_less_than_what_it_replaces(cost: int) -> None:
    """At the same price it is refused; at a token less it lands."""
    # given
    session = played("U U")
    room = price(session, [0]) - TokenMeter().estimate_message(user_message(framed("")))
    compaction = begin_compaction(session, 0, 0)
    text = "x" * (4 * (room + cost))
    # when
    if cost < 0:
        compaction.commit(text)
    else:
        with pytest.raises(SummaryRejectedError, match="it must cost less"):
            compaction.commit(text)
    # then
    assert (cost < 0) == ("C" in names(session))


def test_a_summary_that_cannot_be_recorded_fails_the_compaction() -> None:
    """What is no JSON is refused by the log, and the bracket is closed around nothing."""
    # given
    session = played("U A U")
    compaction = begin_compaction(session, 0, 1)
    # when
    with pytest.raises(NotJSONError):
        compaction.commit(Summary([SHORT], usage={"cost": float("nan")}))
    # then
    assert types(session.pending[3:]) == FAILED
    assert error_of(session) == "NotJSONError: $.data.usage.cost: nan; a float must be finite"


def test_a_failed_compaction_ends_with_its_error() -> None:
    """The end carries the words of an error, or its type alone when it has none, and the surface stays."""
    session = played("U A U")
    found = []
    for error in ("out of reach", TimeoutError(), ValueError("no route")):
        begin_compaction(session, 0, 1, compaction_id="c").fail(error)
        found.append(session.pending[-1].data)
    assert [
        {"compactionId": "c", "turn": None, "error": {"message": message}}
        for message in ("out of reach", "TimeoutError", "ValueError: no route")
    ] == found
    assert session.surface.nodes == (0, 1, 2)


@pytest.mark.parametrize(
    "close", [lambda compaction: compaction.commit("in short"), lambda compaction: compaction.fail("enough")]
)
@pytest.mark.parametrize(
    "again", [lambda compaction: compaction.commit("in short"), lambda compaction: compaction.fail("enough")]
)
def test_a_compaction_ends_once(close: Callable[[Compaction], Any], again: Callable[[Compaction], Any]) -> None:
    """Committing or failing it again is refused and writes nothing."""
    # given
    session = played("U A U")
    compaction = begin_compaction(session, 0, 1)
    assert compaction.is_open is True
    close(compaction)
    assert compaction.is_open is False
    before = session.pending
    # when
    with pytest.raises(CompactionClosedError) as caught:
        again(compaction)
    # then
    assert compaction.id == caught.value.compaction_id
    assert isinstance(caught.value, CompactionError)
    assert isinstance(caught.value, RuntimeError)
    assert before == session.pending


def test_a_compaction_left_without_a_commit_fails_itself() -> None:
    """As a context manager it leaves no lock behind, and says what went through it."""
    # given
    session = played("U A U")
    found = []
    # when
    with begin_compaction(session, 0, 1):
        pass
    found.append(error_of(session))
    with pytest.raises(KeyboardInterrupt), begin_compaction(session, 0, 1):
        raise KeyboardInterrupt
    found.append(error_of(session))
    # then
    assert found == ["left without a commit", "KeyboardInterrupt"]
    assert types(session.pending[3:]) == FAILED * 2


def test_a_compaction_that_has_ended_is_left_as_it_is() -> None:
    """Behind a commit or a failure nothing more is written when the context is left."""
    session = played("U A U A")
    with begin_compaction(session, 0, 0) as compaction:
        compaction.fail("enough")
    with begin_compaction(session, 0, 1) as compaction:
        compaction.commit("in short")
    assert [*FAILED, *LANDED] == types(session.pending[4:])


def test_between_turns_what_is_appended_meanwhile_stays_behind_the_checkpoint() -> None:
    """Only the range must stand; a replacement outside it is no hindrance either."""
    # given
    session = played("U A U A[a] R[a]")
    compaction = begin_compaction(session, 0, 1)
    # when
    play(session, "U")
    result = session.surface.event(4).data
    result["message"]["content"][0]["content"] = []
    pruned = session.append("tool/result", result, Replace(4, 4), [4])
    compaction.commit("in short")
    # then
    assert (8, 2, 3, pruned.seq, 6) == (8, *session.surface.nodes[1:])
    assert names(session) == ["C", "U", "A[a]", "C", "U"]


@pytest.mark.parametrize("stability", [None, "surface"])
def test_inside_a_turn_the_whole_surface_must_stand(stability: Any) -> None:
    """What changes it fails the compaction; the error names the nodes that came or went."""
    # given
    session = played("U A ( U")
    assert session.open_turn.turn is not None
    compaction = begin_compaction(session, 0, 1, stability=stability)
    (seq,) = play(session, "U")
    # when
    with pytest.raises(SurfaceChangedError) as caught:
        compaction.commit("in short")
    # then
    assert (seq,) == caught.value.seqs
    assert names(session) == ["U", "A", "U", "U"]
    assert {"turn": session.open_turn.turn, "error": {"message": f"SurfaceChangedError: {caught.value}"}} == {
        key: value for key, value in session.pending[-1].data.items() if key != "compactionId"
    }


def test_the_caller_may_choose_what_must_stand() -> None:
    """Inside a turn the range alone, or between turns the whole surface."""
    # given
    inside, between = played("U A ( U"), played("U A U")
    first = begin_compaction(inside, 0, 1, stability="range")
    second = begin_compaction(between, 0, 1, stability="surface")
    for session in (inside, between):
        play(session, "U")
    # when
    first.commit("in short")
    with pytest.raises(SurfaceChangedError):
        second.commit("in short")
    # then
    assert names(inside) == ["C", "U", "U"]
    assert names(between) == ["U", "A", "U", "U"]


def test_a_range_that_changed_is_not_replaced() -> None:
    """A node of it that was rewritten meanwhile fails the compaction, between turns too."""
    # given
    session = played("U A U")
    compaction = begin_compaction(session, 0, 1)
    session.append("user/message", user_message("rewritten", message_id="x"), Replace(0, 0), [0])
    # when
    with pytest.raises(SurfaceChangedError) as caught:
        compaction.commit("in short")
    # then
    assert caught.value.seqs == (0, 1)
    assert names(session) == ["C", "A", "U"]
    assert [kind for kind in types(session.pending) if kind.startswith("compact/")] == FAILED


@pytest.mark.parametrize(("script", "boundary"), [("U A U", "("), ("( U A U", ")"), ("( U A U", ") (")])
def test_a_compaction_does_not_cross_a_turn_s_boundary(script: str, boundary: str) -> None:
    """When the turn is another one at the commit, it fails, and its end carries the turn that it began in."""
    # given
    session = played(script)
    turn = session.open_turn.turn
    first, second, _ = session.surface.nodes
    compaction = begin_compaction(session, first, second)
    play(session, boundary)
    # when
    with pytest.raises(BracketError, match="the compaction began in turn") as caught:
        compaction.commit("in short")
    # then
    assert caught.value.seq == session.next_seq - 1
    assert ("compact/end", turn) == (session.pending[-1].type, session.pending[-1].data["turn"])
    assert names(session) == ["U", "A", "U"]


def test_a_commit_survives_a_rebase_that_leaves_its_range_in_place(store: SessionStore) -> None:
    """What another writer saved meanwhile comes before the bracket, and stays on the surface behind the checkpoint."""
    # given
    ours = store.create(id="s")
    play(ours, "U A U")
    store.save(ours)
    theirs = store.load("s")
    compaction = begin_compaction(ours, 0, 1)
    play(theirs, "U")
    store.save(theirs)
    store.save(ours, on_conflict="rebase")
    # when
    compaction.commit("in short")
    store.save(ours)
    # then
    assert names(store.load("s")) == ["C", "U", "U"]
    log = list(store.log("s"))
    assert [*["user/message", "assistant/message", "user/message", "user/message"], *LANDED] == types(log)
    assert log[6].source_event_seqs == (4, 5, 0, 1)
    check_brackets(log)


def test_a_rebase_that_moves_the_range_fails_the_compaction(store: SessionStore) -> None:
    """A seq of the range may name another's node by then, so nothing lands, and the lock is freed where it now is."""
    # given
    ours = store.create(id="s")
    play(ours, "U A")
    store.save(ours)
    theirs = store.load("s")
    play(ours, "U U")
    compaction = begin_compaction(ours, 0, 2)
    play(theirs, "A")
    store.save(theirs)
    store.save(ours, on_conflict="rebase")
    # when
    with pytest.raises(SurfaceChangedError) as caught:
        compaction.commit("in short")
    # then
    assert caught.value.seqs == (0, 1, 2)
    assert names(ours) == ["U", "A", "A", "U", "U"]
    assert ours.open_compaction is None
    check_brackets([*store.log("s"), *ours.pending])


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_compaction_whose_session_was_resumed_elsewhere_writes_nothing_more(
    store: SessionStore, is_taken_over: bool
) -> None:
    """Its lock is stale, so it has ended; another one that is live by then keeps its own lock."""
    # given
    ours = store.create(id="s")
    play(ours, "U A U")
    compaction = begin_compaction(ours, 0, 1)
    store.save(ours)
    theirs = store.resume("s")
    if is_taken_over:
        begin_compaction(theirs, 0, 1)
        store.save(theirs)
    ours.append("note", None)
    store.save(ours, on_conflict="rebase")
    # when
    with pytest.raises(CompactionClosedError) as caught:
        compaction.commit("in short")
    # then
    assert compaction.id == caught.value.compaction_id
    assert ours.pending == ()
    assert (5 if is_taken_over else None) == ours.open_compaction
    assert not compaction.is_open
    check_brackets(store.log("s"))


def test_a_range_may_start_at_a_higher_seq_than_it_ends_at() -> None:
    """A checkpoint has a high seq at an old position, and ranges go by position."""
    # given
    session = played("U A U A")
    first = begin_compaction(session, 0, 1).commit("in short").checkpoint_seq
    # when
    result = begin_compaction(session, first, 2).commit("shorter")
    # then
    assert (first, 2) == result.shadowed_seqs
    assert Replace(first, 2) == session.surface.event(result.checkpoint_seq).surface_op
    assert (result.checkpoint_seq, 3) == session.surface.nodes


def test_a_range_may_lie_in_the_middle() -> None:
    """It replaces what it names, and leaves what stands before it and after it."""
    session = played("U A[a] R[a] U A U")
    begin_compaction(session, 1, 3).commit("in short")
    assert names(session) == ["U", "C", "A", "U"]


def test_another_spelling_of_the_records_locks_as_well() -> None:
    """A live bracket that another version wrote is a lock like ours."""
    # given
    session = new_session()
    play(session, "U A U A")
    compact(session, 0, 1, "theirs", spelling="compaction")
    session.append("compaction/start", {"compactionId": "x", "turn": None})
    # when
    with pytest.raises(CompactionBusyError):
        begin_compaction(session, 2, 2)
    session.append("compaction/end", {"compactionId": "x", "turn": None, "error": "e"})
    # then
    assert begin_compaction(session, 2, 2).is_open
    assert session.surface.event(2).surface_op == APPEND


@pytest.mark.parametrize(
    "wrong", [{"compaction_id": ""}, {"compaction_id": 5}, {"source_command_id": ""}, {"stability": "zz"}], ids=str
)
def test_an_argument_that_no_record_may_hold_is_refused(wrong: Any) -> None:
    """An id is a non-empty str and the stability one of two words; nothing is written for another."""
    session = played("U A U A")
    before = session.next_seq

    with pytest.raises(InvalidArgumentError, match="found; it is") as caught:
        begin_compaction(session, session.surface.nodes[0], session.surface.nodes[1], **wrong)

    assert list(wrong) == [caught.value.argument]
    assert session.next_seq == before

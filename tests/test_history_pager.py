from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_reads import CountedReads
from dsh_projections import HistoryPage, HistoryPager, PageCursorError
from dsh_projections.testing import check_pages_tile, session_logs
from dsh_session import APPEND, Append, Replace, SessionError, SessionEvent, SessionStore, user_message
from dsh_session.testing import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = {case["name"]: case for case in json.loads((Path(__file__).parent / "vectors/paging.json").read_text("utf-8"))}
COUNTED = {"user/message", "assistant/message", "steering/message"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionStore]:
    with SessionStore.open(tmp_path_factory.mktemp("pages") / "sessions.db") as opened:
        yield opened


def counted_back(events: list[SessionEvent], before: int, max_messages: int) -> list[SessionEvent]:
    """Give the messages that count on the page before a seq, the newest first."""
    said = [event for event in events[:before] if event.type in COUNTED and isinstance(event.surface_op, Append)]
    return said[::-1][:max_messages]


def naive_cut(events: list[SessionEvent], before: int, max_messages: int) -> int:
    """Take the smallest seq among all counted messages and their provenance; event 0 where the quota is not filled."""
    counted = counted_back(events, before, max_messages)
    if len(counted) < max_messages:
        return 0
    return min(seq for event in counted for seq in (event.seq, *(event.source_event_seqs or ())))


def original_cut(events: list[SessionEvent], before: int, max_messages: int) -> int:
    """Take, as the original does, the smallest seq of the last counted message and its provenance."""
    counted = counted_back(events, before, max_messages)
    if len(counted) < max_messages:
        return 0
    return min((counted[-1].seq, *(counted[-1].source_event_seqs or ())))


def pages(pager: HistoryPager, max_messages: int) -> list[HistoryPage]:
    """Walk from the end to event 0."""
    walked = [pager.page(max_messages=max_messages)]
    while walked[-1].has_more:
        walked.append(pager.page(walked[-1].first_seq, max_messages))
    return walked


def saved(store: SessionStore, events: list[SessionEvent]) -> Any:
    session = store.create()
    for event in events:
        session.append_event(event)
    store.save(session)
    return store.log(session.id)


def as_lines(page: HistoryPage) -> Any:
    """Give what a page is, whichever session its events say they belong to."""
    return [event.to_wire() for event in page.events], page.start, page.stop, page.missing_sources, page.left_out


@pytest.mark.parametrize("name", CASES)
def test_the_recorded_pages_are_ours_but_for_their_cuts(name: str) -> None:
    """A page ends where the original's does and is cut as ours are; the original looks at the last message only.

    Where the original is asked for a page past the end it gives the last one, and ours refuses.
    """
    events = [SessionEvent.from_wire(wire) for wire in CASES[name]["events"]]
    pager = HistoryPager(events)
    for recorded in CASES[name]["pages"]:
        before_seq, max_messages = recorded["beforeSeq"], recorded["maxMessages"]
        before = len(events) if before_seq is None else before_seq
        if before > len(events):
            with pytest.raises(PageCursorError):
                pager.page(before_seq, max_messages)
            continue
        # when
        page = pager.page(before_seq, max_messages)
        # then
        ours, theirs = naive_cut(events, before, max_messages), original_cut(events, before, max_messages)
        assert events[ours:before] == list(page.events)
        assert recorded["lastSeq"] == page.last_seq
        assert recorded["firstSeq"] == (theirs if before else None)
        assert recorded["hasMore"] == (theirs > 0 and before > 0)
        assert page.has_more == (ours > 0 and before > 0)


def test_some_recorded_cuts_differ_from_ours() -> None:
    """The rule that parts no message from its chunks makes a difference in the recorded logs."""
    differing = {
        name
        for name, case in CASES.items()
        for events in [[SessionEvent.from_wire(wire) for wire in case["events"]]]
        for recorded in case["pages"]
        for before in [len(events) if recorded["beforeSeq"] is None else recorded["beforeSeq"]]
        if 0 < before <= len(events)
        and recorded["firstSeq"] != HistoryPager(events).page(before, recorded["maxMessages"]).first_seq
    }
    assert "random 11" in differing


@settings(max_examples=40, deadline=None)
@given(session_logs(), st.integers(1, 6))
def test_pages_of_any_size_tile_the_log(events: list[SessionEvent], max_messages: int) -> None:
    """Walked back from the end, pages are the whole log once, and part no message from what it was made from."""
    check_pages_tile(HistoryPager(events), events, max_messages)


@settings(max_examples=40, deadline=None)
@given(session_logs(), st.data())
def test_a_page_is_cut_at_the_oldest_piece_of_its_messages(events: list[SessionEvent], data: st.DataObject) -> None:
    """Before any seq, a page is the range from the naive cut on."""
    before = data.draw(st.integers(0, len(events)))
    max_messages = data.draw(st.integers(1, 5))
    page = HistoryPager(events).page(before, max_messages)
    assert events[naive_cut(events, before, max_messages) : before] == list(page.events)
    assert before == page.stop


@settings(max_examples=40, deadline=None)
@given(session_logs(), st.integers(1, 4))
def test_a_page_can_do_without_the_chunks_of_finished_messages(events: list[SessionEvent], max_messages: int) -> None:
    """What stands on it otherwise is the same, and chunks that no answer follows on the page are there."""
    pager = HistoryPager(events)
    for full in pages(pager, max_messages):
        answers = [event.seq for event in full.events if event.type == "assistant/message"]
        kept = [
            event for event in full.events if event.type != "assistant/chunk" or all(seq < event.seq for seq in answers)
        ]
        page = pager.page(full.stop, max_messages, chunks=False)
        assert kept == list(page.events)
        assert len(full.events) - len(kept) == page.left_out
        assert (full.first_seq, full.last_seq, full.has_more) == (page.first_seq, page.last_seq, page.has_more)
        assert (full.missing_sources, 0) == (page.missing_sources, full.left_out)


@settings(max_examples=40, deadline=None)
@given(session_logs(), st.integers(1, 4))
def test_a_page_says_what_its_checkpoints_cite_elsewhere(events: list[SessionEvent], max_messages: int) -> None:
    """By checkpoint, the cited seqs that are not on its page, and no checkpoint that has them all."""
    for page in pages(HistoryPager(events), max_messages):
        here = {event.seq for event in page.events}
        expected = {}
        for event in page.events:
            if event.type == "user/message" and isinstance(event.surface_op, Replace):
                elsewhere = tuple(seq for seq in event.source_event_seqs or () if seq not in here)
                if event.data["source"].get("plugin") == "compact" and elsewhere:
                    expected[event.seq] = elsewhere
        assert expected == page.missing_sources


@settings(max_examples=30, deadline=None)
@given(events=session_logs(max_moves=16), max_messages=st.integers(1, 4))
def test_a_stored_log_has_the_same_pages(store: SessionStore, events: list[SessionEvent], max_messages: int) -> None:
    """In memory, on SQLite or as a list, a log's pages are the same, for every cursor, with chunks and without."""
    with SessionStore.open(":memory:") as memory:
        logs = saved(memory, events), saved(store, events)
        for before, chunks in product([None, *range(len(events) + 1)], [True, False]):
            expected = as_lines(HistoryPager(events).page(before, max_messages, chunks=chunks))
            for log in logs:
                assert expected == as_lines(HistoryPager(log).page(before, max_messages, chunks=chunks))


def test_a_page_of_a_long_stored_log_is_found_behind_many_chunks(store: SessionStore) -> None:
    """A quota that is filled only beyond several batches of topics is filled all the same."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    second = log.append("user/message", user_message("again"), APPEND)
    for _ in range(2500):
        log.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": {}})
    page = HistoryPager(saved(store, log.events)).page(max_messages=1)
    assert (second.seq, 2501, True) == (page.first_seq, page.last_seq, page.has_more)


def test_a_page_costs_the_same_however_long_the_log_is_before_it(store: SessionStore) -> None:
    """Of a stored log no more is read than the page shows."""
    log = LogBuilder()
    rows = []
    for _ in range(2):
        for _ in range(10):
            log.append("user/message", user_message("hello"), APPEND)
        reads = CountedReads(saved(store, log.events))
        HistoryPager(reads.log).page(max_messages=3)
        rows.append(reads.rows)
    assert rows[0] == rows[1]


def test_a_page_has_room_for_fifty_messages() -> None:
    """Where no quota is given it is 50."""
    log = LogBuilder()
    for _ in range(52):
        log.append("user/message", user_message("hello"), APPEND)
    assert len(HistoryPager(log.events).page().events) == 50


def test_a_page_leaves_nothing_out_unless_it_says_so() -> None:
    """A page that somebody else makes, an oracle's for one, need not count the chunks that it does not leave out."""
    assert HistoryPage((), 0, 0, {}).left_out == 0


def test_the_tail_page_carries_the_unfinished_message_s_chunks() -> None:
    """What streams in now belongs to the newest page and costs nothing."""
    log = LogBuilder()
    said = log.append("user/message", user_message("hello"), APPEND)
    chunk = log.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": {}})
    page = HistoryPager(log.events).page(max_messages=1)
    assert (said, chunk) == page.events


def test_a_steering_message_counts() -> None:
    """What the user says into a running turn fills a quota like any other message."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    steering = log.append("steering/message", {"turn": 1, "message": user_message("wait")}, APPEND)
    assert (steering,) == HistoryPager(log.events).page(max_messages=1).events


def test_an_empty_page_has_no_ends() -> None:
    """Before event 0, as in an empty log, there is nothing and nothing more."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    for page in (HistoryPager([]).page(), HistoryPager(log.events).page(0)):
        assert (page.events, page.stop, page.missing_sources) == ((), 0, {})
        assert (page.first_seq, page.last_seq, page.has_more) == (None, None, False)


@pytest.mark.parametrize("before_seq", [-1, 2, True, 1.0, "1"])
def test_a_cursor_that_is_no_seq_of_the_log_is_refused(before_seq: Any) -> None:
    """A cursor below 0, past the end or of another type is an error that carries it; there is no silent restart."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    with pytest.raises(PageCursorError, match="pages before seqs from 0 to 1") as caught:
        HistoryPager(log.events).page(before_seq)
    assert before_seq is caught.value.value
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, SessionError)


@pytest.mark.parametrize("max_messages", [0, -1, True, 1.0, None])
def test_a_quota_below_one_is_refused(max_messages: Any) -> None:
    """A quota that is no int of 1 or more is an error that carries it."""
    with pytest.raises(PageCursorError, match="1 message or more") as caught:
        HistoryPager([]).page(max_messages=max_messages)
    assert max_messages is caught.value.value


@settings(deadline=None, max_examples=60)
@given(log=session_logs(), size=st.integers(1, 4))
def test_a_page_without_chunks_is_the_same_range(log: list[SessionEvent], size: int) -> None:
    """Without chunks a page has the same range, and says how many chunks it left out: those that an answer follows."""
    before: int | None = len(log)
    while before:
        whole = HistoryPager(log).page(before, size)

        page = HistoryPager(log).page(before, size, chunks=False)

        answers = [event.seq for event in whole.events if event.type == "assistant/message"]
        left_out = [
            event for event in whole.events if event.type == "assistant/chunk" and event.seq < max(answers, default=-1)
        ]
        assert (whole.first_seq, whole.last_seq, whole.has_more) == (page.first_seq, page.last_seq, page.has_more)
        assert tuple(event for event in whole.events if event not in left_out) == page.events
        assert len(left_out) == page.left_out
        before = whole.first_seq

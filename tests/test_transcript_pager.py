from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_reads import CountedReads
from dsh_compact import compact_checkpoint_source
from dsh_projections import HumanTranscript, PageCursorError, ToolEntry, TranscriptPager, replay
from dsh_projections.testing import session_logs
from dsh_session import (
    APPEND,
    Replace,
    SessionHeader,
    SessionStore,
    assistant_message,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsh_session import SessionEvent

CALL: Any = {"type": "tool-call", "id": "c1", "name": "run", "arguments": "{}"}


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with SessionStore.open(":memory:") as opened:
        yield opened


def pager_of(store: SessionStore, events: Sequence[SessionEvent]) -> TranscriptPager:
    store.import_log(SessionHeader(id="s", created_at=0), events)
    return TranscriptPager(store.log("s"))


def called(log: LogBuilder) -> SessionEvent:
    """Append a message that calls a tool, and the record of its start."""
    log.append("assistant/message", assistant_message([CALL], turn=1, step=1, provider="p", model="m"), APPEND)
    record = {"turn": 1, "step": 1, "callId": "c1", "name": "run", "arguments": "{}"}
    return log.append("tool/call", record)


def whatever_the_window(entry: Any) -> Any:
    """Leave out of an entry what may lie outside a window: a call's result, and an unrecorded call's name."""
    match entry:
        case ToolEntry():
            return msgspec.structs.replace(entry, name=None, arguments=None)
        case _ if entry.kind == "message":
            return msgspec.structs.replace(entry, calls=())
        case _:
            return entry


@settings(deadline=None, max_examples=60)
@given(events=session_logs(), size=st.integers(1, 5))
def test_windows_walked_back_are_the_whole_transcript(events: list[SessionEvent], size: int) -> None:
    """Walked back by the first entry's seq, windows of any size hold each entry of the transcript once."""
    whole = replay(HumanTranscript(), events).entries

    walked: list[Any] = []
    with SessionStore.open(":memory:") as store:
        pager = pager_of(store, events)
        before = len(events)
        while window := pager.window(before, size).entries:
            walked = [*window, *walked]
            before = window[0].seq
            assert len(window) <= size

    assert [whatever_the_window(entry) for entry in whole] == [whatever_the_window(entry) for entry in walked]


@settings(deadline=None, max_examples=40)
@given(events=session_logs())
def test_one_window_over_all_is_the_transcript(events: list[SessionEvent]) -> None:
    """A window with room for every entry is the transcript itself."""
    whole = replay(HumanTranscript(), events).entries

    with SessionStore.open(":memory:") as store:
        tail = pager_of(store, events).tail(len(events) + 1).entries

    assert list(whole) == list(tail)


def test_a_window_costs_its_entries_whatever_else_is_in_the_log(store: SessionStore) -> None:
    """Neither the log before a window, nor what no transcript shows between its entries, is read."""
    log = LogBuilder()
    for _ in range(50):
        log.append("user/message", user_message("before"), APPEND)
    for _ in range(3):
        log.append("user/message", user_message("hello"), APPEND)
        for _ in range(50):
            log.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": {}})
    store.import_log(SessionHeader(id="s", created_at=0), log.events)
    reads = CountedReads(store.log("s"))

    window = TranscriptPager(reads.log).tail(3)

    assert len(window.entries) == 3
    assert reads.rows <= 12  # a topic, sometimes read twice, and an event for each entry


def test_a_window_has_room_for_fifty_entries(store: SessionStore) -> None:
    """Where no size is given it is 50, at the tail and anywhere else."""
    log = LogBuilder()
    for _ in range(52):
        log.append("user/message", user_message("hello"), APPEND)

    pager = pager_of(store, log.events)

    assert [len(window.entries) for window in (pager.tail(), pager.window(51))] == [50, 50]


def test_a_window_that_begins_with_the_log_recalls_nothing(store: SessionStore) -> None:
    """Nothing lies before it, so it is the transcript even where no message asked for the call that is answered."""
    log = LogBuilder()
    record = {"turn": 1, "step": 1, "callId": "c1", "name": "run", "arguments": "{}"}
    started = log.append("tool/call", record)
    log.append("tool/result", tool_result_message("c1", "out", turn=1, step=1), APPEND, [started.seq])

    window = pager_of(store, log.events).tail()

    assert list(replay(HumanTranscript(), log.events).entries) == list(window.entries)


def test_a_result_is_named_by_the_record_of_its_call(store: SessionStore) -> None:
    """A result whose message lies before the window has its name and arguments from the call that it cites."""
    log = LogBuilder()
    started = called(log)
    log.append("tool/result", tool_result_message("c1", "out", turn=1, step=1), APPEND, [started.seq])

    (entry,) = pager_of(store, log.events).tail(1).entries

    assert isinstance(entry, ToolEntry)
    assert (entry.name, entry.arguments) == ("run", "{}")


def test_a_checkpoint_tells_the_summary_before_its_window(store: SessionStore) -> None:
    """A compaction row at the head of a window has the summary of the record that its checkpoint cites."""
    log = LogBuilder()
    said = log.append("user/message", user_message("hello"), APPEND)
    start = log.append("compact/start", {"compactionId": "x", "turn": None})
    record = {"compactionId": "x", "summary": [{"type": "text", "text": "short"}], "shadowedSeqs": [said.seq]}
    summary = log.append("compact/summary", {**record, "shadowedTokenCount": 9})
    log.append(
        "user/message",
        user_message("framed", source=compact_checkpoint_source("x")),  # type: ignore[arg-type] # a plugin's source
        Replace(said.seq, said.seq),
        [start.seq, summary.seq, said.seq],
    )

    (entry,) = pager_of(store, log.events).tail(1).entries

    assert (entry.summary, entry.replaced_count, entry.token_count) == ("short", 1, 9)


def test_the_tail_goes_on_live(store: SessionStore) -> None:
    """What is appended behind a window is applied to it as to the whole transcript."""
    log = LogBuilder()
    started = called(log)
    tail = pager_of(store, log.events).tail(1)
    result = log.append("tool/result", tool_result_message("c1", "out", turn=1, step=1), APPEND, [started.seq])

    tail.apply(result)

    assert list(replay(HumanTranscript(), log.events).entries) == list(tail.entries)


@pytest.mark.parametrize(("before_seq", "entries"), [(-1, 5), (3, 5), (True, 5), (1, 0), (1, True)])
def test_a_window_that_cannot_be_is_refused(store: SessionStore, before_seq: Any, entries: Any) -> None:
    """A window outside the log, or of less than one entry, is an error that names the value."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)

    wrong = before_seq if entries == 5 else entries
    with pytest.raises(PageCursorError, match=repr(wrong)) as caught:
        pager_of(store, log.events).window(before_seq, entries)
    assert wrong is caught.value.value


def test_a_malformed_call_record_names_nothing(store: SessionStore) -> None:
    """A result that cites a call record of no known shape is shown without a name."""
    log = LogBuilder()
    record = log.append("tool/call", {"of": "somebody else"})
    log.append("tool/result", tool_result_message("c1", "out", turn=1, step=1), APPEND, [record.seq])

    (entry,) = pager_of(store, log.events).tail(1).entries

    assert isinstance(entry, ToolEntry)
    assert entry.name is None

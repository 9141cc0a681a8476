"""The log of a stored session: a sequence of events that is read as it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_session import APPEND, SessionEvent, SessionLog, topic_of, user_message
from stored import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_session import SessionStore

LENGTH = 10
TOPICS = st.lists(st.sampled_from(["append:user/message", "log:note", "log:unheard-of"]), unique=True)
BOUNDS = st.none() | st.integers(-LENGTH - 3, LENGTH + 3)
on_any_store = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def small_batches() -> Iterator[None]:
    """Reads take three events at a time, so that most of them take several batches."""
    with patch("dsh_session.log.BATCH", 3), patch("dsh_session.log._TOPICS_BATCH", 2):
        yield


@pytest.fixture
def events(store: SessionStore) -> Sequence[SessionEvent]:
    """The events of a stored session, as they were appended: messages at odd seqs, notes at even ones."""
    session = store.create(id="s")
    for number in range(0, LENGTH, 2):
        session.append("note", {"number": number})
        session.append("user/message", user_message("text", message_id=f"m{number + 1}"), APPEND)
    events = session.pending
    store.save(session)
    return events


@pytest.fixture
def log(store: SessionStore, events: Sequence[SessionEvent]) -> SessionLog:
    """The log of that session."""
    assert len(events) == LENGTH
    return store.log("s")


def test_a_log_is_a_sequence_of_events(log: SessionLog, events: Sequence[SessionEvent]) -> None:
    """It has the length, the order and the members of what was appended, in either direction."""
    assert isinstance(log, Sequence)
    assert len(log) == LENGTH
    assert [*events] == [*log]
    assert [*reversed(events)] == [*reversed(log)]
    assert events[4] in log
    assert log.index(events[7]) == 7


def test_an_index_counts_from_either_end(log: SessionLog, events: Sequence[SessionEvent]) -> None:
    """An index gives the event of that seq; a negative one counts from the end."""
    for index in range(-LENGTH, LENGTH):
        assert events[index] == log[index]


def test_an_index_outside_is_refused(log: SessionLog) -> None:
    """An index that no event has is an `IndexError` which names it and the session."""
    for index in (LENGTH, -LENGTH - 1, 2**62, 2**70, -(2**70)):
        with pytest.raises(IndexError, match=f"no event {index} in the log of session 's'"):
            log[index]


@on_any_store
@given(start=BOUNDS, stop=BOUNDS, step=st.none() | st.integers(-4, 4).filter(bool))
def test_a_slice_is_the_list_s(
    log: SessionLog, events: Sequence[SessionEvent], start: int | None, stop: int | None, step: int | None
) -> None:
    """Whatever its bounds and its step are, a slice of a log is the same slice of the list of its events."""
    wanted = slice(start, stop, step)
    assert [*events[wanted]] == log[wanted]


@on_any_store
@given(start=st.integers(-3, LENGTH + 3), stop=BOUNDS)
def test_a_read_gives_a_range(log: SessionLog, events: Sequence[SessionEvent], start: int, stop: int | None) -> None:
    """A read gives the events from its start to below its stop, or to the end; no seq is below 0."""
    expected = [event for event in events if start <= event.seq and (stop is None or event.seq < stop)]
    assert expected == [*log.read(start, stop)]


@on_any_store
@given(start=st.integers(-3, LENGTH + 3), stop=BOUNDS, topics=TOPICS)
def test_a_read_of_some_topics_gives_their_events(
    log: SessionLog, events: Sequence[SessionEvent], start: int, stop: int | None, topics: list[str]
) -> None:
    """A read that names topics gives the events of these in its range, and no others."""
    expected = [
        event
        for event in events
        if start <= event.seq and (stop is None or event.seq < stop) and (not topics or topic_of(event) in topics)
    ]
    assert expected == [*log.read(start, stop, topics)]


@on_any_store
@given(ends=st.tuples(st.integers(0, LENGTH), st.integers(-3, LENGTH + 7)), topics=TOPICS, batch=st.integers(1, LENGTH))
def test_topics_are_read_back(
    log: SessionLog, events: Sequence[SessionEvent], ends: tuple[int, int], topics: list[str], batch: int
) -> None:
    """Each event of the range is met once, from the newest to the oldest, however many are read at a time."""
    start, before = ends
    found = [(event.seq, topic_of(event)) for event in events if start <= event.seq < before]
    expected = [(seq, topic) for seq, topic in reversed(found) if not topics or topic in topics]
    assert expected == [*log.topics_back(before, topics, start=start, batch=batch)]


def test_topics_are_read_back_to_event_0(log: SessionLog) -> None:
    """Where no more is said, the whole log before an event is passed, from any place behind its end too."""
    for before in (LENGTH, LENGTH + 50):
        assert [*range(LENGTH)][::-1] == [seq for seq, _ in log.topics_back(before)]


@given(place=st.integers(0, 10_000), batch=st.integers(1, 50))
def test_the_way_back_to_a_topic_is_short(place: int, batch: int) -> None:
    """To find the newest event of a topic, the database is given no more than twice the events behind it to look at."""
    # given
    given_to_look_at: list[range] = []

    class Reader:
        def topics(self, start: int, stop: int, **_: Any) -> list[tuple[int, str]]:
            given_to_look_at.append(range(start, stop))
            return [(place, "note")] if start <= place < stop else []

    reader: Any = Reader()
    # when
    found = next(SessionLog("s", reader).topics_back(10_001, ["note"], batch=batch))
    # then
    assert found == (place, "note")
    assert sum(map(len, given_to_look_at)) <= 2 * (10_001 - place) + 4 * batch


@on_any_store
@given(start=st.integers(0, LENGTH), stop=st.integers(0, LENGTH + 3))
def test_topics_of_some_kinds_are_read_in_batches(log: SessionLog, start: int, stop: int) -> None:
    """Only the topics that were named are met, each once and in order, in batches that hold what they may at most."""
    # when
    batches = [*log.topics(start, stop, ["append:user/message", "replace:user/message"])]
    # then
    expected = [(seq, "append:user/message") for seq in range(1, LENGTH, 2) if start <= seq < stop]
    assert expected == [found for batch in batches for found in batch]
    assert all(len(batch) <= 2 for batch in batches)


@on_any_store
@given(seqs=st.lists(st.integers(-2, LENGTH + 2)))
def test_events_are_fetched_by_seq(log: SessionLog, events: Sequence[SessionEvent], seqs: list[int]) -> None:
    """Some seqs give their events in seq order; those that are not in the log are passed over."""
    assert [event for event in events if event.seq in seqs] == log.events_at(seqs)


def test_a_log_shows_what_is_saved_while_it_is_read(
    store: SessionStore, log: SessionLog, events: Sequence[SessionEvent]
) -> None:
    """A reader that has begun meets what another writer saves meanwhile; pending events show to nobody."""
    # given
    reader = iter(log)
    met = [next(reader)]
    writer = store.load("s")
    late = say(writer, "late")
    assert len(log) == LENGTH
    # when
    store.save(writer)
    # then
    assert [*events, late] == [*met, *reader]
    assert len(log) == LENGTH + 1
    assert late == log[-1]


def test_an_unknown_session_has_an_empty_log(store: SessionStore) -> None:
    """The log of a session that is not there holds nothing, whatever is asked of it."""
    # given
    log = store.log("nobody")
    # then
    empty: list[Any] = [[*log], [*reversed(log)], log[:], log[::2], [*log.topics_back(5)], log.events_at([0])]
    assert empty == [[]] * 6
    assert len(log) == 0

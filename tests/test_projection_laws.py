from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from dsh_compact import BasicCompactionEngine, compact_checkpoint_source
from dsh_compact.testing import engine_test
from dsh_projections import (
    CompactionProgress,
    ContextLiveness,
    EventClassifier,
    HistoryPage,
    HistoryPager,
    HumanTranscript,
    ModelSurface,
    ReferenceProjector,
    SessionCounts,
    testing,
)
from dsh_projections.testing import (
    check_changes_no_event,
    check_entries_keep_identity,
    check_equals_oracle,
    check_live_equals_replay,
    check_marker_decides,
    check_nothing_said_is_lost,
    check_page,
    check_pages_tile,
    check_projection_laws,
    check_reads_only_its_topics,
    check_redelivery_changes_nothing,
    check_restores_at_every_cut,
    check_strangers_change_nothing,
    projection_machine,
    projection_test,
    session_logs,
)
from dsh_session import APPEND, Replace, SessionEvent, SessionHeader, Surface, assistant_message, user_message
from dsh_session.testing import LogBuilder, logs, naive_refusals, store_test

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_projections import Projection

OTHER_SESSION = SessionHeader(id="other", created_at=0)
PROJECTIONS = [
    CompactionProgress,
    ContextLiveness,
    EventClassifier,
    HumanTranscript,
    ModelSurface,
    partial(ReferenceProjector, OTHER_SESSION, max_bytes=600),
    SessionCounts,
]

QUICK_FIND = settings(
    max_examples=500, phases=[Phase.generate], derandomize=True, deadline=None, report_multiple_bugs=False
)


class Titles:
    """A projection as an author would write one: the titles, of which the newest counts."""

    version = 1
    topics: frozenset[str] | None = frozenset({"log:session/title"})

    def __init__(self) -> None:
        self.titles: list[str] = []

    def apply(self, event: SessionEvent) -> None:
        if event.type == "session/title":
            self.titles.append(event.data["title"])

    def view(self) -> Any:
        return list(self.titles)

    def state(self) -> Any:
        return list(self.titles)

    def restore(self, state: Any) -> None:
        self.titles = state


class EverythingSeen(Titles):
    topics = None

    def apply(self, event: SessionEvent) -> None:
        self.titles.append(event.type)


class WithMoodOfItsOwn(Titles):
    def view(self) -> Any:
        self.titles.append("looked at")
        return list(self.titles)


class BornWithMemory(Titles):
    memory: list[str] = []  # noqa: RUF012 - the fault that is to be found

    def __init__(self) -> None:
        self.titles = self.memory


class Forgetful(Titles):
    def state(self) -> Any:
        return []


class Unstorable(Titles):
    def state(self) -> Any:
        return set(self.titles)


class ForgetfulOfWhatComes(Titles):
    """Restores what is seen, and not what the next event needs."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def apply(self, event: SessionEvent) -> None:
        if event.type == "session/title":
            self.count += 1
            self.titles = [str(self.count)]


class ReaderOfMore(Titles):
    def apply(self, event: SessionEvent) -> None:
        self.titles.append(event.type)


class Meddling(Titles):
    """Marks what it has read."""

    def apply(self, event: SessionEvent) -> None:
        super().apply(event)
        if event.type == "session/title":
            msgspec.structs.force_setattr(event, "ignorable", True)


class GoesByLooks(Titles):
    """Takes whatever holds a title for one."""

    def apply(self, event: SessionEvent) -> None:
        if isinstance(event.data, dict) and "title" in event.data:
            self.titles.append(event.data["title"])


class CountsDeliveries(Titles):
    """Keeps what it has read where a crash of its runner does not undo it."""

    read: ClassVar[set[int]] = set()

    def apply(self, event: SessionEvent) -> None:
        if event.type == "session/title":
            self.titles.append("again" if event.seq in self.read else "first")
            self.read.add(event.seq)


class OfTheSurface(HumanTranscript):
    """Hides what a replacement took off the surface, as a reader of the surface would."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: set[int] = set()

    def apply(self, event: SessionEvent) -> None:
        super().apply(event)
        if isinstance(event.surface_op, Replace):
            self.hidden.update(event.source_event_seqs or ())

    def view(self) -> Any:
        return [entry for entry in super().view() if entry.seq not in self.hidden]


class Lossy(HumanTranscript):
    """Takes what a compaction replaced out of the transcript, as a reader of the surface would."""

    def view(self) -> Any:
        last = max((i for i, entry in enumerate(self._entries) if entry.kind == "compaction"), default=0)
        return self._entries[last:]


class Copying(HumanTranscript):
    def view(self) -> Any:
        return deepcopy(list(self._entries))


class FaultyPager:
    """Gives the pages of a right pager, with a fault."""

    def __init__(self, events: Sequence[SessionEvent], fault: Callable[[HistoryPage], HistoryPage]) -> None:
        self.pager = HistoryPager(events)
        self.fault = fault

    def page(self, before_seq: int | None = None, max_messages: int = 50) -> HistoryPage:
        return self.fault(self.pager.page(before_seq, max_messages))


class RestlessPager(FaultyPager):
    """Begins anew at the end where there is nothing more."""

    def page(self, before_seq: int | None = None, max_messages: int = 50) -> HistoryPage:
        return super().page(before_seq or None, max_messages)


class AlwaysMorePage(HistoryPage):
    @property
    def has_more(self) -> bool:
        return True


def without_events(page: HistoryPage) -> HistoryPage:
    return attrs.evolve(page, events=())


def without_its_first_event(page: HistoryPage) -> HistoryPage:
    if len(page.events) == 1:
        return page
    return attrs.evolve(page, events=page.events[1:], start=page.start + 1)


def without_its_last_event(page: HistoryPage) -> HistoryPage:
    return attrs.evolve(page, events=page.events[:-1] or page.events)


def of_another_range(page: HistoryPage) -> HistoryPage:
    return attrs.evolve(page, start=page.start + 1)


def with_more_before_it(page: HistoryPage) -> HistoryPage:
    return AlwaysMorePage(**attrs.asdict(page, recurse=False))


def retitle(log: LogBuilder) -> None:
    log.append("session/title", {"title": f"title {len(log.events)}"})


def titled() -> list[SessionEvent]:
    log = LogBuilder()
    log.append("session/title", {"title": "first"})
    log.append("turn/start", {"turn": 1})
    log.append("session/title", {"title": "second"})
    return log.events


def compacted() -> list[SessionEvent]:
    log = LogBuilder()
    answer = assistant_message("hi", turn=1, step=1, provider="p", model="m", message_id="m2")
    log.append("user/message", user_message("hello", message_id="m0"), APPEND)
    log.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "hi"}})
    log.append("assistant/message", answer, APPEND, [1])
    log.replace("user/message", user_message("x", source=compact_checkpoint_source("c"), message_id="m3"), 0, 2)
    log.append("user/message", user_message("more", message_id="m4"), APPEND)
    return log.events


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_the_logs_are_valid(events: list[SessionEvent]) -> None:
    """Every event of a log out of `session_logs` fits what stands before it."""
    surface = Surface()
    for position, event in enumerate(events):
        assert set() == naive_refusals(events[:position], event)
        surface.apply(surface.plan(event))


FEW = settings(max_examples=25, deadline=None)


check_ours = partial(projection_test, logs=session_logs(max_moves=16), settings=FEW)

test_the_progress_keeps_its_laws = check_ours(CompactionProgress)
test_the_liveness_keeps_its_laws = check_ours(ContextLiveness)
test_the_classifier_keeps_its_laws = check_ours(EventClassifier)
test_the_transcript_keeps_its_laws = check_ours(HumanTranscript)
test_the_surface_keeps_its_laws = check_ours(ModelSurface)
test_the_projector_keeps_its_laws = check_ours(partial(ReferenceProjector, OTHER_SESSION, max_bytes=600))
test_the_counts_keep_their_laws = check_ours(SessionCounts)


def naive_titles(events: Sequence[SessionEvent]) -> list[str]:
    return [event.data["title"] for event in events if event.type == "session/title"]


test_titles_keep_their_laws = projection_test(Titles, oracle=naive_titles, settings=FEW)
test_what_sees_everything_keeps_its_laws = projection_test(
    EverythingSeen, oracle=lambda events: [event.type for event in events], logs=logs(), settings=FEW
)


@settings(FEW, max_examples=40)
@given(session_logs(max_moves=16))
def test_the_marker_decides_what_the_human_sees(events: list[SessionEvent]) -> None:
    """Whatever else a log holds, the transcript shows an event by that event's own marker."""
    check_marker_decides(HumanTranscript, events)


@pytest.mark.parametrize("make", PROJECTIONS)
def test_a_projection_survives_crashes(make: Callable[[], Projection[Any]]) -> None:
    """A reader that is stopped and crashes while its session goes on shows what a fresh replay shows."""
    machine = projection_machine(make)
    run_state_machine_as_test(machine, settings=settings(max_examples=10, stateful_step_count=15, deadline=None))


@pytest.mark.parametrize(
    ("law", "make"),
    [
        (check_live_equals_replay, WithMoodOfItsOwn),
        (check_live_equals_replay, BornWithMemory),
        (check_restores_at_every_cut, Forgetful),
        (check_restores_at_every_cut, ForgetfulOfWhatComes),
        (check_reads_only_its_topics, ReaderOfMore),
        (check_changes_no_event, Meddling),
        (check_strangers_change_nothing, GoesByLooks),
    ],
)
def test_a_law_finds_what_breaks_it(law: Callable[..., None], make: Callable[[], Projection[Any]]) -> None:
    """Each law refuses a projection that breaks it, on a log where it shows; so does the check of all of them."""
    for check in (law, check_projection_laws):
        with pytest.raises(AssertionError, match=r"expected .*, found"):
            check(make, titled())
    with pytest.raises(AssertionError, match=r"expected .*, found"):
        projection_test(make, settings=QUICK_FIND)()


def test_what_is_kept_where_no_crash_undoes_it_is_found() -> None:
    """A projection whose memory outlives its runner takes an event that is delivered again for another one."""
    with pytest.raises(AssertionError, match="what is shown of events that were delivered again: expected"):
        check_redelivery_changes_nothing(CountsDeliveries, titled())


@pytest.mark.parametrize("make", [Forgetful, ForgetfulOfWhatComes])
def test_a_crash_finds_what_was_not_kept(make: Callable[[], Projection[Any]]) -> None:
    """The state machine finds a reader whose state lacks what the next event needs."""
    machine = projection_machine(make, st.just(retitle))
    with pytest.raises(AssertionError, match=r"expected .*, found"):
        run_state_machine_as_test(machine, settings=QUICK_FIND)


def test_a_state_that_no_store_can_hold_is_refused() -> None:
    """A state that is no lossless JSON raises what the encoder says of it."""
    with pytest.raises(ValueError, match="set"):
        check_restores_at_every_cut(Unstorable, titled())


def test_a_transcript_that_compaction_shortens_is_refused() -> None:
    """The law of the transcript finds lines that a compaction took away."""
    check_nothing_said_is_lost(HumanTranscript, compacted())
    with pytest.raises(AssertionError, match="at seq 3"):
        check_nothing_said_is_lost(Lossy, compacted())


def test_a_transcript_that_reads_the_surface_is_refused() -> None:
    """An event whose neighbours decide whether it is shown is found, and so is one that its place hides."""
    check_marker_decides(HumanTranscript, compacted())
    with pytest.raises(AssertionError, match=r"whether the event at seq . is shown, when the others have changed"):
        check_marker_decides(OfTheSurface, compacted())


def test_a_view_that_the_oracle_does_not_confirm_is_refused() -> None:
    """The law of oracles finds a view that differs at any time, the beginning included."""
    check_equals_oracle(Titles, titled(), naive_titles)
    for oracle in (lambda events: naive_titles(events)[:1], lambda _: ["none"]):
        with pytest.raises(AssertionError, match="against the oracle: expected"):
            check_equals_oracle(Titles, titled(), oracle)
        with pytest.raises(AssertionError, match="against the oracle: expected"):
            projection_test(Titles, oracle=oracle, settings=QUICK_FIND)()


def test_a_failing_log_is_shown_as_a_table() -> None:
    """What a person reads first of a failure is the log, a line an event, as small as it can be."""
    with pytest.raises(AssertionError) as caught:
        projection_test(ReaderOfMore, settings=settings(max_examples=200, derandomize=True, database=None))()
    # then
    table = next(note for note in caught.value.__notes__ if "gist" in note)
    assert [line.split()[0] for line in table[table.index("seq ") :].splitlines()][:2] == ["seq", "0"]


def test_a_transcript_that_copies_its_entries_is_refused() -> None:
    """An equal entry that is another object is found."""
    check_entries_keep_identity(HumanTranscript, compacted())
    with pytest.raises(AssertionError, match="seq 1 made an equal copy"):
        check_entries_keep_identity(Copying, compacted())


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (without_events, "the page before seq 5 has events"),
        (without_its_first_event, "what the message at seq 2 cites and is not on the page before seq 4"),
        (without_its_last_event, "the page before seq 4: expected"),
        (of_another_range, "first and last seq of the page before seq 5"),
        (with_more_before_it, "whether there is more before the page before seq 1"),
    ],
)
def test_pages_that_do_not_tile_are_refused(fault: Callable[[HistoryPage], HistoryPage], found: str) -> None:
    """The law of pages finds gaps, parted messages, wrong ends, and a wrong word on whether there is more."""
    log = compacted()
    with pytest.raises(AssertionError, match=found):
        check_pages_tile(FaultyPager(log, fault), log, 1)


class CountsCopies(HistoryPager):
    """Begins a page at the newest copy that a compaction made."""

    def page(self, before_seq: int | None = None, max_messages: int = 50, **options: Any) -> HistoryPage:
        page = super().page(before_seq, max_messages, **options)
        copies = [event.seq for event in page.events if isinstance(event.surface_op, Replace)]
        return attrs.evolve(page, events=page.events[copies[-1] - page.start :], start=copies[-1]) if copies else page


@pytest.mark.parametrize(
    ("make", "max_messages", "found"),
    [
        (CountsCopies, 2, "the page of 2 before seq 5: expected"),
        (
            lambda log: FaultyPager(log, lambda page: attrs.evolve(page, missing_sources={})),
            2,
            "what its checkpoints cite",
        ),
        (lambda log: FaultyPager(log, with_more_before_it), 9, "the ends of the page of 9 before seq 5"),
    ],
)
def test_a_page_that_the_oracle_does_not_confirm_is_refused(make: Any, max_messages: int, found: str) -> None:
    """The law of one page finds copies that were counted, and what is not said of the events before it."""
    log = compacted()
    for before_seq in range(6):
        check_page(HistoryPager(log), log, before_seq, max_messages)
    with pytest.raises(AssertionError, match=found):
        check_page(make(log), log, 5, max_messages)


def test_pages_without_an_end_are_refused() -> None:
    """A walk that does not come to rest at event 0 is found."""
    check_pages_tile(HistoryPager(compacted()), compacted(), 1)
    with pytest.raises(AssertionError, match="the page before seq 0"):
        check_pages_tile(RestlessPager(compacted(), lambda page: page), compacted(), 1)


def test_an_example_is_checked_whichever_way_it_comes() -> None:
    """An example compares what is seen after its events, and holds its log against the laws as well."""
    first, start, second = titled()
    example = testing.given(Titles, [first]).when(start)
    # then
    example.then(["first"])
    example.when(second).then(["first", "second"])
    example.when(second).then("second", seen=lambda titles: titles[-1])
    with pytest.raises(AssertionError, match="expected 'third', found 'second'"):
        example.when(second).then("third", seen=lambda titles: titles[-1])
    with pytest.raises(AssertionError, match="restored after 1 events"):
        testing.given(Forgetful, [first]).then(["first"])


def test_a_law_says_what_it_is_to_be_given() -> None:
    """A thing in place of what makes one is refused where the test is made; so is a class in place of an engine."""
    wrong: Any = HumanTranscript()
    engine: Any = BasicCompactionEngine
    with pytest.raises(
        TypeError, match=r"projection_test is given .*; it is a class or function that makes a projection"
    ):
        projection_test(wrong)
    with pytest.raises(TypeError, match=r"store_test is given .*; it is a class or function that makes a store"):
        store_test(wrong)
    with pytest.raises(TypeError, match=r"engine_test is given .*; it is an engine, and not what makes one"):
        engine_test(engine)

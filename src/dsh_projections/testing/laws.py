"""The laws of projections, each a function that raises `AssertionError` for what breaks it, and their test.

A law takes a function that makes the projection, since it runs many of them, and a log out of `session_logs`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import hypothesis
import msgspec
from hypothesis import given, note

from dsh_compact.testing import session_logs
from dsh_projections.history_pager import HistoryPage
from dsh_projections.projection import replay
from dsh_projections.runner import TrackedProjection
from dsh_session import Append, Replace, SessionEvent, SessionStore, lossless_json, topic_of
from dsh_session.testing import show_log
from dsh_session.testing.assertions import check_makes, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

    from dsh_projections.projection import Projection

V = TypeVar("V")


class Entry(Protocol):
    """What a transcript is made of. An entry that tells of a compaction has the ``kind`` ``"compaction"`` as well."""

    @property
    def seq(self) -> int:
        """The event that it stands for."""
        ...


class Pager(Protocol):
    """What gives pages of one log."""

    def page(self, before_seq: int | None = None, max_messages: int = 50) -> HistoryPage:
        """Return the newest events before a seq."""
        ...


def projection_test(
    make: Callable[[], Projection[V]],
    *,
    oracle: Callable[[Sequence[SessionEvent]], V] | None = None,
    logs: SearchStrategy[list[SessionEvent]] | None = None,
    settings: hypothesis.settings | None = None,
) -> Callable[[], None]:
    """Make a test of everything that binds a projection.

    It is given a name where pytest looks for tests: ``test_mine = projection_test(Mine, oracle=naive_view)``.

    Args:
        make: makes the projection; its class, where that takes no arguments.
        oracle: says, slowly and obviously, what the projection shows of a log; it is asked of every prefix of it.
        logs: what it is tried on; `session_logs` when None. Where your projection reads events of your own, give
            ``logs(session_moves() | my_moves)``.
        settings: of Hypothesis; those of the loaded profile, without a deadline, when None.

    Returns:
        A test without arguments, for pytest to find or for anybody to call.
    """
    check_makes(make, "projection_test", "a projection")

    @settings or hypothesis.settings(deadline=None)
    @given(events=session_logs() if logs is None else logs)
    def test(events: list[SessionEvent]) -> None:
        note(show_log(events))
        check_projection_laws(make, events, oracle=oracle)

    return test


def check_projection_laws(
    make: Callable[[], Projection[V]],
    events: Sequence[SessionEvent],
    *,
    oracle: Callable[[Sequence[SessionEvent]], V] | None = None,
) -> None:
    """Check every law that binds every projection.

    Args:
        make: makes the projection.
        events: a log.
        oracle: says what the projection shows of a log, or None.
    """
    check_changes_no_event(make, events)
    if oracle is not None:
        check_equals_oracle(make, events, oracle)
    check_live_equals_replay(make, events)
    check_restores_at_every_cut(make, events)
    check_reads_only_its_topics(make, events)
    check_strangers_change_nothing(make, events)
    check_redelivery_changes_nothing(make, events)


def check_equals_oracle(
    make: Callable[[], Projection[V]], events: Sequence[SessionEvent], oracle: Callable[[Sequence[SessionEvent]], V]
) -> None:
    """Check that a projection shows, before and after every event, what an oracle says.

    Args:
        make: makes the projection.
        events: a log.
        oracle: says what the projection shows of a log.
    """
    projection = make()
    expect(oracle([]), projection.view(), "before the first event, against the oracle")
    for end, event in enumerate(events, 1):
        projection.apply(event)
        expect(oracle(events[:end]), projection.view(), f"at seq {event.seq}, against the oracle")


def check_live_equals_replay(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check that after every event a projection which is looked at all the time shows what a fresh replay shows.

    Args:
        make: makes the projection.
        events: a log.
    """
    live = make()
    expect(make().view(), live.view(), "before the first event")
    for end, event in enumerate(events, 1):
        live.apply(event)
        seen = live.view()
        expect(replay(make(), events[:end]).view(), seen, f"live at seq {event.seq}, against a replay")


def check_restores_at_every_cut(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check that a projection stopped after any event goes on from its stored state as if it had never stopped.

    The state passes through a store: it must be lossless JSON, and restored it must be the same state.

    Args:
        make: makes the projection.
        events: a log.
    """
    whole = replay(make(), events).view()
    for cut in range(len(events) + 1):
        stopped = replay(make(), events[:cut])
        kept = lossless_json.encode(stopped.state())
        restored = make()
        restored.restore(lossless_json.decode(kept))
        expect(stopped.view(), restored.view(), f"restored after {cut} events")
        expect(lossless_json.decode(kept), restored.state(), f"state when restored after {cut} events")
        expect(whole, replay(restored, events[cut:]).view(), f"restored after {cut} events, then fed the rest")


def check_changes_no_event(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check that a projection leaves the events alone, which other readers are fed after it.

    Args:
        make: makes the projection.
        events: a log.
    """
    projection = make()
    for event in events:
        before = event.to_wire()
        projection.apply(event)
        projection.view()
        expect(before, event.to_wire(), f"the event at seq {event.seq}, after a projection has read it")


def check_reads_only_its_topics(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check that a projection fed nothing but the events of its topics shows what it shows when it is fed the log.

    Args:
        make: makes the projection.
        events: a log.
    """
    everything, its_own = make(), make()
    for event in events:
        everything.apply(event)
        if its_own.topics is None or topic_of(event) in its_own.topics:
            its_own.apply(event)
        expect(everything.view(), its_own.view(), f"at seq {event.seq}, fed the topics {its_own.topics} only")


def check_strangers_change_nothing(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check that a projection passes over log-only events of types that nobody knows, wherever they stand.

    Behind every event stands one that holds the data of another, so that a reader is found out which goes by what an
    event looks like. A projection that takes notice of every topic is not bound by this.

    Args:
        make: makes the projection.
        events: a log; it is renumbered, so that there is room between its events.
    """
    alone, among_strangers = make(), make()
    if alone.topics is None:
        return
    for event, other in zip(map(_spread, events), reversed(events), strict=True):
        alone.apply(event)
        among_strangers.apply(event)
        kind, data, is_odd = f"unheard-of/{other.type}", other.encoded_data, bool(event.seq % 4)
        among_strangers.apply(SessionEvent(event.session_id, event.seq + 1, event.time, kind, data, ignorable=is_odd))
        expect(alone.view(), among_strangers.view(), f"behind the stranger after seq {event.seq // 2}")


def check_redelivery_changes_nothing(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check that a projection which is tracked over a store applies each event once, however often it is delivered.

    A runner dies when it has applied a batch and not moved yet, and the batch is delivered again; another runner of the
    same name overtakes one that is at the same place, and what that one has applied must not count.

    Args:
        make: makes the projection.
        events: a log, which a store will take.
    """

    def run(act: Callable[[], object] = lambda: None) -> int:
        return TrackedProjection(store, "law", lambda: _Interrupted(make(), act)).catch_up()

    def shown() -> Any:
        return TrackedProjection(store, "law", make).view(session.id)

    def die() -> None:
        raise KeyboardInterrupt

    def overtake(applied: list[int]) -> None:
        applied.append(run())

    with SessionStore.open(":memory:") as store:
        session = store.create()
        log = [msgspec.structs.replace(event, session_id=session.id) for event in events]
        topics = make().topics
        own = [event for event in log if topics is None or topic_of(event) in topics]
        expected = replay(make(), own).view()
        middle, applied = len(log) // 2, 0
        for part in (log[:middle], log[middle:]):
            for event in part:
                session.append_event(event)
            before = shown()
            store.save(session)
            with suppress(KeyboardInterrupt):
                run(die)
            expect(before, shown(), "what is shown by a runner that died before it moved")
            overtaking: list[int] = []
            applied += run(partial(overtake, overtaking)) + sum(overtaking)
        expect(len(own), applied, "how many events were applied, of those that were delivered again")
        expect(expected, shown(), "what is shown of events that were delivered again")


def check_nothing_said_is_lost(make: Callable[[], Projection[Sequence[Entry]]], events: Sequence[SessionEvent]) -> None:
    """Check that compaction takes nothing from a transcript, at any time.

    After every event there is one entry for each append-origin event and one compaction for each landed checkpoint,
    in log order, and no other entry, whatever became of them on the surface.

    Args:
        make: makes the transcript, whose view is its entries.
        events: a log.
    """
    transcript = make()
    expected: list[tuple[int, bool]] = []
    for event in events:
        transcript.apply(event)
        if isinstance(event.surface_op, Append) or _is_checkpoint(event):
            expected.append((event.seq, _is_checkpoint(event)))
        actual = [(entry.seq, getattr(entry, "kind", None) == "compaction") for entry in transcript.view()]
        expect(expected, actual, f"entries, as (seq, whether it is a compaction), at seq {event.seq}")


def check_marker_decides(make: Callable[[], Projection[Sequence[Entry]]], events: Sequence[SessionEvent]) -> None:
    """Check that whether a transcript shows an event follows from the event alone, whatever stands around it.

    Each event is read by itself, and among the others of its log when their contents have changed places: types, data,
    markers and provenance. It is shown each time if it is append-origin or a landed checkpoint, and else never.

    Args:
        make: makes the transcript, whose view is its entries; it bears a window into a log.
        events: a log.
    """
    for at, event in enumerate(events):
        is_shown = isinstance(event.surface_op, Append) or _is_checkpoint(event)
        others = [*events[:at], *events[at + 1 :]]
        moved = [
            msgspec.structs.replace(content, seq=place.seq)
            for place, content in zip(others, reversed(others), strict=True)
        ]
        for around, what in (([], "by itself"), (moved, "when the others have changed places")):
            log = [*around[:at], event, *around[at:]]
            found = event.seq in [entry.seq for entry in replay(make(), log).view()]
            expect(is_shown, found, f"whether the event at seq {event.seq} is shown, {what}")


def check_entries_keep_identity(
    make: Callable[[], Projection[Sequence[Entry]]], events: Sequence[SessionEvent]
) -> None:
    """Check that an event leaves every entry that it does not change in its place, the same object.

    So a renderer finds what to render anew by looking at identities alone.

    Args:
        make: makes the transcript, whose view is its entries.
        events: a log.
    """
    transcript = make()
    before: list[Entry] = []
    for event in events:
        transcript.apply(event)
        after = list(transcript.view())
        for old, new in zip(before, after, strict=False):
            if old == new and old is not new:
                raise AssertionError(f"seq {event.seq} made an equal copy of {old!r}")
        before = after


def check_pages_tile(pager: Pager, events: Sequence[SessionEvent], max_messages: int) -> None:
    """Check that pages walked back from the end are the whole log, once each event, and part no message.

    Each page's first seq is the next one's ``before_seq``. What counts toward ``max_messages`` has all its provenance
    on its page. Only the page that begins at event 0 has nothing before it.

    Args:
        pager: gives pages of the log.
        events: the log.
        max_messages: the quota of each page, an int >= 1.
    """
    rest = list(events)
    page = pager.page(max_messages=max_messages)
    while rest:
        where = f"the page before seq {len(rest)}"
        expect(True, bool(page.events), f"{where} has events")
        first = page.events[0].seq
        expect(rest[first:], list(page.events), where)
        expect((first, rest[-1].seq), (page.first_seq, page.last_seq), f"first and last seq of {where}")
        expect(first > 0, page.has_more, f"whether there is more before {where}")
        for counted in [event for event in page.events if _is_counted(event)][-max_messages:]:
            parted = [seq for seq in counted.source_event_seqs or () if seq < first]
            expect([], parted, f"what the message at seq {counted.seq} cites and is not on {where}")
        del rest[first:]
        page = pager.page(first, max_messages)
    expect((), page.events, "the page before seq 0")
    expect(False, page.has_more, "whether there is more before seq 0")


def check_page(pager: Pager, events: Sequence[SessionEvent], before_seq: int, max_messages: int) -> None:
    """Check that a page is the one that `naive_page` gives, and says the same of what lies before it.

    Args:
        pager: gives pages of the log.
        events: the log.
        before_seq: from 0 to the length of the log.
        max_messages: the quota of the page, an int >= 1.
    """
    expected, actual = naive_page(events, before_seq, max_messages), pager.page(before_seq, max_messages)
    where = f"the page of {max_messages} before seq {before_seq}"
    expect(expected.events, actual.events, where)
    expect(expected.missing_sources, dict(actual.missing_sources), f"what its checkpoints cite and is not on {where}")
    ends = (events[expected.start].seq, events[expected.stop - 1].seq) if expected.events else (None, None)
    expect((*ends, expected.start > 0), (actual.first_seq, actual.last_seq, actual.has_more), f"the ends of {where}")


def naive_page(events: Sequence[SessionEvent], before_seq: int, max_messages: int) -> HistoryPage:
    """Cut a page the obvious way: count back what was said, once, to where the quota is filled and nothing is parted.

    Copies for the model, results of tools and log-only events cost nothing.
    """
    counted = [event for event in events[:before_seq] if _is_counted(event)][-max_messages:]
    cut = min(seq for event in counted for seq in (event.seq, *(event.source_event_seqs or ()))) if counted else 0
    if len(counted) < max_messages:
        cut = 0
    page = events[cut:before_seq]
    cited = {event.seq: event.source_event_seqs or () for event in page if _is_checkpoint(event)}
    missing = {seq: tuple(source for source in sources if source < cut) for seq, sources in cited.items()}
    return HistoryPage(tuple(page), cut, before_seq, {seq: sources for seq, sources in missing.items() if sources})


def _is_checkpoint(event: SessionEvent) -> bool:
    if event.type != "user/message" or not isinstance(event.surface_op, Replace):
        return False
    source = event.data["source"]
    return bool(source["kind"] == "plugin" and source.get("plugin") == "compact")


def _is_counted(event: SessionEvent) -> bool:
    return isinstance(event.surface_op, Append) and event.type != "tool/result"


def _spread(event: SessionEvent) -> SessionEvent:
    """Give an event twice its seq, and the seqs that it names with it."""
    marker, sources = event.surface_op, event.source_event_seqs
    return msgspec.structs.replace(
        event,
        seq=2 * event.seq,
        surface_op=Replace(2 * marker.start, 2 * marker.end) if isinstance(marker, Replace) else marker,
        source_event_seqs=None if sources is None else tuple(2 * seq for seq in sources),
    )


class _Interrupted:
    """A projection whose runner is interrupted when it has applied its events and asks for the state, to keep it."""

    def __init__(self, projection: Projection[Any], act: Callable[[], object]) -> None:
        self.version = projection.version
        self.topics = projection.topics
        self.apply = projection.apply
        self.view = projection.view
        self.restore = projection.restore
        self._projection = projection
        self._act = act

    def state(self) -> Any:
        self._act()
        return self._projection.state()

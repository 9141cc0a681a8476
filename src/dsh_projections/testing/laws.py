"""The laws of projections, each a function that raises `AssertionError` for what breaks it.

A law takes a function that makes the projection, since it runs many of them, and a log out of `session_logs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dsh_projections.projection import replay
from dsh_session import Append, Replace, lossless_json, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_projections.history_pager import HistoryPage
    from dsh_projections.projection import Projection
    from dsh_session import SessionEvent


class Entry(Protocol):
    """What a transcript is made of."""

    @property
    def kind(self) -> str:
        """What it is; ``"compaction"`` where it tells of a compaction."""
        ...

    @property
    def seq(self) -> int:
        """The event that it stands for."""
        ...


class Pager(Protocol):
    """What gives pages of one log."""

    def page(self, before_seq: int | None = None, max_messages: int = 50) -> HistoryPage:
        """Return the newest events before a seq."""
        ...


def check_projection(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check every law that binds every projection.

    Args:
        make: makes the projection.
        events: a log.
    """
    check_live_equals_replay(make, events)
    check_restores_at_every_cut(make, events)
    check_reads_only_its_topics(make, events)


def check_live_equals_replay(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent]) -> None:
    """Check that after every event a projection which is looked at all the time shows what a fresh replay shows.

    Args:
        make: makes the projection.
        events: a log.
    """
    live = make()
    _expect(make().view(), live.view(), "before the first event")
    for end, event in enumerate(events, 1):
        live.apply(event)
        seen = live.view()
        _expect(replay(make(), events[:end]).view(), seen, f"live at seq {event.seq}, against a replay")


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
        _expect(stopped.view(), restored.view(), f"restored after {cut} events")
        _expect(lossless_json.decode(kept), restored.state(), f"state when restored after {cut} events")
        _expect(whole, replay(restored, events[cut:]).view(), f"restored after {cut} events, then fed the rest")


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
        _expect(everything.view(), its_own.view(), f"at seq {event.seq}, fed the topics {its_own.topics} only")


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
        actual = [(entry.seq, entry.kind == "compaction") for entry in transcript.view()]
        _expect(expected, actual, f"entries, as (seq, whether it is a compaction), at seq {event.seq}")


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
        _expect(True, bool(page.events), f"{where} has events")
        first = page.events[0].seq
        _expect(rest[first:], list(page.events), where)
        _expect((first, rest[-1].seq), (page.first_seq, page.last_seq), f"first and last seq of {where}")
        _expect(first > 0, page.has_more, f"whether there is more before {where}")
        for counted in [event for event in page.events if _is_counted(event)][-max_messages:]:
            parted = [seq for seq in counted.source_event_seqs or () if seq < first]
            _expect([], parted, f"what the message at seq {counted.seq} cites and is not on {where}")
        del rest[first:]
        page = pager.page(first, max_messages)
    _expect((), page.events, "the page before seq 0")
    _expect(False, page.has_more, "whether there is more before seq 0")


def _is_checkpoint(event: SessionEvent) -> bool:
    if event.type != "user/message" or not isinstance(event.surface_op, Replace):
        return False
    source = event.data["source"]
    return bool(source["kind"] == "plugin" and source.get("plugin") == "compact")


def _is_counted(event: SessionEvent) -> bool:
    return isinstance(event.surface_op, Append) and event.type != "tool/result"


def _expect(expected: Any, actual: Any, what: str) -> None:
    if expected != actual:
        raise AssertionError(f"{what}: expected {expected!r}, found {actual!r}")

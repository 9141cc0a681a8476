"""History in pages: contiguous ranges of raw events, cut so that no counted message is parted from its chunks."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs

from dsh_compact import is_compact_checkpoint
from dsh_session import SessionError, SessionLog, topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_session import SessionEvent

COUNTED_TOPICS: Final = topics("append", ("user/message", "assistant/message", "steering/message"))
"""The topics of the messages that a human or a model produced; nothing else spends a page's quota."""

_ANSWER_TOPICS: Final = topics("append", ("assistant/message",)) | topics("replace", ("assistant/message",))
_CHUNK_TOPICS: Final = topics("log", ("assistant/chunk",))


class PageCursorError(SessionError, ValueError):
    """A page was asked for that there cannot be.

    Attributes:
        value: the argument that makes no sense.
    """

    def __init__(self, reason: str, value: object) -> None:
        self.value = value
        super().__init__(reason)


@attrs.frozen
class HistoryPage:
    """One page: a contiguous range of the log, oldest event first.

    Attributes:
        events: the raw events.
        start: the seq that the page begins at.
        stop: the seq that it ends before.
        missing_sources: by checkpoint on this page, the nodes that it cites and that are not on the page. A client that
            folds the page finds these missing.
        left_out: how many stream chunks of finished messages lie in the range and were left out of ``events``.
    """

    events: tuple[SessionEvent, ...]
    start: int
    stop: int
    missing_sources: Mapping[int, tuple[int, ...]]
    left_out: int = 0

    @property
    def first_seq(self) -> int | None:
        """The seq of the oldest event, which as ``before_seq`` gives the page before this one; None when empty."""
        return self.start if self.start < self.stop else None

    @property
    def last_seq(self) -> int | None:
        """The seq of the newest event; None when the page is empty."""
        return self.stop - 1 if self.start < self.stop else None

    @property
    def has_more(self) -> bool:
        """Whether older events lie before this page."""
        return self.start > 0


class HistoryPager:
    """Pages of a log, from the newest back to event 0.

    Pages in reverse order are the whole log, once each event, whatever their sizes.

    Args:
        log: a stored session's log, of which topics are read first and few payloads; or any sequence of events in which
            the event with seq n stands at n.
    """

    def __init__(self, log: Sequence[SessionEvent]) -> None:
        self._log = SessionLog.of(log)

    def page(self, before_seq: int | None = None, max_messages: int = 50, *, chunks: bool = True) -> HistoryPage:
        """Return the newest events before a seq.

        Only append-origin user, assistant and steering messages count toward the quota. The page begins at the smallest
        seq among the counted messages and their provenance, once the quota is filled; otherwise at event 0.

        Args:
            before_seq: from 0 to the length of the log, which None stands for.
            max_messages: an int >= 1.
            chunks: whether to give the stream chunks of messages that are finished; the range is the same without
                them. Chunks that no answer follows are those of an unfinished message, and are always given.

        Raises:
            PageCursorError: an argument is out of its range. There is no silent restart.

        Cost: O(events of the page), wherever in the log it lies.
        """
        length = len(self._log)
        before = length if before_seq is None else before_seq
        if type(before) is not int or not 0 <= before <= length:
            raise PageCursorError(
                f"before_seq is {before_seq!r}; this log has pages before seqs from 0 to {length}", before_seq
            )
        if type(max_messages) is not int or max_messages < 1:
            raise PageCursorError(f"max_messages is {max_messages!r}; a page holds 1 message or more", max_messages)
        counted = self._newest_counted(before, max_messages)
        cut = 0
        if len(counted) == max_messages:
            cut = min(min((event.seq, *(event.source_event_seqs or ()))) for event in counted)
        events = self._log[cut:before] if chunks else self._without_chunks(cut, before)
        return HistoryPage(tuple(events), cut, before, _outside(events, cut), before - cut - len(events))

    def _newest_counted(self, before: int, limit: int) -> list[SessionEvent]:
        newest = islice(self._log.topics_back(before, sorted(COUNTED_TOPICS), batch=limit), limit)
        return self._log.events_at(seq for seq, _ in newest)

    def _without_chunks(self, start: int, stop: int) -> Sequence[SessionEvent]:
        passed = list(self._log.topics_back(stop, start=start))
        newest_answer = next((seq for seq, topic in passed if topic in _ANSWER_TOPICS), -1)
        return self._log.events_at(seq for seq, topic in passed if topic not in _CHUNK_TOPICS or seq > newest_answer)


def _outside(events: Sequence[SessionEvent], first_seq: int) -> dict[int, tuple[int, ...]]:
    """A checkpoint cites earlier events only, so what it cites beyond a page lies before it."""
    cited = {
        event.seq: tuple(seq for seq in event.source_event_seqs or () if seq < first_seq)
        for event in events
        if is_compact_checkpoint(event)
    }
    return {seq: missing for seq, missing in cited.items() if missing}

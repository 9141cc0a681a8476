"""A long transcript in windows: only the entries that are asked for are read and built."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from dsh_compact import is_compact_checkpoint
from dsh_projections.history_pager import PageCursorError
from dsh_projections.human_transcript import SUMMARY_TYPES, HumanTranscript
from dsh_projections.projection import APPEND_TOPICS
from dsh_session import SessionLog, topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsh_session import SessionEvent

_ENTRY_TOPICS: Final = tuple(sorted(APPEND_TOPICS | topics("replace", ("user/message",))))
_SHOWN_TOPICS: Final = tuple(sorted(HumanTranscript.topics or ()))


class TranscriptPager:
    """Windows of a stored session's transcript.

    A window is a `HumanTranscript`; the newest one, `tail`, goes on live with its ``apply``. Its entries are those of
    the whole transcript: the name of a call and the summary of a compaction are read from where they are cited. Only
    a result whose call no event records stays without a name, and a call answered behind the window stays open.

    Args:
        log: a stored session's log, or any sequence of events in which the event with seq n stands at n.
    """

    def __init__(self, log: Sequence[SessionEvent]) -> None:
        self._log = SessionLog.of(log)

    def tail(self, entries: int = 50) -> HumanTranscript:
        """Return the newest entries.

        Raises:
            PageCursorError: ``entries`` is no int >= 1.

        Cost: O(events of the window), and the database's for passing over the others among them.
        """
        return self.window(len(self._log), entries)

    def window(self, before_seq: int, entries: int = 50) -> HumanTranscript:
        """Return the newest entries before a seq. The first entry's seq gives the window before this one.

        Raises:
            PageCursorError: ``before_seq`` lies outside the log, or ``entries`` is no int >= 1.

        Cost: as `tail`.
        """
        length = len(self._log)
        if type(before_seq) is not int or not 0 <= before_seq <= length:
            raise PageCursorError(f"before_seq is {before_seq!r}; this log has seqs from 0 to {length}", before_seq)
        if type(entries) is not int or entries < 1:
            raise PageCursorError(f"entries is {entries!r}; a window holds 1 entry or more", entries)
        seqs = list(islice(self._entries_back(before_seq, entries), entries))
        cut = seqs[-1] if len(seqs) == entries else 0
        transcript = HumanTranscript()
        events = list(self._log.read(cut, before_seq, _SHOWN_TOPICS))
        for event in self._cited(events, cut):
            transcript.recall(event)
        for event in events:
            transcript.apply(event)
        return transcript

    def _entries_back(self, before: int, entries: int) -> Iterator[int]:
        """Give the seqs of entries, the newest first; a replacement is one only if it is a checkpoint."""
        for seq, topic in self._log.topics_back(before, _ENTRY_TOPICS, batch=entries):
            if topic in APPEND_TOPICS or is_compact_checkpoint(self._log[seq]):
                yield seq

    def _cited(self, events: list[SessionEvent], cut: int) -> Iterator[SessionEvent]:
        """Give the records before the window that its results and checkpoints cite."""
        cited = chain.from_iterable(
            event.source_event_seqs or ()
            for event in events
            if event.type == "tool/result" or is_compact_checkpoint(event)
        )
        for event in self._log.events_at(seq for seq in set(cited) if seq < cut):
            if event.type == "tool/call" or event.type in SUMMARY_TYPES:
                yield event

"""A stored log whose reads are counted, for the tests that hold a reader to its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_session import SessionLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_session import SessionEvent
    from dsh_session.log import LogReader


class CountedReads:
    """The reads of a log; ``rows`` counts the events, and the topics, that they gave."""

    def __init__(self, log: SessionLog) -> None:
        self._reader: LogReader = log._reader
        self.log = SessionLog(log.session_id, self)
        self.rows = 0

    def length(self) -> int:
        return self._reader.length()

    def events(self, start: int, stop: int, *, desc: bool = False, limit: int = -1) -> list[SessionEvent]:
        return self._counted(self._reader.events(start, stop, desc=desc, limit=limit))

    def topics(
        self, start: int, stop: int, *, desc: bool = False, limit: int = -1, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        return self._counted(self._reader.topics(start, stop, desc=desc, limit=limit, topics=topics))

    def events_at(self, seqs: Sequence[int]) -> list[SessionEvent]:
        return self._counted(self._reader.events_at(seqs))

    def _counted(self, found: list[Any]) -> list[Any]:
        self.rows += len(found)
        return found

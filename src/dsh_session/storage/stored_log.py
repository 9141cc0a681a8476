"""The reads of one stored session, as `SessionLog` asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dsh_session.storage.mapper import HEADER_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_session.event import SessionEvent
    from dsh_session.header import SessionHeader
    from dsh_session.storage.contract import Guard, Row, SessionRecorder
    from dsh_session.storage.mapper import SessionMapper


@attrs.frozen
class StoredLog:
    """The reads of one session's log, as `SessionLog` asks for them; a seq is a version less one.

    Attributes:
        session_id: the session.
        recorder: what keeps the rows.
        mapper: what reads them.
        guard: entered around each read, for the errors that it raises.
    """

    session_id: str
    recorder: SessionRecorder
    mapper: SessionMapper
    guard: Guard

    def length(self) -> int:
        """Return how many events the log has now."""
        with self.guard():
            return self.recorder.max_version(self.session_id) or 0

    def header(self) -> SessionHeader | None:
        """Return the session's header, or None when there is no such session."""
        rows = self.rows(HEADER_VERSION, HEADER_VERSION + 1)
        header: SessionHeader | None = self.mapper.read(self.session_id, *rows[0]) if rows else None
        return header

    def rows(self, start: int, stop: int, *, desc: bool = False, limit: int = -1) -> list[Row]:
        """Return the rows with versions from ``start`` to below ``stop``."""
        with self.guard():
            return self.recorder.select_rows(self.session_id, start, stop, desc=desc, limit=limit)

    def events(self, start: int, stop: int, *, desc: bool = False, limit: int = -1) -> list[SessionEvent]:
        """Return the events of a range."""
        rows = self.rows(start + 1, stop + 1, desc=desc, limit=limit)
        return [self.mapper.read(self.session_id, *row) for row in rows]

    def topics(
        self, start: int, stop: int, *, desc: bool = False, limit: int = -1, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return the seqs and topics of a range."""
        with self.guard():
            found = self.recorder.select_topics(
                self.session_id, start + 1, stop + 1, desc=desc, limit=limit, topics=topics
            )
        return [(version - 1, topic) for version, topic in found]

    def events_at(self, seqs: Sequence[int]) -> list[SessionEvent]:
        """Return the events of some seqs, in seq order."""
        versions = [seq + 1 for seq in dict.fromkeys(seqs) if seq >= 0]
        if not versions:
            return []
        with self.guard():
            rows = self.recorder.select_versions(self.session_id, versions)
        return [self.mapper.read(self.session_id, *row) for row in sorted(rows)]

"""Snapshots of a session's state, which make a load cheap and are needed for nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from eventsourcing.persistence import IntegrityError, StoredEvent

from dsh_session import lossless_json
from dsh_session.errors import StoreError
from dsh_session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_session.header import SessionHeader
    from dsh_session.log import SessionLog
    from dsh_session.storage.contract import Guard
    from dsh_session.storage.mapper import SessionMapper

SNAPSHOT_EVERY: Final = 250
"""A snapshot is taken when this many events, and as many as the surface has nodes, were saved since the last."""

_TOPIC: Final = "snapshot:1"


@attrs.frozen
class Snapshots:
    """The snapshots of a store.

    Attributes:
        recorder: what keeps the rows; one of the library's aggregate recorders.
        mapper: what seals and unseals them.
        guard: entered around each access to the database.
    """

    recorder: Any
    mapper: SessionMapper
    guard: Guard

    def newest(self, header: SessionHeader, log: SessionLog, clock: Callable[[], int]) -> Session | None:
        """Restore the newest snapshot; one that is damaged, of another version or ahead of the log counts for none.

        Cost: O(nodes), and the length of the log.
        """
        with self.guard():
            stored = self.recorder.select_events(header.id, desc=True, limit=1)
        if not stored or stored[0].topic != _TOPIC or stored[0].originator_version > len(log):
            return None
        try:
            state = lossless_json.decode(self.mapper.unseal(stored[0].state))
            session = Session.restore(header, state, log.events_at, clock=clock)
        except (ValueError, LookupError, TypeError):
            return None
        session.snapshot_seq = session.next_seq
        return session

    def take_if_due(self, session: Session) -> None:
        """Keep a snapshot of a session that has nothing pending, if the last is far enough behind."""
        if session.next_seq - session.snapshot_seq >= max(SNAPSHOT_EVERY, len(session.surface)):
            self.take(session)

    def take(self, session: Session) -> None:
        """Keep a snapshot. It only saves time, so when it cannot be kept, that is no failure of what was saved."""
        state = self.mapper.seal(lossless_json.encode(session.state()))
        try:
            with self.guard():
                self.recorder.insert_events([StoredEvent(session.id, session.next_seq, _TOPIC, state)])
        except (StoreError, IntegrityError):
            return
        session.snapshot_seq = session.next_seq

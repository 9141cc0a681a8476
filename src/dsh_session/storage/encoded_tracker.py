"""Tracked states, compressed and encrypted as a store's events are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dsh_session.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_session.storage.contract import Tracker
    from dsh_session.storage.mapper import SessionMapper


@attrs.frozen
class EncodedTracker:
    """Compresses and enciphers states as the store does its events, and has them kept by another tracker.

    Attributes:
        tracker: keeps what is sealed.
        mapper: seals it.
    """

    tracker: Tracker
    mapper: SessionMapper

    def position(self, name: str, version: int) -> int:
        """Return the position."""
        return self.tracker.position(name, version)

    def states(self, name: str, version: int, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions."""
        found = self.tracker.states(name, version, session_ids)
        return {session_id: self._opened(name, session_id, state) for session_id, state in found.items()}

    def all_states(self, name: str, version: int) -> list[tuple[str, bytes]]:
        """Return every session's state."""
        found = self.tracker.all_states(name, version)
        return [(session_id, self._opened(name, session_id, state)) for session_id, state in found]

    def move(self, name: str, version: int, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states."""
        sealed = {session_id: self.mapper.seal(state) for session_id, state in states.items()}
        return self.tracker.move(name, version, before, after, sealed)

    def _opened(self, name: str, session_id: str, state: bytes) -> bytes:
        try:
            return self.mapper.unseal(state)
        except ValueError as error:
            raise StoreError(f"the state that {name!r} keeps of session {session_id!r}: {error}") from error

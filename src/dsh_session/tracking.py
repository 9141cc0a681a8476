"""Where tracked projections keep their states: beside the events, so that each moves with its position (ADR-0013)."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import attrs

from dsh_session.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dsh_session.storage import SessionMapper


class Tracker(Protocol):
    """Keeps, by the name of a projection, a position in the store's stream of events, and one state a session.

    All of it is of one version of the projection. What is asked of another version is not there, and the first move of
    another version throws it away.
    """

    def position(self, name: str, version: int) -> int:
        """Return the position; 0 when nothing has moved yet."""
        ...

    def states(self, name: str, version: int, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions, as far as there are any."""
        ...

    def all_states(self, name: str, version: int) -> list[tuple[str, bytes]]:
        """Return every session's state, by session id."""
        ...

    def move(self, name: str, version: int, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states in one transaction.

        Returns:
            False, and nothing is changed, when the position is not ``before``: somebody else has moved it.
        """
        ...


class MemoryTracker:
    """Keeps states in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, int, dict[str, bytes]]] = {}
        self._lock = Lock()

    def position(self, name: str, version: int) -> int:
        """Return the position."""
        with self._lock:
            return self._of(name, version)[0]

    def states(self, name: str, version: int, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions."""
        with self._lock:
            states = self._of(name, version)[1]
            return {session_id: states[session_id] for session_id in session_ids if session_id in states}

    def all_states(self, name: str, version: int) -> list[tuple[str, bytes]]:
        """Return every session's state."""
        with self._lock:
            return sorted(self._of(name, version)[1].items())

    def move(self, name: str, version: int, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states."""
        with self._lock:
            position, kept = self._of(name, version)
            if position != before:
                return False
            kept.update(states)
            self._kept[name] = (version, after, kept)
            return True

    def _of(self, name: str, version: int) -> tuple[int, dict[str, bytes]]:
        known, position, states = self._kept.get(name, (version, 0, {}))
        return (position, states) if known == version else (0, {})


Transaction: TypeAlias = "Callable[..., AbstractContextManager[Any]]"
"""Begins a transaction, which ``commit`` says how to end, and gives its cursor."""

Guard: TypeAlias = "Callable[[], AbstractContextManager[None]]"
"""Turns what a database raises into this library's errors, while it is entered."""


class SQLTracker:
    """Keeps states in two tables of the store's own database.

    Args:
        guard: is entered around each transaction.
        transaction: begins a transaction of the database.
        placeholder: how the database's driver writes a parameter.
        positions: the table of positions.
        states: the table of states.
    """

    def __init__(
        self, guard: Guard, transaction: Transaction, *, placeholder: str, positions: str, states: str
    ) -> None:
        self._guard = guard
        self._transaction = transaction
        self._placeholder = placeholder
        self._statements = {
            name: text.format(p=placeholder, positions=positions, states=states) for name, text in _STATEMENTS.items()
        }

    def position(self, name: str, version: int) -> int:
        """Return the position."""
        with self._guard(), self._transaction(commit=False) as cursor:
            cursor.execute(self._statements["select_position"], (name, version))
            row = cursor.fetchone()
        position: int = 0 if row is None else row["position"]
        return position

    def states(self, name: str, version: int, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions."""
        among = f" AND session_id IN ({','.join(['NULL', *[self._placeholder] * len(session_ids)])})"
        return dict(self._select(among, name, version, *session_ids))

    def all_states(self, name: str, version: int) -> list[tuple[str, bytes]]:
        """Return every session's state."""
        return self._select(" ORDER BY session_id", name, version)

    def move(self, name: str, version: int, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states."""
        with self._guard(), self._transaction(commit=True) as cursor:
            # The first statement writes: from there on nobody else moves this projection until the transaction ends.
            if before:
                cursor.execute(self._statements["move"], (after, name, version, before))
            else:
                cursor.execute(self._statements["begin"], (name, version, after))
            if cursor.fetchone() is None:
                return False
            if not before:
                cursor.execute(self._statements["delete_states"], (name,))
            cursor.executemany(
                self._statements["put_state"], [(name, session_id, state) for session_id, state in states.items()]
            )
        return True

    def _select(self, condition: str, *parameters: object) -> list[tuple[str, bytes]]:
        with self._guard(), self._transaction(commit=False) as cursor:
            cursor.execute(self._statements["select_states"] + condition, parameters)
            return [(row["session_id"], row["state"]) for row in cursor.fetchall()]


_STATEMENTS: Final = {
    "select_position": "SELECT position FROM {positions} WHERE name={p} AND version={p}",
    "select_states": (
        "SELECT session_id, state FROM {positions} JOIN {states} USING (name) WHERE name={p} AND version={p}"
    ),
    "begin": (
        "INSERT INTO {positions} AS kept (name, version, position) VALUES ({p}, {p}, {p}) ON CONFLICT (name) DO UPDATE"
        " SET version=excluded.version, position=excluded.position WHERE kept.version<>excluded.version RETURNING name"
    ),
    "delete_states": "DELETE FROM {states} WHERE name={p}",
    "move": "UPDATE {positions} SET position={p} WHERE name={p} AND version={p} AND position={p} RETURNING name",
    "put_state": (
        "INSERT INTO {states} (name, session_id, state) VALUES ({p}, {p}, {p})"
        " ON CONFLICT (name, session_id) DO UPDATE SET state=excluded.state"
    ),
}


@attrs.frozen
class SealedTracker:
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

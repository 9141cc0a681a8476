"""Where tracked projections keep their states: beside the events, so that state and position move together."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager


class Tracker(Protocol):
    """Keeps, by the name of a projection, one position in the store's stream of events, and one state a session."""

    def begin(self, name: str, version: int) -> int:
        """Return the position of a projection; 0 when it is new, or when its states are of another version.

        States of another version are thrown away.
        """
        ...

    def states(self, name: str, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions, as far as there are any."""
        ...

    def all_states(self, name: str) -> list[tuple[str, bytes]]:
        """Return every session's state, by session id."""
        ...

    def move(self, name: str, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states in one transaction.

        Returns:
            False, and nothing is changed, when the position is not ``before``: somebody else has moved it.
        """
        ...


class MemoryTracker:
    """Keeps states in this process."""

    def __init__(self) -> None:
        self._positions: dict[str, tuple[int, int]] = {}
        self._states: dict[str, dict[str, bytes]] = {}
        self._lock = Lock()

    def begin(self, name: str, version: int) -> int:
        """Return the position of a projection."""
        with self._lock:
            known, position = self._positions.get(name, (version, 0))
            if known != version:
                self._states.pop(name, None)
                position = 0
            self._positions[name] = (version, position)
            return position

    def states(self, name: str, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions."""
        with self._lock:
            kept = self._states.get(name, {})
            return {session_id: kept[session_id] for session_id in session_ids if session_id in kept}

    def all_states(self, name: str) -> list[tuple[str, bytes]]:
        """Return every session's state."""
        with self._lock:
            return sorted(self._states.get(name, {}).items())

    def move(self, name: str, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states."""
        with self._lock:
            version, position = self._positions[name]
            if position != before:
                return False
            self._positions[name] = (version, after)
            self._states.setdefault(name, {}).update(states)
            return True


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
        binary: the database's type of bytes.
        schema: what stands before a table's name, such as ``"public."``.
    """

    def __init__(
        self, guard: Guard, transaction: Transaction, *, placeholder: str, binary: str, schema: str = ""
    ) -> None:
        self._guard = guard
        self._transaction = transaction
        self._statements = {
            name: text.format(p=placeholder, binary=binary, s=schema) for name, text in _STATEMENTS.items()
        }
        self._is_made = False

    def begin(self, name: str, version: int) -> int:
        """Return the position of a projection."""
        with self._guard(), self._transaction(commit=True) as cursor:
            if not self._is_made:
                cursor.execute(self._statements["create_positions"])
                cursor.execute(self._statements["create_states"])
            cursor.execute(self._statements["insert_position"], (name, version))
            cursor.execute(self._statements["reset_position"], (version, name, version))
            if cursor.fetchone() is not None:
                cursor.execute(self._statements["delete_states"], (name,))
            cursor.execute(self._statements["select_position"], (name,))
            position: int = cursor.fetchone()["position"]
        self._is_made = True
        return position

    def states(self, name: str, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions."""
        found = {}
        with self._guard(), self._transaction(commit=False) as cursor:
            for session_id in session_ids:
                cursor.execute(self._statements["select_state"], (name, session_id))
                row = cursor.fetchone()
                if row is not None:
                    found[session_id] = bytes(row["state"])
        return found

    def all_states(self, name: str) -> list[tuple[str, bytes]]:
        """Return every session's state."""
        with self._guard(), self._transaction(commit=False) as cursor:
            cursor.execute(self._statements["select_states"], (name,))
            return [(row["session_id"], bytes(row["state"])) for row in cursor.fetchall()]

    def move(self, name: str, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states."""
        with self._guard(), self._transaction(commit=True) as cursor:
            cursor.execute(self._statements["move_position"], (after, name, before))
            if cursor.fetchone() is None:
                return False
            cursor.executemany(
                self._statements["put_state"], [(name, session_id, state) for session_id, state in states.items()]
            )
        return True


_STATEMENTS: Final = {
    "create_positions": (
        "CREATE TABLE IF NOT EXISTS {s}tracked_positions"
        " (name TEXT PRIMARY KEY, version BIGINT NOT NULL, position BIGINT NOT NULL)"
    ),
    "create_states": (
        "CREATE TABLE IF NOT EXISTS {s}tracked_states"
        " (name TEXT, session_id TEXT, state {binary} NOT NULL, PRIMARY KEY (name, session_id))"
    ),
    "insert_position": "INSERT INTO {s}tracked_positions VALUES ({p}, {p}, 0) ON CONFLICT (name) DO NOTHING",
    "reset_position": (
        "UPDATE {s}tracked_positions SET version={p}, position=0 WHERE name={p} AND version<>{p} RETURNING name"
    ),
    "delete_states": "DELETE FROM {s}tracked_states WHERE name={p}",
    "select_position": "SELECT position FROM {s}tracked_positions WHERE name={p}",
    "select_state": "SELECT state FROM {s}tracked_states WHERE name={p} AND session_id={p}",
    "select_states": "SELECT session_id, state FROM {s}tracked_states WHERE name={p} ORDER BY session_id",
    "move_position": "UPDATE {s}tracked_positions SET position={p} WHERE name={p} AND position={p} RETURNING name",
    "put_state": (
        "INSERT INTO {s}tracked_states VALUES ({p}, {p}, {p})"
        " ON CONFLICT (name, session_id) DO UPDATE SET state=excluded.state"
    ),
}

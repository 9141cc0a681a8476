"""Where tracked projections keep their states: beside the events, so that each moves with its position (ADR-0013)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_session.storage.contract import Guard, Transaction


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

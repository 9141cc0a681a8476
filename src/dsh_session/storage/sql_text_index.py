"""Where the words of a store's texts are kept for a search: beside the events, in the store's own database (ADR-0014).

A text is kept as its words, which the caller has taken from it, and the database compares them as they are. So it is
the caller who says what a word is and what letters are alike, and every database finds the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dsh_session.storage.contract import TextPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_session.storage.contract import Guard, IndexedText, Phrase, Transaction


@attrs.frozen
class Dialect:
    """What a database is asked, in its own words.

    Attributes:
        create: makes the tables that are missing.
        newest: selects the position of the newest text.
        inserts: each a statement, and what it takes of a text; the first one's table has the position for its key.
        find: gives the statement that finds phrases, and what it takes.
    """

    create: Sequence[str]
    newest: str
    inserts: Sequence[tuple[str, Callable[[IndexedText], tuple[Any, ...]]]]
    find: Callable[[Sequence[Phrase], str | None, int], tuple[str, tuple[Any, ...]]]


class SQLTextIndex:
    """Keeps texts in tables of the store's own database, which are made when they are first used.

    Args:
        guard: is entered around each transaction.
        transaction: begins a transaction of the database.
        dialect: the database's.
    """

    def __init__(self, guard: Guard, transaction: Transaction, dialect: Dialect) -> None:
        self._guard = guard
        self._transaction = transaction
        self._dialect = dialect
        self._is_made = False

    def position(self) -> int:
        """Return the position of the newest text."""
        with self._guard():
            self._make()
            with self._transaction(commit=False) as cursor:
                cursor.execute(self._dialect.newest)
                position: int = cursor.fetchone()["position"]
        return position

    def add(self, texts: Sequence[IndexedText]) -> bool:
        """Add texts behind `position`."""
        with self._guard():
            self._make()
            with self._transaction(commit=True) as cursor:
                # The first statement writes: from there on nobody else adds this text until the transaction ends.
                (statement, parameters), *others = self._dialect.inserts
                cursor.execute(f"{statement} ON CONFLICT DO NOTHING RETURNING position", parameters(texts[0]))
                if cursor.fetchone() is None:
                    return False
                cursor.executemany(statement, map(parameters, texts[1:]))
                for statement, parameters in others:
                    cursor.executemany(statement, map(parameters, texts))
        return True

    def find(self, phrases: Sequence[Phrase], session_id: str | None, limit: int) -> list[TextPlace]:
        """Return the places of the texts that hold every phrase. Cost: O(texts that hold their words)."""
        with self._guard():
            self._make()
            with self._transaction(commit=False) as cursor:
                cursor.execute(*self._dialect.find(phrases, session_id, limit))
                return [TextPlace(row["session_id"], row["seq"], row["kind"]) for row in cursor.fetchall()]

    def _make(self) -> None:
        if not self._is_made:
            with self._transaction(commit=True) as cursor:
                for statement in self._dialect.create:
                    cursor.execute(statement)
            self._is_made = True

"""Where the words of a store's texts are kept for a search: beside the events, in the store's own database (ADR-0014).

A text is kept as its words, which the caller has taken from it, and the database compares them as they are. So it is
the caller who says what a word is and what letters are alike, and every database finds the same.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import attrs

from dsh_session.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_session.tracking import Guard, Transaction

Phrase: TypeAlias = "Sequence[str]"
"""Words that stand one after the other."""


class PlaintextIndexError(SessionError, PermissionError):
    """A store that is enciphered was asked for an index, which would hold its texts in the clear."""


class TextPlace(NamedTuple):
    """Where a text stands: the session, the seq of its event, and what kind of text it is."""

    session_id: str
    seq: int
    kind: str


class IndexedText(NamedTuple):
    """A text to be found again.

    Attributes:
        position: of its event in the store's stream.
        place: where it stands.
        words: its words in their order, of letters and digits only. PostgreSQL takes words of 2,046 bytes, and texts
            whose words have half a million.
    """

    position: int
    place: TextPlace
    words: Sequence[str]


class TextIndex(Protocol):
    """Keeps the texts of a store's events, each once, in the order of the store's stream."""

    def position(self) -> int:
        """Return the position of the newest text; 0 while there is none."""
        ...

    def add(self, texts: Sequence[IndexedText]) -> bool:
        """Add one or more texts in one transaction: the next ones behind `position`, in their order.

        Returns:
            False, and nothing is changed, when the first of them is there: somebody else has added it.
        """
        ...

    def find(self, phrases: Sequence[Phrase], session_id: str | None, limit: int) -> list[TextPlace]:
        """Return the places of the texts that hold every phrase, the best first.

        A text is the better, the oftener it says the words for its length; how that is weighed is the database's. Of
        texts that are alike the newest comes first.
        """
        ...


class MemoryTextIndex:
    """Keeps texts in this process, and looks through all of them."""

    def __init__(self) -> None:
        self._texts: list[tuple[int, TextPlace, str]] = []
        self._lock = Lock()

    def position(self) -> int:
        """Return the position of the newest text."""
        with self._lock:
            return self._newest()

    def add(self, texts: Sequence[IndexedText]) -> bool:
        """Add texts behind `position`."""
        with self._lock:
            if texts[0].position <= self._newest():
                return False
            self._texts += [(text.position, text.place, _spaced(text.words)) for text in texts]
            return True

    def find(self, phrases: Sequence[Phrase], session_id: str | None, limit: int) -> list[TextPlace]:
        """Return the places of the texts that hold every phrase. Cost: O(size of all texts)."""
        together = [_spaced(phrase) for phrase in phrases]
        with self._lock:
            texts = tuple(self._texts)
        found = []
        for position, place, words in texts:
            if session_id in (None, place.session_id) and all(phrase in words for phrase in together):
                said = words.split()
                share = sum(said.count(word) for phrase in phrases for word in phrase) / len(said)
                found.append((share, position, place))
        return [place for *_, place in sorted(found, reverse=True)[:limit]]

    def _newest(self) -> int:
        return self._texts[-1][0] if self._texts else 0


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


def sqlite_dialect(table: str) -> Dialect:
    """Return the statements for SQLite: FTS5, which keeps an index and no text, beside a table of places.

    Its tokenizer ``ascii`` parts words at ASCII characters that are no letters or digits, and nowhere else.

    Args:
        table: the table of places; that of words has ``_words`` behind its name.
    """

    def find(phrases: Sequence[Phrase], session_id: str | None, limit: int) -> tuple[str, tuple[Any, ...]]:
        query = " AND ".join(f'"{" ".join(phrase)}"' for phrase in phrases)
        return statements["find"], (query, session_id, session_id, limit)

    statements = {name: text.format(table=table) for name, text in _SQLITE.items()}
    return Dialect(
        create=(statements["create_places"], statements["create_words"]),
        newest=statements["newest"],
        inserts=(
            (statements["insert_place"], lambda text: (text.position, *text.place)),
            (statements["insert_words"], lambda text: (text.position, " ".join(text.words))),
        ),
        find=find,
    )


def postgres_dialect(table: str, index: str) -> Dialect:
    """Return the statements for PostgreSQL: a ``tsvector`` finds words, and phrases are looked for in the words.

    A ``tsvector`` keeps 256 positions a word, and none above 16,383, so it cannot be asked for a phrase in a long text.

    Args:
        table: the table of texts, as SQL names it.
        index: its index.
    """

    def find(phrases: Sequence[Phrase], session_id: str | None, limit: int) -> tuple[str, tuple[Any, ...]]:
        query = " & ".join(f"'{word}'" for phrase in phrases for word in phrase)
        together = [_spaced(phrase) for phrase in phrases if len(phrase) > 1]
        return statements["find"], (query, session_id, session_id, together, limit)

    statements = {name: text.format(table=table, index=index) for name, text in _POSTGRES.items()}
    return Dialect(
        create=(statements["lock"], statements["create_texts"], statements["create_index"]),
        newest=statements["newest"],
        inserts=(
            (
                statements["insert_text"],
                lambda text: (text.position, *text.place, _spaced(text.words), _lexemes(text.words)),
            ),
        ),
        find=find,
    )


def _spaced(words: Sequence[str]) -> str:
    """Write words so that one of them, or several in a row, can be looked for with their spaces around them."""
    return f" {' '.join(words)} "


def _lexemes(words: Sequence[str]) -> str:
    return " ".join(f"'{word}':{place}" for place, word in enumerate(words, 1))


_SQLITE: Final = {
    "create_places": (
        "CREATE TABLE IF NOT EXISTS {table}"
        " (position INTEGER PRIMARY KEY, session_id TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL)"
    ),
    "create_words": (
        "CREATE VIRTUAL TABLE IF NOT EXISTS {table}_words USING fts5(words, content='', tokenize='ascii')"
    ),
    "newest": "SELECT coalesce(max(position), 0) AS position FROM {table}",
    "insert_place": "INSERT INTO {table} VALUES (?, ?, ?, ?)",
    "insert_words": "INSERT INTO {table}_words (rowid, words) VALUES (?, ?)",
    # CROSS: FTS5 is asked first and once; asked about one place after the other it takes seconds.
    "find": (
        "SELECT session_id, seq, kind FROM {table}_words CROSS JOIN {table} ON position = {table}_words.rowid"
        " WHERE {table}_words MATCH ? AND (? IS NULL OR session_id = ?) ORDER BY rank, position DESC LIMIT ?"
    ),
}
_POSTGRES: Final = {
    # First uses happen at the same time, and CREATE … IF NOT EXISTS does not wait for another one.
    "lock": "SELECT pg_advisory_xact_lock(hashtext('text_index'))",
    # UNIQUE: an index for the search of one session.
    "create_texts": (
        "CREATE TABLE IF NOT EXISTS {table} (position bigint PRIMARY KEY, session_id text NOT NULL,"
        " seq bigint NOT NULL, kind text NOT NULL, words text NOT NULL, lexemes tsvector NOT NULL,"
        " UNIQUE (session_id, position))"
    ),
    "create_index": "CREATE INDEX IF NOT EXISTS {index} ON {table} USING gin (lexemes)",
    "newest": "SELECT coalesce(max(position), 0) AS position FROM {table}",
    "insert_text": "INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s::tsvector)",
    "find": (
        "SELECT session_id, seq, kind FROM {table}, CAST(%s AS tsquery) AS query"
        " WHERE lexemes @@ query AND (%s::text IS NULL OR session_id = %s)"
        " AND NOT EXISTS (SELECT FROM unnest(%s::text[]) AS phrase WHERE strpos(words, phrase) = 0)"
        " ORDER BY ts_rank(lexemes, query, 1) DESC, position DESC LIMIT %s"
    ),
}

"""SQLite: the recorder, its connections, the full text index, and the factory of them."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, nullcontext
from threading import RLock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

import msgspec
from eventsourcing.persistence import IntegrityError
from eventsourcing.sqlite import (
    SQLITE3_DEFAULT_LOCK_TIMEOUT,
    SQLiteApplicationRecorder,
    SQLiteDatastore,
    SQLiteFactory,
)

from dsh_session.errors import StoreFormatError
from dsh_session.storage.contract import SCHEMA_VERSION, check_copied
from dsh_session.storage.sql_text_index import Dialect, SQLTextIndex
from dsh_session.storage.sql_tracking import SQLTracker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from eventsourcing.sqlite import SQLiteConnection
    from eventsourcing.utils import Environment

    from dsh_session.storage.contract import Guard, Phrase, Row


class SQLiteRecorder(SQLiteApplicationRecorder):
    """Keeps sessions in an SQLite file: one ``executemany`` a batch, and reads that leave the states out."""

    def create_table(self) -> None:
        """Make the tables in a new file, and refuse a file that is something else's or a newer library's."""
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute("PRAGMA user_version")
            version = cursor.fetchone()[0]
            cursor.execute("SELECT name FROM sqlite_schema")
            names = {row[0] for row in cursor.fetchall()}
        if version > SCHEMA_VERSION:
            raise StoreFormatError(
                f"the database is of schema version {version}; this library knows {SCHEMA_VERSION} and below"
            )
        if names and not (version == SCHEMA_VERSION and names >= _TABLES):
            raise StoreFormatError("an SQLite database, but not a store of sessions")
        self._set_journal_mode()
        if names:
            return
        with self.datastore.transaction(commit=True) as cursor:
            # The first statement writes, so that a second process at its first start waits here instead of failing.
            cursor.execute("PRAGMA user_version = 0")
            for statement in self.construct_create_table_statements():
                cursor.execute(statement)
            for table in _FURTHER_TABLES:
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {table}")
            cursor.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _set_journal_mode(self) -> None:
        """Let reading and writing go on side by side. SQLite does not wait for this by itself, as it does to write."""
        give_up_at = monotonic() + (self.datastore.pool.lock_timeout or SQLITE3_DEFAULT_LOCK_TIMEOUT)
        with self.datastore.get_connection(commit=True) as connection:
            while True:
                try:
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > give_up_at:
                        raise
                    sleep(0.01)
                else:
                    return

    def insert_after(self, originator_id: str, rows: Iterable[Row], after: int) -> None:
        """Insert rows behind version ``after``."""
        with self.datastore.transaction(commit=True) as cursor:
            cursor.sqlite_cursor.executemany(self.insert_events_statement, map((originator_id,).__add__, rows))
            if after >= 0:
                cursor.execute(
                    f"SELECT 1 FROM {self.events_table_name} WHERE originator_id=? AND originator_version=?",
                    (originator_id, after),
                )
                if cursor.fetchone() is None:
                    raise IntegrityError(f"no version {after} to follow")

    def insert_fork(self, originator_id: str, parent_id: str, length: int, rows: Sequence[Row]) -> None:
        """Insert a new originator that begins as a parent does."""
        first, *last = [(originator_id, *row) for row in rows]
        table = self.events_table_name
        with self.datastore.transaction(commit=True) as cursor:
            raw = cursor.sqlite_cursor
            raw.execute(self.insert_events_statement, first)
            raw.execute(
                f"INSERT INTO {table} SELECT ?, originator_version, topic, state FROM {table}"
                " WHERE originator_id=? AND originator_version BETWEEN 1 AND ? ORDER BY originator_version",
                (originator_id, parent_id, length),
            )
            check_copied(raw.rowcount, length, parent_id)
            raw.executemany(self.insert_events_statement, last)

    def select_rows(self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int) -> list[Row]:
        """Return the rows with versions from ``start`` to below ``stop``."""
        return self._select(
            "originator_version, topic, state",
            f"originator_version>=? AND originator_version<? ORDER BY originator_version {_ORDER[desc]} LIMIT ?",
            (originator_id, start, stop, limit),
        )

    def select_topics(
        self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return versions and topics without the states."""
        among = f"AND topic IN ({','.join('?' * len(topics))})" if topics else ""
        return self._select(
            "originator_version, topic",
            f"originator_version>=? AND originator_version<? {among}"
            f" ORDER BY originator_version {_ORDER[desc]} LIMIT ?",
            (originator_id, start, stop, *topics, limit),
        )

    def select_versions(self, originator_id: str, versions: Sequence[int]) -> list[Row]:
        """Return the rows of some versions."""
        return self._select(
            "originator_version, topic, state",
            "originator_version IN (SELECT value FROM json_each(?))",
            (originator_id, msgspec.json.encode(versions).decode()),
        )

    def max_version(self, originator_id: str) -> int | None:
        """Return the newest version of an originator."""
        newest: int | None = self._select("max(originator_version)", "1", (originator_id,))[0][0]
        return newest

    def select_originators(self, after: str, limit: int) -> list[str]:
        """Return originator ids above ``after``: one index look-up each, however many events they have."""
        table = self.events_table_name
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute(
                f"WITH RECURSIVE ids(id) AS (SELECT min(originator_id) FROM {table} WHERE originator_id>?"
                f" UNION ALL SELECT (SELECT min(originator_id) FROM {table} WHERE originator_id>id)"
                " FROM ids WHERE id IS NOT NULL LIMIT ?) SELECT id FROM ids WHERE id IS NOT NULL",
                (after, limit),
            )
            return [row[0] for row in cursor.fetchall()]

    def watch(self) -> None:
        """Return None: SQLite does not tell of other processes."""

    def tracker(self, guard: Guard) -> SQLTracker:
        """Return where the states of tracked projections are kept."""
        transaction = self.datastore.transaction
        return SQLTracker(guard, transaction, placeholder="?", positions="tracked_positions", states="tracked_states")

    def text_index(self, guard: Guard, version: int) -> SQLTextIndex:
        """Return where the words of texts are kept."""
        return SQLTextIndex(guard, self.datastore.transaction, sqlite_dialect(f"text_index_{version}"))

    def _select(self, columns: str, where: str, parameters: tuple[Any, ...]) -> list[Any]:
        with self.datastore.transaction(commit=False) as cursor:
            raw = cursor.sqlite_cursor
            raw.row_factory = None
            raw.execute(f"SELECT {columns} FROM {self.events_table_name} WHERE originator_id=? AND {where}", parameters)
            return raw.fetchall()


_ORDER: Final = {False: "ASC", True: "DESC"}
_TABLES: Final = {"stored_events", "stored_snapshots", "tracked_positions", "tracked_states"}
_FURTHER_TABLES: Final = (
    (
        "stored_snapshots (originator_id TEXT, originator_version INTEGER, topic TEXT, state BLOB,"
        " PRIMARY KEY (originator_id, originator_version)) WITHOUT ROWID"
    ),
    "tracked_positions (name TEXT PRIMARY KEY, version INTEGER NOT NULL, position INTEGER NOT NULL)",
    "tracked_states (name TEXT, session_id TEXT, state BLOB NOT NULL, PRIMARY KEY (name, session_id))",
)


class OneWriterDatastore(SQLiteDatastore):
    """Lets one thread write at a time, and the others wait outside the library's pool.

    While a thread waits in the pool to write, the pool gives nobody a connection; a writer that reads as it writes,
    as a fork does, would then wait for itself.
    """

    def __init__(self, db_name: str, *, lock_timeout: int | None) -> None:
        super().__init__(db_name, lock_timeout=lock_timeout, originator_id_type="text")
        self.pool.is_journal_mode_wal = True  # the recorder sets the mode, when it has seen whose file it is
        self._writing = RLock()

    @contextmanager
    def get_connection(self, *, commit: bool) -> Iterator[SQLiteConnection]:
        """Lend a connection out, to one writer at a time.

        The library leaves one open that it makes while another thread closes the pool.
        """
        with self._writing if commit else nullcontext(), super().get_connection(commit=commit) as connection:
            try:
                yield connection
            finally:
                if self.pool.closed:
                    connection.close()


class SessionSQLiteFactory(SQLiteFactory):
    """Makes the recorders of a store in an SQLite file."""

    application_recorder_class = SQLiteRecorder

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        pool = self.datastore.pool
        self.datastore = OneWriterDatastore(pool.db_name, lock_timeout=pool.lock_timeout)


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

"""Recorders: what keeps the rows, in memory and in SQLite, and the reads that the library's own do not have."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import contextmanager
from itertools import islice
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from eventsourcing.domain import EventSourcingError
from eventsourcing.persistence import IntegrityError, OperationalError, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder
from eventsourcing.sqlite import SQLITE3_DEFAULT_LOCK_TIMEOUT, SQLiteApplicationRecorder

from dsh_session.errors import DamagedStoreError, StoreError, StoreFormatError, StoreUnavailableError
from dsh_session.text_index import MemoryTextIndex, SQLTextIndex, sqlite_dialect
from dsh_session.tracking import MemoryTracker, SQLTracker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dsh_session.text_index import TextIndex
    from dsh_session.tracking import Guard, Tracker
    from dsh_session.watch import Watch

SCHEMA_VERSION: Final = 1
"""Written to a database of ours as its version; one that says more is from a newer library."""

Row = tuple[int, str, bytes]
"""A stored event less its originator: version, topic, state."""


class SessionRecorder(Protocol):
    """What the store asks of a recorder beyond the library's contract.

    Versions are gapless within one originator, so a range of them is a slice.
    """

    def create_table(self) -> None:
        """Make the tables that are missing."""
        ...

    def insert_after(self, originator_id: str, rows: Iterable[Row], after: int) -> None:
        """Insert rows behind version ``after`` of one originator, in one transaction.

        The rows are drawn from the iterable inside the transaction: a long log needs no memory, and an error of the
        iterable undoes all of it. ``after`` is -1 for a new originator.

        Raises:
            IntegrityError: a version is taken, or the version ``after`` is not there.
        """
        ...

    def insert_fork(self, originator_id: str, parent_id: str, length: int, rows: Sequence[Row]) -> None:
        """Insert a new originator, in one transaction: version 0, those of a parent up to ``length``, and one more.

        Args:
            originator_id: the new one.
            parent_id: whose versions 1 to ``length`` are copied, in the database.
            length: how many they are.
            rows: those with the versions 0 and ``length`` + 1.

        Raises:
            IntegrityError: a version is taken.
            DamagedStoreError: the parent lacks one of the versions.
        """
        ...

    def select_rows(self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int) -> list[Row]:
        """Return the rows with versions from ``start`` to below ``stop``."""
        ...

    def select_topics(
        self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return versions and topics without the states; those of the named topics only, where some are named."""
        ...

    def select_versions(self, originator_id: str, versions: Sequence[int]) -> list[Row]:
        """Return the rows of some versions, in no order."""
        ...

    def max_version(self, originator_id: str) -> int | None:
        """Return the newest version of an originator, or None when it has none."""
        ...

    def select_originators(self, after: str, limit: int) -> list[str]:
        """Return originator ids above ``after``, in their order."""
        ...

    def watch(self) -> Watch | None:
        """Begin to watch for anybody's inserts, or return None where the database does not tell."""
        ...

    def tracker(self, guard: Guard) -> Tracker:
        """Return where the states of tracked projections are kept; ``guard`` is entered around each transaction."""
        ...

    def text_index(self, guard: Guard, version: int) -> TextIndex:
        """Return where the words of texts are kept; ``guard`` is entered around each transaction."""
        ...


class MemoryRecorder(POPOApplicationRecorder):
    """Keeps sessions in this process."""

    def __init__(self) -> None:
        super().__init__()
        self._tracker = MemoryTracker()
        self._text_indexes: dict[int, MemoryTextIndex] = defaultdict(MemoryTextIndex)

    def create_table(self) -> None:
        """Do nothing: there is no table."""

    def insert_after(self, originator_id: str, rows: Iterable[Row], after: int) -> None:
        """Insert rows behind version ``after``."""
        drawn = [StoredEvent(originator_id, *row) for row in rows]
        with self._database_lock:
            if after >= 0 and after not in self._versions(originator_id):
                raise IntegrityError(f"no version {after} to follow")
            self.insert_events(drawn)

    def insert_fork(self, originator_id: str, parent_id: str, length: int, rows: Sequence[Row]) -> None:
        """Insert a new originator that begins as a parent does."""
        with self._database_lock:
            copied = self.select_rows(parent_id, 1, length + 1, desc=False, limit=-1)
            check_copied(len(copied), length, parent_id)
            self.insert_after(originator_id, [rows[0], *copied, *rows[1:]], after=-1)

    def select_rows(self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int) -> list[Row]:
        """Return the rows with versions from ``start`` to below ``stop``."""
        with self._database_lock:
            return [
                self._row(originator_id, version) for version in self._range(originator_id, start, stop, desc, limit)
            ]

    def select_topics(
        self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return versions and topics without the states."""
        with self._database_lock:
            versions = self._range(originator_id, start, stop, desc, -1)
            found = (self._row(originator_id, version)[:2] for version in versions)
            wanted = (row for row in found if not topics or row[1] in topics)
            return list(islice(wanted, limit if limit >= 0 else None))

    def select_versions(self, originator_id: str, versions: Sequence[int]) -> list[Row]:
        """Return the rows of some versions."""
        with self._database_lock:
            known = self._versions(originator_id)
            return [self._row(originator_id, version) for version in versions if version in known]

    def max_version(self, originator_id: str) -> int | None:
        """Return the newest version of an originator."""
        with self._database_lock:
            return len(self._versions(originator_id)) - 1 if self._versions(originator_id) else None

    def select_originators(self, after: str, limit: int) -> list[str]:
        """Return originator ids above ``after``."""
        with self._database_lock:
            return sorted(name for name, versions in self._stored_events_index.items() if versions and name > after)[
                :limit
            ]

    def watch(self) -> None:
        """Return None: nobody else can insert."""

    def tracker(self, guard: Guard) -> MemoryTracker:  # noqa: ARG002 - no database, no errors of one
        """Return where the states of tracked projections are kept."""
        return self._tracker

    def text_index(self, guard: Guard, version: int) -> MemoryTextIndex:  # noqa: ARG002 - as above
        """Return where the words of texts are kept."""
        return self._text_indexes[version]

    def _versions(self, originator_id: str) -> Mapping[int, int]:
        return self._stored_events_index.get(originator_id, {})

    def _range(self, originator_id: str, start: int, stop: int, desc: bool, limit: int) -> Sequence[int]:
        versions = range(max(start, 0), min(stop, len(self._versions(originator_id))))
        ordered = versions[::-1] if desc else versions
        return ordered[:limit] if limit >= 0 else ordered

    def _row(self, originator_id: str, version: int) -> Row:
        stored = self._stored_events[self._versions(originator_id)[version]]
        return version, stored.topic, stored.state


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


def check_copied(copied: int, length: int, parent_id: str) -> None:
    """Refuse a copy of a log that has holes."""
    if copied != length:
        reason = f"of its first {length} events only {copied} are there"
        raise DamagedStoreError(reason, session_id=parent_id, seq=None)


@contextmanager
def typed_errors(where: str) -> Iterator[None]:
    """Turn what a database raises into a `StoreError` that names the database; conflicts pass."""
    try:
        yield
    except IntegrityError:
        raise
    except StoreFormatError as error:
        raise StoreFormatError(f"{where}: {error}") from None
    except (EventSourcingError, sqlite3.Error) as error:
        is_passing = isinstance(error, (OperationalError, sqlite3.OperationalError))
        kind = StoreUnavailableError if is_passing else StoreError
        raise kind(f"{where}: {str(error) or type(error).__name__}") from error

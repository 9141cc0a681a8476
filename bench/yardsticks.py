"""What the figures are held against: the same bytes without this library, and with the stock one."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


class RawSQLite:
    """sqlite3 and msgspec alone: one table of the same shape, WAL, synchronous FULL, one transaction a batch."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(
            "CREATE TABLE stored_events (originator_id TEXT, originator_version INTEGER, topic TEXT, state BLOB,"
            " PRIMARY KEY (originator_id, originator_version))"
        )
        self.version = 0

    def save(self, payloads: Iterable[Any], topic: str = "append:user/message") -> None:
        """Encode and insert a batch."""
        rows = []
        for payload in payloads:
            self.version += 1
            rows.append(("session", self.version, topic, msgspec.json.encode({"time": 1, "data": payload})))
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO stored_events VALUES (?,?,?,?)", rows)
        self.connection.execute("COMMIT")


class StockSession(Aggregate):
    """A session as the stock library would have it: an aggregate with an ``@event`` method and a list."""

    def __init__(self) -> None:
        self.history: list[Any] = []

    @event("Appended")
    def append(self, event_type: str, data: Any, marker: str) -> None:
        """Keep one event."""
        self.history.append((event_type, data, marker))


class StockStore:
    """The stock application with its JSON transcoder on SQLite."""

    def __init__(self, path: Path) -> None:
        self.application: Application[Any] = Application(
            env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)}
        )
        self.session = StockSession()

    def save(self, batch: Sequence[tuple[str, Any, Any]]) -> None:
        """Append and save a batch."""
        for event_type, data, _ in batch:
            self.session.append(event_type, data, "append")
        self.application.save(self.session)

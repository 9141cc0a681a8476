"""What the figures are held against: the same bytes without this library, and with the stock one."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import psycopg
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from psycopg.conninfo import conninfo_to_dict
from workload import topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from workload import Candidate

TIME: Final = 1_700_000_000_000
RawRow = tuple[str, int, str, bytes]


class Raw(Protocol):
    """A database without this library.

    Attributes:
        name: what the table calls it.
    """

    name: str

    def insert(self, rows: list[RawRow]) -> None:
        """Insert a batch of rows in one transaction."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class RawSQLite:
    """sqlite3 alone: one table of the same shape, WAL, synchronous FULL, executemany in one transaction a batch."""

    name = "sqlite3 + msgspec"

    def __init__(self, path: str | Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS stored_events (originator_id TEXT, originator_version INTEGER, topic TEXT,"
            " state BLOB, PRIMARY KEY (originator_id, originator_version))"
        )

    def insert(self, rows: Iterable[RawRow]) -> None:
        """Insert a batch of rows in one transaction."""
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO stored_events VALUES (?,?,?,?)", rows)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class RawPostgres:
    """psycopg alone: one table of the same columns, one INSERT of an array a column and a commit a batch.

    That is one round trip, and at batches of 100 half as fast again as ``executemany``, which psycopg pipelines.
    """

    name = "psycopg + msgspec"

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(
            "CREATE TABLE stored_events (originator_id text, originator_version bigint, topic text NOT NULL,"
            " state bytea NOT NULL, PRIMARY KEY (originator_id, originator_version))"
        )

    def insert(self, rows: list[RawRow]) -> None:
        """Insert a batch of rows in one transaction."""
        self.connection.execute(
            "INSERT INTO stored_events SELECT * FROM unnest(%b::text[], %b::bigint[], %b::text[], %b::bytea[])",
            [list(column) for column in zip(*rows, strict=True)],
        )

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def raw_rows(session_id: str, candidates: Sequence[Candidate], version: int) -> list[RawRow]:
    """Encode the same bytes as a save writes, with versions from ``version``."""
    return [
        (session_id, version + place, topic(candidate), msgspec.json.encode({"time": TIME, "data": candidate[1]}))
        for place, candidate in enumerate(candidates)
    ]


def rows_of_lines(session_id: str, lines: Iterable[bytes]) -> Iterator[RawRow]:
    """Read the events of a JSONL log, and give a row each."""
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    for line in lines:
        found = decode(line)
        state = encode({"time": found["time"], "data": found["data"]})
        yield session_id, found["seq"] + 1, found["type"], state


class StockSession(Aggregate):
    """A session as the stock library would have it: an aggregate with an ``@event`` method and a list."""

    def __init__(self) -> None:
        self.history: list[Any] = []

    @event("Appended")
    def append(self, event_type: str, data: Any, marker: str) -> None:
        """Keep one event."""
        self.history.append((event_type, data, marker))


class StockStore:
    """The stock application with its JSON transcoder, on a database of any kind."""

    def __init__(self, target: str) -> None:
        self.application: Application[Any] = Application(env=_environment(target))
        self.session = StockSession()

    def save(self, batch: Sequence[Candidate]) -> None:
        """Append and save a batch."""
        for event_type, data, _ in batch:
            self.session.append(event_type, data, "append")
        self.application.save(self.session)

    def get(self) -> Any:
        """Load the session."""
        return self.application.repository.get(self.session.id)

    def close(self) -> None:
        """Close the database."""
        self.application.close()


def _environment(target: str) -> dict[str, str]:
    if target == ":memory:":
        return {"PERSISTENCE_MODULE": "eventsourcing.popo"}
    if not target.startswith("postgresql://"):
        return {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": target}
    given = {f"POSTGRES_{key.upper()}": str(value) for key, value in conninfo_to_dict(target).items()}
    return {"PERSISTENCE_MODULE": "eventsourcing.postgres", **given}

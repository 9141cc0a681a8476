"""Where figures are taken: how much is measured, the databases, and the long logs, each built once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import attrs
import psycopg
from workload import write_long_log
from yardsticks import TIME

from dsh_session import SessionStore, write_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Self

Kind = Literal["SQLite", "PostgreSQL", "memory"]
KINDS: Final[tuple[Kind, ...]] = ("SQLite", "PostgreSQL", "memory")
MEMORY: Final = ":memory:"
LONG_ID: Final = "bench"


@attrs.frozen
class Scale:
    """How much is measured.

    Attributes:
        runs: how often each thing is done; the median counts.
        events: how many are appended in a run.
        batches: the sizes of a save.
        surfaces: in how many nodes one is replaced.
        nodes: of a session that is compacted.
        lengths: of the long logs in SQLite.
        short_lengths: of those in PostgreSQL and memory.
        stock_length: of the stock aggregate.
    """

    runs: int
    events: int
    batches: tuple[int, ...]
    surfaces: tuple[int, int]
    nodes: int
    lengths: tuple[int, ...]
    short_lengths: tuple[int, ...]
    stock_length: int

    def lengths_in(self, kind: Kind) -> tuple[int, ...]:
        """Return the lengths of the long logs in a kind of database."""
        return self.lengths if kind == "SQLite" else self.short_lengths


FULL: Final = Scale(
    runs=5,
    events=20_000,
    batches=(1, 10, 100, 1000),
    surfaces=(1_000, 100_000),
    nodes=1_000,
    lengths=(10_000, 100_000, 1_000_000),
    short_lengths=(10_000, 100_000),
    stock_length=100_000,
)
QUICK: Final = Scale(
    runs=1,
    events=300,
    batches=(10, 100),
    surfaces=(20, 100),
    nodes=30,
    lengths=(400, 800),
    short_lengths=(400,),
    stock_length=200,
)


class Fresh(NamedTuple):
    """What a process of its own took.

    Attributes:
        seconds: for the act alone, when everything was imported.
        above_empty: the most MB that it held, above a Python process that has imported nothing.
        above_imported: the same above the process before the act.
    """

    seconds: float
    above_empty: float
    above_imported: float


class Setting:
    """Databases for the figures; use it as a context manager.

    Args:
        folder: for the files.
        scale: how much is measured.
        run_server: runs a PostgreSQL server and gives the URL of its superuser; it is asked at most once.
    """

    def __init__(self, folder: Path, scale: Scale, run_server: Callable[[], AbstractContextManager[str]]) -> None:
        self.folder = folder
        self.scale = scale
        self._names = count()
        self._open = ExitStack()
        self._server = cache(lambda: self._open.enter_context(run_server()))
        self.long_target = cache(self._write_long_target)
        self._memory_store = cache(self._write_memory_store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def new_target(self, kind: Kind) -> str:
        """Return the target of a database with nothing in it."""
        name = f"bench_{next(self._names)}"
        match kind:
            case "SQLite":
                return str(self.folder / f"{name}.db")
            case "PostgreSQL":
                return self._new_database(name)
            case "memory":
                return MEMORY

    @contextmanager
    def long_store(self, kind: Kind, length: int) -> Iterator[SessionStore]:
        """Open the store that holds one long session, `LONG_ID`."""
        if kind == "memory":
            yield self._memory_store(length)
            return
        with SessionStore.open(self.long_target(kind, length)) as store:
            yield store

    @contextmanager
    def long_copy(self, length: int) -> Iterator[tuple[SessionStore, sqlite3.Connection]]:
        """Open a copy of a long log in SQLite that may be changed, as a store and as what it is; it goes afterwards."""
        path = self.new_target("SQLite")
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            with closing(sqlite3.connect(self.long_target("SQLite", length))) as original:
                original.backup(copy)
            copy.execute("PRAGMA journal_mode=WAL")
            copy.execute("PRAGMA synchronous=FULL")
            with SessionStore.open(path) as store:
                yield store, copy
        Path(path).unlink()

    def long_file(self, length: int) -> Path:
        """Return a long log as plain JSONL, a line an event."""
        path = self.folder / f"{length}.jsonl"
        if not path.exists():
            with self.long_store("SQLite", length) as store:
                write_jsonl(path, store.header(LONG_ID), store.log(LONG_ID), pack=False)
        return path

    def fresh(self, act: str, target: str) -> Fresh:
        """Do something to the long session of a target in a process of its own; ``fresh.py`` says what there is."""
        command = [sys.executable, str(Path(__file__).with_name("fresh.py")), act, target, LONG_ID]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
        return Fresh(*map(float, done.stdout.split()))

    def _write_long_target(self, kind: Kind, length: int) -> str:
        target = self.new_target(kind)
        with SessionStore.open(target) as store:
            write_long_log(store.create(id=LONG_ID), length, store.save)
        return target

    def _write_memory_store(self, length: int) -> SessionStore:
        store = self._open.enter_context(SessionStore.open(MEMORY, clock=lambda: TIME))
        write_long_log(store.create(id=LONG_ID), length, store.save)
        return store

    def _new_database(self, name: str) -> str:
        server = self._server()
        self._administer(f"CREATE DATABASE {name}")
        self._open.callback(partial(self._administer, f"DROP DATABASE {name} WITH (FORCE)"))
        return f"{server.rpartition('/')[0]}/{name}"

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self._server(), autocommit=True) as admin:
            admin.execute(statement)


class Process:
    """Does one thing to the long session of a database, each time in a process of its own.

    Attributes:
        taken: what each took.
    """

    def __init__(self, setting: Setting, act: str, kind: Kind, length: int) -> None:
        self._run = partial(setting.fresh, act, setting.long_target(kind, length))
        self.taken: list[Fresh] = []

    def __call__(self) -> float:
        """Return the seconds."""
        self.taken.append(self._run())
        return self.taken[-1].seconds

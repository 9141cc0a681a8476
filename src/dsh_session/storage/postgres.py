"""PostgreSQL: the recorder, the connections under it, and the factory of both (ADR-0010).

This room needs the extra ``postgres``; nothing else here imports it before a PostgreSQL store is opened.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from selectors import EVENT_READ, DefaultSelector
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from eventsourcing.domain import EventSourcingError
from eventsourcing.persistence import DataError, IntegrityError
from eventsourcing.postgres import PostgresAggregateRecorder, PostgresApplicationRecorder, PostgresFactory
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ProgramLimitExceeded
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row, tuple_row
from psycopg.sql import SQL, Identifier, Literal

from dsh_session.errors import StoreError, StoreFormatError
from dsh_session.storage.contract import SCHEMA_VERSION, check_copied, spaced
from dsh_session.storage.sql_text_index import Dialect, SQLTextIndex
from dsh_session.storage.sql_tracking import SQLTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import LiteralString, Self

    from eventsourcing.persistence import StoredEvent
    from eventsourcing.postgres import PostgresDatastore
    from eventsourcing.utils import Environment
    from psycopg import Cursor
    from psycopg.sql import Composable, Composed

    from dsh_session.storage.contract import Guard, Phrase, Row

Connection: TypeAlias = psycopg.Connection[DictRow]

_BATCH_EVENTS: Final = 1000
_BATCH_BYTES: Final = 1 << 24
_URL: Final = re.compile(r"postgres(ql)?://([^@/]*@)?[^@]*")  # an @ or / of a password is written %40 or %2F
_CONNINFO: Final = "POSTGRES_CONNINFO"
_NOT_FROM_ENVIRONMENT: Final = dict.fromkeys(("host", "hostaddr", "port", "dbname", "user"), "")


def configuration(url: str) -> dict[str, str]:
    """Return the library's configuration for the database of a URL.

    Raises:
        StoreError: it is no URL of a PostgreSQL database. The error repeats no part of it, as any may be a password.
    """
    given: dict[str, str] | None = None
    if _URL.fullmatch(url):
        with suppress(psycopg.ProgrammingError):
            given = _parameters(url)
    if given is None or not re.fullmatch(r"[\d,]*", given.get("port", "")):
        raise StoreError("not a PostgreSQL URL; one is postgresql://user:password@host:port/database")
    keys = ("dbname", "host", "port", "user", "password")
    return {_CONNINFO: make_conninfo(**given), **{f"POSTGRES_{key.upper()}": given.get(key, "") for key in keys}}


def name_of(configured: dict[str, str]) -> str:
    """Return what errors call a configured database: where it is and who asks, without the password."""
    given = _parameters(configured[_CONNINFO])
    shown = {key: given[key] for key in ("host", "port", "dbname", "user") if key in given}
    return f"PostgreSQL {make_conninfo(**shown)}"


def _parameters(conninfo: str) -> dict[str, str]:
    return {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}


class Connections:
    """Lends connections out: an idle one that is still alive, or else one that the caller's thread makes.

    The library's pool makes them in the background. Its callers wait for a time and do not learn what is wrong, and
    after an outage it tries again at growing intervals.

    Args:
        connect: makes a connection.
        kept: how many are kept idle for the next caller.
    """

    def __init__(self, connect: Callable[[], Connection], kept: int) -> None:
        self._connect = connect
        self._kept = kept
        self._idle: deque[Connection] = deque()
        self._is_closed = False
        self._lock = Lock()

    def open(self, *_: object) -> None:
        """Refuse to serve after `close`; the library asks before each use."""
        if self._is_closed:
            raise psycopg.ProgrammingError("the store is closed")

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection out."""
        connection = self._idle_and_alive() or self._connect()
        try:
            yield connection
        finally:
            is_sound = connection.info.transaction_status is TransactionStatus.IDLE
            with self._lock:
                is_kept = is_sound and not self._is_closed and len(self._idle) < self._kept
                if is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()

    def close(self) -> None:
        """Close the idle connections now, and each other one when it comes back."""
        with self._lock:
            self._is_closed = True
            while self._idle:
                self._idle.pop().close()

    def _idle_and_alive(self) -> Connection | None:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if _is_quiet(connection):
                    return connection
                connection.close()
        return None


def _is_quiet(connection: Connection) -> bool:
    """Whether nothing has come in: a server that ends an idle connection says so, or hangs up."""
    with DefaultSelector() as selector:
        selector.register(connection.fileno(), EVENT_READ)
        return not selector.select(0)


class ColumnsRecorder(PostgresAggregateRecorder):
    """Inserts rows as one array a column, where the library needs a composite type in the database."""

    def __init__(self, datastore: PostgresDatastore, *, events_table_name: str = "stored_events") -> None:
        super().__init__(datastore, events_table_name=events_table_name)
        self.insert_events_statement = SQL(
            "INSERT INTO {} (originator_id, originator_version, topic, state)"
            " SELECT * FROM unnest(%b::text[], %b::bigint[], %b::text[], %b::bytea[])"
        ).format(Identifier(datastore.schema, events_table_name))

    def _insert_stored_events(self, curs: Cursor[DictRow], stored_events: Sequence[StoredEvent], **_: Any) -> None:
        curs.execute(
            self.insert_events_statement,
            (
                [event.originator_id for event in stored_events],
                [event.originator_version for event in stored_events],
                [event.topic for event in stored_events],
                [event.state for event in stored_events],
            ),
        )


class PostgresRecorder(PostgresApplicationRecorder, ColumnsRecorder):
    """Keeps sessions in PostgreSQL: one statement a batch, and reads that leave the states out.

    As in the library, a transaction that inserts holds the table's exclusive lock, so that notification ids are in the
    order of the commits, and notifies who listens.
    """

    def __init__(self, datastore: PostgresDatastore, *, events_table_name: str = "stored_events") -> None:
        super().__init__(datastore, events_table_name=events_table_name)
        prefix = events_table_name.removesuffix("events")
        self._names = {
            "events": Identifier(datastore.schema, events_table_name),
            "snapshots": Identifier(datastore.schema, f"{prefix}snapshots"),
            "positions": Identifier(datastore.schema, f"{prefix}positions"),
            "states": Identifier(datastore.schema, f"{prefix}states"),
            "index": Identifier(self.notification_id_index_name),
            "channel": Identifier(self.channel_name),
        }
        self._lock_and_notify = self._sql(
            "SET LOCAL lock_timeout = {timeout}; LOCK TABLE {events} IN EXCLUSIVE MODE; NOTIFY {channel}",
            timeout=Literal(f"{datastore.lock_timeout}s"),
        )
        self._insert_batch = self._sql(_INSERT, incoming=SQL(_ARRAYS))
        self._insert_copied = self._sql(_INSERT, incoming=SQL("pg_temp.incoming"))
        self._insert_inherited = self._sql(_INSERT_INHERITED)

    def create_table(self) -> None:
        """Make the tables in a new database, and refuse a table that is something else's or a newer library's."""
        with self.datastore.transaction(commit=True) as cursor:
            # First starts happen at the same time, and CREATE … IF NOT EXISTS does not wait for another one.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self.events_table_name,))
            cursor.execute(_LOOK, {name: identifier.as_string(cursor) for name, identifier in self._names.items()})
            found: Any = cursor.fetchone()
            if found["has_events"]:
                self._check_comment(found["comment"] or "")
            else:
                for statement in _CREATE_TABLES:
                    cursor.execute(self._sql(statement, comment=Literal(f"{_COMMENT}{SCHEMA_VERSION}")))

    def insert_after(self, originator_id: str, rows: Iterable[Row], after: int) -> None:
        """Insert rows behind version ``after``.

        They go in one statement. More than a batch are copied to a temporary table as they are drawn, and from there
        at once: other writers wait for the database only, and never for where the rows come from.
        """
        drawn = iter(rows)
        batch, is_all = _batch(drawn)
        with self.datastore.transaction(commit=True) as cursor:
            count = len(batch) if is_all else _copy(cursor, chain(batch, drawn))
            cursor.execute(self._lock_and_notify)
            if is_all:
                self._insert(cursor, originator_id, batch, after)
            else:
                with _refused_ids(originator_id):
                    cursor.execute(self._insert_copied, {"id": originator_id, "after": after})
            if cursor.rowcount != count:
                raise IntegrityError(f"no version {after} to follow")

    def insert_fork(self, originator_id: str, parent_id: str, length: int, rows: Sequence[Row]) -> None:
        """Insert a new originator that begins as a parent does."""
        with self.datastore.transaction(commit=True) as cursor:
            cursor.execute(self._lock_and_notify)
            self._insert(cursor, originator_id, rows[:1], -1)
            cursor.execute(self._insert_inherited, {"id": originator_id, "parent": parent_id, "length": length})
            check_copied(cursor.rowcount, length, parent_id)
            self._insert(cursor, originator_id, rows[1:], length)

    def select_rows(self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int) -> list[Row]:
        """Return the rows with versions from ``start`` to below ``stop``."""
        return self._fetch(
            self._sql(_SELECT_RANGE, columns=_ROW, among=SQL(""), order=_ORDER[desc]),
            {"id": originator_id, "start": start, "stop": stop, "limit": _limit(limit)},
        )

    def select_topics(
        self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return versions and topics without the states."""
        among = SQL("AND topic = ANY(%(topics)s)" if topics else "")
        return self._fetch(
            self._sql(_SELECT_RANGE, columns=_TOPIC, among=among, order=_ORDER[desc]),
            {"id": originator_id, "start": start, "stop": stop, "limit": _limit(limit), "topics": list(topics)},
        )

    def select_versions(self, originator_id: str, versions: Sequence[int]) -> list[Row]:
        """Return the rows of some versions."""
        return self._fetch(self._sql(_SELECT_VERSIONS, columns=_ROW), {"id": originator_id, "versions": list(versions)})

    def max_version(self, originator_id: str) -> int | None:
        """Return the newest version of an originator."""
        newest: int | None = self._fetch(self._sql(_SELECT_NEWEST), {"id": originator_id})[0][0]
        return newest

    def select_originators(self, after: str, limit: int) -> list[str]:
        """Return originator ids above ``after``: one index look-up each, however many events they have."""
        return [row[0] for row in self._fetch(self._sql(_SELECT_ORIGINATORS), {"after": after, "limit": limit})]

    def watch(self) -> PostgresWatch:
        """Begin to watch for anybody's inserts."""
        return PostgresWatch(self)

    def tracker(self, guard: Guard) -> SQLTracker:
        """Return where the states of tracked projections are kept."""
        positions, states = (self._names[name].as_string() for name in ("positions", "states"))
        return SQLTracker(guard, self.datastore.transaction, placeholder="%s", positions=positions, states=states)

    def text_index(self, guard: Guard, version: int) -> SQLTextIndex:
        """Return where the words of texts are kept."""
        name = f"{self.events_table_name.removesuffix('events')}text_index_{version}"
        table = Identifier(self.datastore.schema, name).as_string()
        index = Identifier(f"{name}_lexemes").as_string()
        return SQLTextIndex(guard, self.datastore.transaction, postgres_dialect(table, index))

    @contextmanager
    def listening(self) -> Iterator[Connection]:
        """Lend a connection out that listens for inserts. It is of no use to others afterwards, and is closed."""
        with self.datastore.get_connection() as connection:
            connection.execute(self._sql("LISTEN {channel}"))
            try:
                yield connection
            finally:
                connection.close()

    def _insert(self, cursor: Cursor[DictRow], originator_id: str, rows: Sequence[Row], after: int) -> None:
        versions, topics, states = map(list, zip(*rows, strict=True))
        parameters = {"id": originator_id, "after": after, "versions": versions, "topics": topics, "states": states}
        with _refused_ids(originator_id):
            cursor.execute(self._insert_batch, parameters)

    def _sql(self, statement: LiteralString, **parts: Composable) -> Composed:
        return SQL(statement).format(**self._names, **parts)

    def _fetch(self, query: Composed, parameters: dict[str, Any]) -> list[Any]:
        with (
            self.datastore.get_connection() as connection,
            connection.cursor(binary=True, row_factory=tuple_row) as cursor,
        ):
            return cursor.execute(query, parameters).fetchall()

    def _check_comment(self, comment: str) -> None:
        version = re.fullmatch(_COMMENT + r"(\d+)", comment)
        if version is None:
            raise StoreFormatError(f"it has a table {self.events_table_name}, which is not of a store of sessions")
        if int(version[1]) > SCHEMA_VERSION:
            raise StoreFormatError(
                f"the database is of schema version {version[1]}; this library knows {SCHEMA_VERSION} and below"
            )


class PostgresWatch:
    """Listens to the channel that every insert notifies, on a connection of its own.

    While the server is away a wait takes its whole time, and the next one tries to listen again.

    Args:
        recorder: whose inserts to watch for.
    """

    def __init__(self, recorder: PostgresRecorder) -> None:
        self._recorder = recorder
        self._listening = ExitStack()
        self._connection: Connection | None = None
        self._listen()

    def wait(self, seconds: float) -> None:
        """Return when something was inserted, or after some seconds."""
        started = monotonic()
        try:
            if self._connection is None:
                self._listen()
                return  # what was inserted in between is there to be read
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                pass
        except (psycopg.Error, EventSourcingError):
            self._forget()
            sleep(max(0.0, seconds - (monotonic() - started)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._forget()

    def _listen(self) -> None:
        self._connection = self._listening.enter_context(self._recorder.listening())

    def _forget(self) -> None:
        self._connection = None
        self._listening.close()


def _limit(limit: int) -> int | None:
    return limit if limit >= 0 else None


@contextmanager
def _refused_ids(originator_id: str) -> Iterator[None]:
    try:
        yield
    except ProgramLimitExceeded as error:
        raise DataError(f"an id of {len(originator_id)} characters is too long for PostgreSQL") from error


def _batch(rows: Iterator[Row]) -> tuple[list[Row], bool]:
    """Draw rows until a batch is full, and say whether they were all."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row[2])
        if len(batch) == _BATCH_EVENTS or size >= _BATCH_BYTES:
            return batch, False
    return batch, True


def _copy(cursor: Cursor[DictRow], rows: Iterable[Row]) -> int:
    """Copy rows to a temporary table, and say how many they were."""
    cursor.execute("CREATE TEMPORARY TABLE incoming (version bigint, topic text, state bytea) ON COMMIT DROP")
    with cursor.copy("COPY pg_temp.incoming FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(("int8", "text", "bytea"))
        for row in rows:
            copy.write_row(row)
    return cursor.rowcount


_COMMENT: Final = "dsh-session schema "
_LOOK: Final = (
    "SELECT to_regclass(%(events)s) IS NOT NULL AS has_events,"
    " obj_description(to_regclass(%(events)s), 'pg_class') AS comment"
)
# COLLATE "C": ids are ordered by code point, as in the other databases.
_COLUMNS: Final = 'originator_id text COLLATE "C", originator_version bigint, topic text NOT NULL, state bytea NOT NULL'
_CREATE_TABLES: Final[tuple[LiteralString, ...]] = (
    f"CREATE TABLE {{events}} ({_COLUMNS}, notification_id bigserial, PRIMARY KEY (originator_id, originator_version))",
    f"CREATE TABLE {{snapshots}} ({_COLUMNS}, PRIMARY KEY (originator_id, originator_version))",
    "CREATE TABLE {positions} (name text PRIMARY KEY, version bigint NOT NULL, position bigint NOT NULL)",
    (
        'CREATE TABLE {states} (name text, session_id text COLLATE "C", state bytea NOT NULL,'
        " PRIMARY KEY (name, session_id))"
    ),
    "CREATE UNIQUE INDEX {index} ON {events} (notification_id)",
    "COMMENT ON TABLE {events} IS {comment}",
)
_INSERT: Final = (
    "INSERT INTO {events} (originator_id, originator_version, topic, state)"
    " SELECT %(id)s::text, version, topic, state FROM {incoming} AS incoming (version, topic, state)"
    " WHERE %(after)s < 0 OR EXISTS"
    " (SELECT FROM {events} WHERE originator_id = %(id)s::text AND originator_version = %(after)s)"
)
_INSERT_INHERITED: Final = (
    "INSERT INTO {events} (originator_id, originator_version, topic, state)"
    " SELECT %(id)s::text, originator_version, topic, state FROM {events}"
    " WHERE originator_id = %(parent)s AND originator_version BETWEEN 1 AND %(length)s ORDER BY originator_version"
)
_ARRAYS: Final = "unnest(%(versions)b::bigint[], %(topics)b::text[], %(states)b::bytea[])"
_ROW: Final = SQL("originator_version, topic, state")
_TOPIC: Final = SQL("originator_version, topic")
_ORDER: Final = {False: SQL("ASC"), True: SQL("DESC")}
_SELECT_RANGE: Final = (
    "SELECT {columns} FROM {events} WHERE originator_id = %(id)s AND originator_version >= %(start)s"
    " AND originator_version < %(stop)s {among} ORDER BY originator_version {order} LIMIT %(limit)s"
)
_SELECT_VERSIONS: Final = (
    "SELECT {columns} FROM {events} WHERE originator_id = %(id)s AND originator_version = ANY(%(versions)s::bigint[])"
)
_SELECT_NEWEST: Final = "SELECT max(originator_version) FROM {events} WHERE originator_id = %(id)s"
_SELECT_ORIGINATORS: Final = (
    "WITH RECURSIVE ids (id) AS (SELECT min(originator_id) FROM {events} WHERE originator_id > %(after)s UNION ALL"
    " SELECT (SELECT min(originator_id) FROM {events} WHERE originator_id > id) FROM ids WHERE id IS NOT NULL)"
    " SELECT id FROM ids WHERE id IS NOT NULL LIMIT %(limit)s"
)


class SessionPostgresFactory(PostgresFactory):
    """Makes the recorders of a store in PostgreSQL.

    Connections are made as the URL says, to the last parameter. Of the library's settings for its pool,
    ``POSTGRES_POOL_SIZE`` says how many idle connections are kept, and ``POSTGRES_CONNECT_TIMEOUT`` how many seconds
    the making of one may take; the others have no meaning here.
    """

    aggregate_recorder_class = ColumnsRecorder
    application_recorder_class = PostgresRecorder

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        library_pool = self.datastore.pool
        defaults = {**_NOT_FROM_ENVIRONMENT, "connect_timeout": str(int(library_pool.timeout))}
        given = defaults | _parameters(env[_CONNINFO])
        ask_password = library_pool.get_password_func
        configure = self.datastore.after_connect_func()

        def connect() -> Connection:
            password = {"password": ask_password()} if ask_password else {}
            connection = Connection.connect(make_conninfo(**(given | password)), row_factory=dict_row)
            configure(connection)
            return connection

        pool: Any = Connections(connect, kept=library_pool.min_size)
        self.datastore.pool = pool


def postgres_dialect(table: str, index: str) -> Dialect:
    """Return the statements for PostgreSQL: a ``tsvector`` finds words, and phrases are looked for in the words.

    A ``tsvector`` keeps 256 positions a word, and none above 16,383, so it cannot be asked for a phrase in a long text.

    Args:
        table: the table of texts, as SQL names it.
        index: its index.
    """

    def find(phrases: Sequence[Phrase], session_id: str | None, limit: int) -> tuple[str, tuple[Any, ...]]:
        query = " & ".join(f"'{word}'" for phrase in phrases for word in phrase)
        together = [spaced(phrase) for phrase in phrases if len(phrase) > 1]
        return statements["find"], (query, session_id, session_id, together, limit)

    statements = {name: text.format(table=table, index=index) for name, text in _POSTGRES.items()}
    return Dialect(
        create=(statements["lock"], statements["create_texts"], statements["create_index"]),
        newest=statements["newest"],
        inserts=(
            (
                statements["insert_text"],
                lambda text: (text.position, *text.place, spaced(text.words), _lexemes(text.words)),
            ),
        ),
        find=find,
    )


def _lexemes(words: Sequence[str]) -> str:
    return " ".join(f"'{word}':{place}" for place, word in enumerate(words, 1))


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

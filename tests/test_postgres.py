"""What holds of a store in PostgreSQL beyond the contract that `test_store` asks of every store."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep
from traceback import format_exception
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from eventsourcing.persistence import ProgrammingError

from dsh_session import ConflictError, SessionEvent, SessionHeader, SessionStore, StoreError, StoreFormatError
from dsh_session.storage.contract import SCHEMA_VERSION
from stored import dump, say, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsh_session import Session

PASSWORD = "p@ss/w%rd"  # noqa: S105 - of a server that lives as long as the tests


@pytest.fixture
def pg_store(postgres_url: str) -> Iterator[SessionStore]:
    """A new store in PostgreSQL."""
    with SessionStore.open(postgres_url) as store:
        yield store


@pytest.fixture
def sockets(postgres_admin: psycopg.Connection) -> str:
    """The folder of the server's socket."""
    return str(postgres_admin.execute("SHOW unix_socket_directories").fetchone()[0])  # type: ignore[index] # one row


def written(store: SessionStore, session_id: str = "s", text: str = "hello") -> Session:
    """Return a new session that is saved, with one event that is not."""
    session = store.create(id=session_id)
    work(session)
    store.save(session)
    say(session, text)
    return session


def notes(count: int) -> Iterator[SessionEvent]:
    """Give a log of many events."""
    return (SessionEvent("", seq, seq, "note", b'"%d"' % seq) for seq in range(count))


def connections(admin: psycopg.Connection) -> int:
    """Return how many others are connected, when it has not changed for a while: to leave takes a moment."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    counts = [-1]
    while len(counts) < 5 or len({*counts[-5:]}) > 1:
        sleep(0.02)
        counts.append(admin.execute(asked).fetchone()[0])  # type: ignore[index] # one row
    return counts[-1]


# Opening


def test_a_url_says_where_and_how(postgres_url: str, sockets: str) -> None:
    """A store is opened by TCP or by a socket's folder, in each spelling of the URL, and it is the same store."""
    # given
    parts = urlsplit(postgres_url)
    user, port = f"{parts.username}:{quote(PASSWORD, safe='')}", parts.port
    urls = [
        postgres_url,
        postgres_url.replace("postgresql://", "postgres://"),
        f"postgresql://{user}@{quote(sockets, safe='')}:{port}/postgres?sslmode=disable",
        f"postgresql:///postgres?host={sockets}&port={port}&user={parts.username}&password={quote(PASSWORD, safe='')}",
    ]
    # when
    for number, url in enumerate(urls):
        with SessionStore.open(url) as store:
            store.create(id=str(number))
    # then
    with SessionStore.open(postgres_url) as store:
        assert [header.id for header in store.sessions()] == ["0", "1", "2", "3"]


def test_every_parameter_of_the_url_counts(postgres_url: str, postgres_admin: psycopg.Connection) -> None:
    """What the URL asks of the connection is asked of it, whatever it is."""
    # when
    with SessionStore.open(postgres_url + "?application_name=harness"):
        # then
        names = postgres_admin.execute("SELECT application_name FROM pg_stat_activity").fetchall()
    assert ("harness",) in names


def test_the_environment_leads_nobody_elsewhere(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a store is, the URL says alone; a password may come out of the environment."""
    # given
    elsewhere = {"PGHOST": "192.0.2.1", "PGHOSTADDR": "192.0.2.1", "PGPORT": "1", "PGDATABASE": "x", "PGUSER": "x"}
    for name, value in elsewhere.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    url = postgres_url.replace(":" + quote(PASSWORD, safe=""), "")
    # when
    with SessionStore.open(url) as store:
        # then
        assert written(store).id == "s"
    with pytest.raises(StoreError, match='database "admin" does not exist'):
        SessionStore.open(url.removesuffix("/postgres"))


def test_schemas_keep_stores_apart(postgres_url: str, postgres_admin: psycopg.Connection) -> None:
    """Each schema of a database may hold a store of its own."""
    # given
    postgres_admin.execute('CREATE SCHEMA "Other"')
    other = {"POSTGRES_SCHEMA": "Other"}
    # when
    try:
        with SessionStore.open(postgres_url) as here, SessionStore.open(postgres_url, settings=other) as there:
            written(here, "here")
            written(there, "there")
            found = [[header.id for header in store.sessions()] for store in (here, there)]
    finally:
        postgres_admin.execute('DROP SCHEMA "Other" CASCADE')
    # then
    assert found == [["here"], ["there"]]


def test_a_password_is_asked_for_where_it_changes(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that the settings name is asked for the password of each new connection."""
    # given
    vault = ModuleType("vault")
    vault.__dict__["ask"] = lambda: PASSWORD
    monkeypatch.setitem(sys.modules, "vault", vault)
    url = postgres_url.replace(quote(PASSWORD, safe=""), "outdated")
    # when
    with SessionStore.open(url, settings={"POSTGRES_GET_PASSWORD_TOPIC": "vault:ask"}) as store:
        # then
        assert written(store).id == "s"


def test_many_first_starts_at_once_make_one_store(postgres_url: str) -> None:
    """Whoever opens a database that is not set up yet gets a store, also when all do it in the same moment."""
    # given
    ready = Barrier(16)

    def start(session_id: str) -> int:
        ready.wait()
        with SessionStore.open(postgres_url) as store:
            return store.save(written(store, session_id))

    ids = [f"{number:02}" for number in range(16)]
    # when
    with ThreadPoolExecutor(16) as pool:
        saved = [*pool.map(start, ids)]
    # then
    assert saved == [1] * 16
    with SessionStore.open(postgres_url) as store:
        assert ids == [header.id for header in store.sessions()]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (f"COMMENT ON TABLE dsh_session_events IS 'dsh-session schema {SCHEMA_VERSION + 1}'", "of schema version 2"),
        ("COMMENT ON TABLE dsh_session_events IS 'dsh-session schema one'", "not of a store of sessions"),
        ("COMMENT ON TABLE dsh_session_events IS NULL", "not of a store of sessions"),
    ],
)
def test_tables_of_others_are_refused(
    pg_store: SessionStore, postgres_url: str, postgres_admin: psycopg.Connection, change: str, reason: str
) -> None:
    """A table that a newer library made, or somebody else, is refused and left as it is."""
    # given
    written(pg_store)
    before = dump(pg_store)
    postgres_admin.execute(change)  # type: ignore[call-overload] # a statement of ours
    # when
    with pytest.raises(StoreFormatError, match=reason) as caught:
        SessionStore.open(postgres_url)
    # then
    assert "dbname=postgres" in str(caught.value)
    assert before == dump(pg_store)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://admin:sec@ret@127.0.0.1/postgres",
        "postgresql://admin:sec/ret@127.0.0.1/postgres",
        "postgresql://admin:ret%zz@127.0.0.1/postgres",
        "postgresql://admin:secret",
        "postgresql://127.0.0.1/postgres?password=sec@ret",
        "postgresql://127.0.0.1/postgres?passwort=secret",
    ],
)
def test_what_is_no_url_is_refused_without_a_word_of_it(url: str) -> None:
    """A URL that is not sound is refused, and no part of a password gets into the error."""
    # when
    with pytest.raises(StoreError, match="one is postgresql://user:password@host:port/database") as caught:
        SessionStore.open(url)
    # then
    assert "ret" not in "".join(format_exception(caught.value)).replace("dsh_session/store.py", "").split("Error: ")[-1]


def test_a_database_that_cannot_be_opened_is_named(postgres_url: str) -> None:
    """A wrong password, a database that is not there and a server that is not there are told apart, at once."""
    # given
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    parts = urlsplit(postgres_url)
    encoded = quote(PASSWORD, safe="")
    refused = {
        postgres_url.replace(encoded, "wrong-word"): "password authentication failed",
        postgres_url.replace("/postgres", "/nowhere"): 'database "nowhere" does not exist',
        postgres_url.replace(str(parts.port), str(port)): "Connection refused",
    }
    for url, reason in refused.items():
        # when
        with pytest.raises(StoreError, match=reason) as caught:
            SessionStore.open(url)
        # then
        text = str(caught.value)
        assert text.startswith("PostgreSQL host=127.0.0.1 port=")
        assert not any(word in text for word in (PASSWORD, encoded, "wrong-word"))


def test_a_setting_that_is_wrong_is_refused(postgres_url: str) -> None:
    """What the library refuses a setting with is an error of the store."""
    # when
    with pytest.raises(StoreError, match=r"PostgreSQL host=.*POSTGRES_POOL_SIZE"):
        SessionStore.open(postgres_url, settings={"POSTGRES_POOL_SIZE": "many"})


def test_the_extra_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where psycopg is not installed, only who opens a PostgreSQL store is told so, and what to install."""
    # given
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in ("dsh_session.storage.postgres", "eventsourcing.postgres"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr("dsh_session.storage.postgres", raising=False)
    # when
    with pytest.raises(StoreError, match=r"psycopg: install dsh-session\[postgres\]"):
        SessionStore.open("postgresql://127.0.0.1/postgres")
    # then
    with SessionStore.open(":memory:") as store:
        assert written(store).id == "s"


# Losing the server


def test_an_idle_connection_that_was_cut_is_replaced(pg_store: SessionStore, hang_up: Callable[[], None]) -> None:
    """Whoever comes after the cut does not notice it, whether it reads or writes."""
    # given
    session = written(pg_store)
    # when
    hang_up()
    saved = pg_store.save(session)
    hang_up()
    loaded = pg_store.load("s")
    # then
    assert saved == 1
    assert session.state() == loaded.state()


def test_a_server_that_is_gone_costs_nothing_but_time(
    postgres_url: str, sockets: str, tmp_path: Path, hang_up: Callable[[], None]
) -> None:
    """While there is no server each call fails at once and names it; when it is back, all goes on where it was."""
    # given
    road = tmp_path / "s"
    road.symlink_to(sockets)
    parts = urlsplit(postgres_url)
    user = f"{parts.username}:{quote(PASSWORD, safe='')}"
    url = f"postgresql://{user}@{quote(str(road), safe='')}:{parts.port}/postgres"
    with SessionStore.open(url) as store:
        session = written(store)
        before = dump(store)
        pending = session.pending
        road.unlink()
        hang_up()
        # when
        for ask in (
            lambda: store.save(session),
            lambda: store.load("s"),
            store.create,
            store.log("s").__len__,
        ):
            with pytest.raises(StoreError, match=f"^PostgreSQL host={road} ") as caught:
                ask()
            assert PASSWORD not in str(caught.value)
        road.symlink_to(sockets)
        # then
        assert before == dump(store)
        assert pending == session.pending
        assert store.save(session) == 1
        assert session.state() == store.load("s").state()


@pytest.mark.parametrize("count", [900, 1100])
def test_a_connection_that_is_cut_in_a_call_loses_nothing(
    pg_store: SessionStore, postgres_url: str, postgres_admin: psycopg.Connection, count: int
) -> None:
    """A save that the server ends half-way has saved nothing, keeps the events, and can be done again."""
    # given
    session = written(pg_store)
    for number in range(count):
        session.append("note", number)
    before = dump(pg_store)
    pending = session.pending
    with psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as pool:
        other.execute("LOCK TABLE dsh_session_events IN ROW EXCLUSIVE MODE")  # as any insert, before its commit
        # when
        saving = pool.submit(pg_store.save, session)
        end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted"
        while not (saving.done() or postgres_admin.execute(end).fetchall()):
            sleep(0.01)  # until it waits for the other
        with pytest.raises(StoreError, match="terminating connection"):
            saving.result()
    # then
    assert before == dump(pg_store)
    assert pending == session.pending
    assert pg_store.save(session) == count + 1


# Closing, and how many connections there are


def test_few_idle_connections_are_kept(postgres_url: str, postgres_admin: psycopg.Connection) -> None:
    """A store takes as many connections as it needs at once, and keeps as many as it is set up to."""
    # given
    for kept in (0, 1, 2):
        with SessionStore.open(postgres_url, settings={"POSTGRES_POOL_SIZE": str(kept)}) as store:
            # when
            store.import_log(SessionHeader(id=f"{kept}", created_at=0), notes(1100))
            store.import_log(SessionHeader(id=f"{kept} again", created_at=0), store.log(f"{kept}"))
            # then
            assert kept == connections(postgres_admin)
    assert connections(postgres_admin) == 0


def test_a_connection_in_the_middle_of_something_is_not_lent_again(
    pg_store: SessionStore, postgres_admin: psycopg.Connection
) -> None:
    """A connection that comes back with a transaction open is closed, and takes the transaction with it."""
    # given
    session = written(pg_store)
    # when
    with pg_store._application.recorder.datastore.get_connection() as connection:
        connection.execute("BEGIN; LOCK TABLE dsh_session_events IN EXCLUSIVE MODE")
    # then
    assert connections(postgres_admin) == 0
    assert pg_store.save(session) == 1


def test_connections_that_are_closed_are_lent_to_nobody(pg_store: SessionStore) -> None:
    """Who was about to use a store when it was closed is told so."""
    # given
    recorder = pg_store._recorder
    pg_store.close()
    # when, then
    with pytest.raises(ProgrammingError, match="the store is closed"):
        recorder.max_version("s")


def test_who_is_at_work_when_a_store_is_closed_finishes(postgres_url: str, postgres_admin: psycopg.Connection) -> None:
    """A connection that is in use when the store is closed is closed when it comes back, and not before."""
    # given
    store = SessionStore.open(postgres_url)

    def read() -> Iterator[SessionEvent]:
        for event in notes(1100):
            if event.seq == 1050:
                store.close()
            yield event

    # when
    count = store.import_log(SessionHeader(id="s", created_at=0), read())
    # then
    assert count == 1100
    assert connections(postgres_admin) == 0
    with SessionStore.open(postgres_url) as store:
        assert store.load("s").next_seq == 1100


# Ids, and large logs


def test_an_id_that_no_index_can_hold_is_refused(pg_store: SessionStore) -> None:
    """An id may be long where it can be compressed; one that is too long is refused with a reason, and not found."""
    # given
    too_long = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(3000))
    # when
    with pytest.raises(StoreError, match="an id of 3000 characters is too long"):
        pg_store.create(id=too_long)
    # then
    assert [*pg_store.sessions()] == []
    assert len(pg_store.log(too_long)) == 0


def test_ids_are_ordered_by_code_point(pg_store: SessionStore, postgres_admin: psycopg.Connection) -> None:
    """The order of ids is not that of the database's language."""
    # given
    asked = "SELECT DISTINCT collation_name FROM information_schema.columns WHERE column_name = 'originator_id'"
    # when
    found = postgres_admin.execute(asked + " AND table_name LIKE 'dsh_session_%'").fetchall()
    # then
    assert found == [("C",)]
    assert [*pg_store.sessions()] == []


@pytest.mark.parametrize("log", [[b"1"] * 1100, [b'"' + b"x" * (9 << 20) + b'"'] * 3])
def test_a_long_or_large_log_is_not_held(
    pg_store: SessionStore, postgres_url: str, postgres_admin: psycopg.Connection, log: list[bytes]
) -> None:
    """A log is copied to the server as it is drawn; meanwhile others write, and their rows come before it."""
    # given
    copying: list[Any] = []

    def read() -> Iterator[SessionEvent]:
        for seq, data in enumerate(log):
            if seq == len(log) - 1:
                copying.extend(postgres_admin.execute("SELECT 1 FROM pg_stat_progress_copy").fetchall())
                with SessionStore.open(postgres_url) as other:
                    written(other, "other")
            yield SessionEvent("", seq, 0, "note", data)

    # when
    count = pg_store.import_log(SessionHeader(id="s", created_at=0), read())
    # then
    assert copying == [(1,)]
    assert len(log) == count == len(pg_store.log("s"))
    rows = pg_store._application.recorder.select_notifications(start=1, limit=9999)
    numbered = [(row.originator_id, row.originator_version) for row in rows]
    assert [*(("other", n) for n in range(10)), *(("s", n) for n in range(count + 1))] == numbered


@pytest.mark.parametrize("error", [OSError("unreadable"), KeyboardInterrupt()])
def test_a_long_import_that_fails_leaves_no_trace(pg_store: SessionStore, error: BaseException) -> None:
    """What ends the events that are copied ends the import, as it is; nothing is kept, and the next one works."""

    # given
    def read() -> Iterator[SessionEvent]:
        yield from notes(1500)
        raise error

    header = SessionHeader(id="s", created_at=0)
    # when
    with pytest.raises(type(error)) as caught:
        pg_store.import_log(header, read())
    # then
    assert caught.value is error
    assert dump(pg_store) == []
    assert pg_store.import_log(header, notes(1500)) == 1500


def test_a_long_save_behind_another_writer_is_a_conflict(pg_store: SessionStore) -> None:
    """A save of more than a batch is refused as a short one is, and does not leave a gap."""
    # given
    session, other = written(pg_store), pg_store.load("s")
    for number in range(1100):
        session.append("note", number)
    say(other, "first")
    pg_store.save(other)
    before = dump(pg_store)
    # when
    with pytest.raises(ConflictError):
        pg_store.save(session)
    # then
    assert before == dump(pg_store)
    assert pg_store.save(session, on_conflict="rebase") == 1101
    assert [*range(1111)] == [event.seq for event in pg_store.log("s")]


# Many writers, and who follows them


def test_who_follows_is_told_of_what_is_saved(pg_store: SessionStore, postgres_admin: psycopg.Connection) -> None:
    """The library's subscription gives every row once, in the order of the commits, as it is saved."""
    # given
    session = written(pg_store)
    with ThreadPoolExecutor(1) as pool, pg_store._application.recorder.subscribe(gt=None) as subscription:

        def following() -> int:
            return int(pool.submit(next, subscription).result(timeout=10).originator_version)

        found = [following() for _ in range(10)]
        while not postgres_admin.execute("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").fetchall():
            sleep(0.01)  # what is saved before it listens, it would learn with the next save only
        # when
        pg_store.save(session)
        found.append(following())
    # then
    assert [*range(11)] == found


WRITER = """
import sys
from dsh_session import SessionStore

url, writer = sys.argv[1:]
with SessionStore.open(url) as store:
    for session in store.load("shared"), store.create(id=writer):
        for number in range(10):
            session.append("note", [writer, number])
            store.save(session, on_conflict="rebase")
"""


def test_many_processes_write(pg_store: SessionStore, postgres_url: str) -> None:
    """Eight processes append to one session, then to one each: every event is kept once, each one's in order."""
    # given
    pg_store.create(id="shared")
    # when
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, postgres_url, str(number)])  # noqa: S603 - our own
        for number in range(8)
    ]
    ends = [writer.wait(60) for writer in writers]
    # then
    assert ends == [0] * 8
    shared = [event.data for event in pg_store.log("shared")]
    for writer in map(str, range(8)):
        appended = [[writer, number] for number in range(10)]
        assert appended == [data for data in shared if data[0] == writer]
        assert appended == [event.data for event in pg_store.log(writer)]
    assert len(shared) == 80

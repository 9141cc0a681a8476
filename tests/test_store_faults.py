"""What a store does when its database cannot: each fault is typed, names the file, loses nothing, and passes."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from time import sleep
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate

from dsh_session import (
    APPEND,
    DamagedStoreError,
    InvalidOptionError,
    SessionHeader,
    SessionStore,
    StoreError,
    StoreFormatError,
    user_message,
)
from stored import dump, say, ticking_clock, view, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from pathlib import Path

    from dsh_session import Session, SessionEvent

IMPATIENT = {"SQLITE_LOCK_TIMEOUT": "1"}
ZLIB = {"COMPRESSOR_TOPIC": "eventsourcing.compressor:ZlibCompressor"}


def ciphered(key: str) -> dict[str, str]:
    return {"CIPHER_TOPIC": "stored:TinyCipher", "CIPHER_KEY": key}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def open_store(path: Path, **settings: str) -> SessionStore:
    return SessionStore.open(path, settings=settings, clock=ticking_clock())


def worked(store: SessionStore) -> Session:
    session = store.create(id="s")
    work(session)
    store.save(session)
    return session


def pragma(store: SessionStore, name: str, value: int) -> None:
    """Set something on the one connection that a store has so far."""
    datastore: Any = store._application.factory
    with datastore.datastore.get_connection(commit=True) as connection:
        connection.cursor().execute(f"PRAGMA {name} = {value}")


# Opening


def write_nonsense(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)


def write_other_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE cookies (name TEXT)")


def write_other_version_1(path: Path) -> None:
    write_other_tables(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 1")


def write_other_events(path: Path) -> None:
    env = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path), "IS_SNAPSHOTTING_ENABLED": "y"}
    application: Application[Any] = Application(env)
    application.save(Aggregate())
    application.close()


def write_newer_version(path: Path) -> None:
    open_store(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("write", "error", "reason"),
    [
        (write_nonsense, StoreError, "file is not a database"),
        (write_other_tables, StoreFormatError, "an SQLite database, but not a store of sessions"),
        (write_other_version_1, StoreFormatError, "an SQLite database, but not a store of sessions"),
        (write_other_events, StoreFormatError, "an SQLite database, but not a store of sessions"),
        (write_newer_version, StoreFormatError, "of schema version 2; this library knows 1 and below"),
    ],
)
def test_what_is_no_store_is_refused_and_left_as_it_is(
    path: Path, write: Callable[[Path], None], error: type[StoreError], reason: str
) -> None:
    """A file that is something else, or a newer library's, is refused by name, and not a byte of it changes."""
    # given
    write(path)
    before = path.read_bytes()
    # when
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: .*{reason}") as caught:
        open_store(path)
    # then
    assert error is type(caught.value)
    assert before == path.read_bytes()
    assert [path] == [*path.parent.iterdir()]


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    """A directory, and a file in a directory that is not there, are refused by name, and nothing is made."""
    for target in (tmp_path, tmp_path / "missing" / "sessions.db"):
        with pytest.raises(StoreError, match=f"^{re.escape(str(target))}: unable to open database file"):
            open_store(target)
    assert [*tmp_path.iterdir()] == []


def test_a_setting_that_is_wrong_is_refused(path: Path) -> None:
    """What the library refuses to be set up with is an error of the store, and no file is made."""
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: .*SQLITE_LOCK_TIMEOUT"):
        open_store(path, SQLITE_LOCK_TIMEOUT="soon")
    assert not path.exists()


@pytest.mark.parametrize("name", ["with space.db", "per%20cent?mode=ro#x.db", "größe 😀.db", "file:x.db", "'q\".db"])
def test_a_path_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever a file is called, it is that file; a relative path begins where the process is."""
    # given
    monkeypatch.chdir(tmp_path)
    # when
    with open_store(tmp_path / name) as store:
        worked(store)
    # then
    assert [name] == [file.name for file in tmp_path.iterdir()]
    with SessionStore.open(name) as store:
        assert len(store.log("s")) == 9


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """A file with nothing in it is new."""
    # given
    path.touch()
    # when
    with open_store(path) as store:
        worked(store)
    # then
    with open_store(path) as store:
        assert len(store.load("s").messages()) == 4


def test_a_first_start_waits_for_another(path: Path) -> None:
    """While another process is at the new file, a store waits for it, as long as it is set up to wait for a lock."""
    # given
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        # when
        with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: database is locked"):
            open_store(path, **IMPATIENT)
        # then
        with ThreadPoolExecutor(1) as thread:
            opening = thread.submit(open_store, path)
            sleep(0.1)
            assert not opening.done()
            other.execute("ROLLBACK")
            with opening.result() as store:
                assert worked(store).next_seq == 9


@pytest.mark.parametrize("target", [":memory:", "sessions.db"])
def test_the_environment_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Variables that set the library up elsewhere neither move a store nor change how it is kept."""
    # given
    monkeypatch.chdir(tmp_path)
    stray = {
        "PERSISTENCE_MODULE": "eventsourcing.popo",
        "SQLITE_DBNAME": str(tmp_path / "stray.db"),
        "ORIGINATOR_ID_TYPE": "uuid",
        "CREATE_TABLE": "n",
        "IS_SNAPSHOTTING_ENABLED": "n",
        "SQLITE_LOCK_TIMEOUT": "soon",
        **ZLIB,
        **ciphered("stray"),
    }
    for name, value in stray.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(f"DSH_SESSION_{name}", value)
    # when
    with SessionStore.open(target) as store:
        session = worked(store)
        states = [state for *_, state in dump(store)]
        # then
        assert view(session) == view(store.load("s"))
    assert states[1].startswith(b'{"time":')
    assert [file.name for file in tmp_path.iterdir()] == ([] if target == ":memory:" else [target])


# Faults that come and go


@contextmanager
def locked(store: SessionStore) -> Iterator[None]:
    with closing(sqlite3.connect(store._where, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def full(store: SessionStore) -> Iterator[None]:
    pragma(store, "max_page_count", 1)
    yield
    pragma(store, "max_page_count", 1_000_000)


@contextmanager
def read_only(store: SessionStore) -> Iterator[None]:
    pragma(store, "query_only", 1)
    yield
    pragma(store, "query_only", 0)


@contextmanager
def without_tables(store: SessionStore) -> Iterator[None]:
    with closing(sqlite3.connect(store._where)) as other:
        other.execute("ALTER TABLE stored_events RENAME TO hidden")
        yield
        other.execute("ALTER TABLE hidden RENAME TO stored_events")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (locked, "database is locked"),
        (full, "database or disk is full"),
        (read_only, "attempt to write a readonly database"),
        (without_tables, "no such table: stored_events"),
    ],
)
def test_a_fault_loses_nothing(
    path: Path, fault: Callable[[SessionStore], AbstractContextManager[None]], reason: str
) -> None:
    """While the database cannot write, a save is refused by name and all is kept; when it can again, it is saved."""
    with open_store(path, **IMPATIENT) as store:
        # given
        session = worked(store)
        session.append("user/message", user_message("x" * 100_000, message_id="x"), APPEND)
        before = view(session), session.pending, dump(store)
        # when
        with fault(store), pytest.raises(StoreError, match=f"^{re.escape(str(path))}: {reason}") as caught:
            store.save(session)
        # then
        assert caught.value.__cause__ is not None
        assert before == (view(session), session.pending, dump(store))
        assert store.save(session) == 1
        assert view(session) == view(store.load("s"))


def test_every_way_of_writing_is_refused_by_name(path: Path) -> None:
    """Creating, forking, importing and resuming are all or nothing, as a save is."""
    with open_store(path) as store:
        # given
        worked(store)
        before = dump(store)
        attempts: list[Callable[[], Any]] = [
            store.create,
            lambda: store.fork("s"),
            lambda: store.resume("s"),
            lambda: store.import_log(SessionHeader(id="t", created_at=0), store.log("s")),
        ]
        # when
        pragma(store, "query_only", 1)
        for attempt in attempts:
            with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: attempt to write a readonly database"):
                attempt()
        pragma(store, "query_only", 0)
        # then
        assert before == dump(store)
        for attempt in attempts:
            attempt()
        assert sorted(len(store.log(header.id)) for header in store.sessions()) == [0, 10, 10, 10]


def test_every_way_of_reading_is_refused_by_name(path: Path) -> None:
    """A database that cannot be read is an error of the store, whatever is asked of it."""
    with open_store(path) as store:
        # given
        worked(store)
        log = store.log("s")
        attempts: list[Callable[[], Any]] = [
            lambda: store.load("s"),
            lambda: store.header("s"),
            lambda: [*store.sessions()],
            lambda: len(log),
            lambda: log[3],
            lambda: log[2:5:2],
            lambda: [*log],
            lambda: [*log.topics_back(5)],
        ]
        # when
        with without_tables(store):
            for attempt in attempts:
                with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: no such table: stored_events"):
                    attempt()
        # then
        for attempt in attempts:
            attempt()


def test_a_store_that_is_closed_says_so(path: Path) -> None:
    """Closing twice is closing; a session outlives its store, and is saved to one that is open."""
    # given
    with open_store(path) as store:
        session = worked(store)
        store.close()
        say(session, "late")
        # when
        with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: the store is closed"):
            store.save(session)
    # then
    with open_store(path) as store:
        assert store.save(session) == 1


def test_a_connection_that_is_made_while_the_store_closes_is_closed(path: Path) -> None:
    """Who was about to read when another thread closed the store leaves no connection open."""
    # given
    made: list[Any] = []
    with open_store(path) as store:
        worked(store)
        pool = store._application.factory.datastore.pool  # type: ignore[attr-defined]
        lend = pool._get_connection

        def lend_late(timeout: float) -> Any:
            store.close()
            made.append(lend(timeout))
            return made[0]

        # when
        with patch.object(pool, "_get_connection", lend_late), pytest.raises(StoreError, match="Pool is closed"):
            store.header("s")
    # then
    assert made[0].closed


def test_a_read_only_file_can_be_read(path: Path) -> None:
    """A store that may not be written to opens, shows what it has, and refuses the rest."""
    # given
    with open_store(path) as store:
        session = worked(store)
    connect = sqlite3.connect

    def connect_read_only(database: str, **options: Any) -> sqlite3.Connection:
        return connect(f"file:{database}?mode=ro", **options)

    with patch("eventsourcing.sqlite.sqlite3.connect", connect_read_only):
        # when
        with open_store(path) as store:
            loaded = store.load("s")
            say(loaded, "late")
            # then
            assert session.messages() == loaded.messages()[:-1]
            with pytest.raises(StoreError, match="readonly"):
                store.save(loaded)
        with pytest.raises(StoreError, match="unable to open"):
            open_store(path.with_name("new.db"))
        path.with_name("empty.db").touch()
        with pytest.raises(StoreError, match="readonly"):
            open_store(path.with_name("empty.db"))


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), sqlite3.IntegrityError("taken")])
def test_a_snapshot_that_cannot_be_kept_fails_no_save(path: Path, error: sqlite3.Error) -> None:
    """What was saved is saved, with or without a snapshot of it."""
    with open_store(path) as store:
        # given
        session = worked(store)
        say(session, "on")
        # when
        with patch("dsh_session.storage.snapshots.SNAPSHOT_EVERY", 1):
            with patch.object(type(store._snapshots.recorder), "_insert_events", side_effect=error) as insert:
                saved = store.save(session)
            # then
            assert (saved, insert.call_count, session.snapshot_seq) == (1, 1, 0)
            for number in range(5):
                say(session, str(number))
            store.save(session)
            assert session.snapshot_seq == 15


# Sealed states


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        (ciphered("right"), ciphered("wrong")),
        (ciphered("right"), {}),
        (ZLIB, {}),
        ({}, ZLIB),
        ({}, ciphered("right")),
        (ZLIB | ciphered("right"), ciphered("right")),
    ],
)
def test_a_store_opens_with_the_settings_that_it_was_made_with(
    path: Path, settings: dict[str, str], others: dict[str, str]
) -> None:
    """With another key, cipher or compressor it is refused and not written to; with the right ones all is there."""
    # given
    with open_store(path, **settings) as store, patch("dsh_session.storage.snapshots.SNAPSHOT_EVERY", 1):
        session = worked(store)
        rows = dump(store)
    # when
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: kept with another key, cipher or compressor"):
        open_store(path, **others)
    # then
    with open_store(path, **settings) as store:
        assert rows == dump(store)
        assert view(session) == view(store.load("s"))
        assert store.load("s").snapshot_seq == 9


def test_a_record_that_was_sealed_otherwise_is_damaged(path: Path) -> None:
    """A record that the key does not open names its event, and the topics beside it are read."""
    # given
    with open_store(path, **ciphered("right")) as store:
        worked(store)
        # when
        cipher: Any = store._mapper.cipher
        cipher.key = b"wrong"
        for attempt, seq in ((lambda: store.load("s"), None), (lambda: store.log("s")[3], 3)):
            with pytest.raises(DamagedStoreError, match="sealed with another key") as caught:
                attempt()
            # then
            assert ("s", seq) == (caught.value.session_id, caught.value.seq)
        assert [seq for seq, topic in store.log("s").topics_back(9) if topic == "append:user/message"] == [8, 0]


@pytest.mark.parametrize("key", ["right", "wrong"])
def test_two_first_starts_seal_once(path: Path, key: str) -> None:
    """A store that another process has sealed since it was looked at opens with that one's key, and with no other."""
    # given
    with open_store(path, **ciphered("right")) as store:
        application = store._application
        mapper: Any = application.mapper
        mapper.cipher.key = key.encode()
        kept = application.snapshots.select_events("")
        # when
        with (
            patch.object(application.snapshots, "select_events", side_effect=[[], kept]),
            nullcontext() if key == "right" else pytest.raises(StoreError, match="kept with another key"),
        ):
            application.check_encoding()
        # then
        assert kept == application.snapshots.select_events("")


@pytest.mark.parametrize("settings", [ciphered("k"), ZLIB, ZLIB | ciphered("k")])
def test_the_topic_stays_readable_when_the_state_is_sealed(path: Path, settings: dict[str, str]) -> None:
    """Marker, type and place of an event can be read without the key; what it holds cannot, nor a snapshot."""
    # given
    hidden = "what nobody may read"
    with open_store(path, **settings) as store, patch("dsh_session.storage.snapshots.SNAPSHOT_EVERY", 1):
        session = store.create(id="s", origin=hidden)
        session.append("user/message", user_message(hidden), APPEND)
        session.append("turn/start", {"turn": hidden})
        session.append("turn/end", {"turn": hidden})
        session.append("turn/start", {"turn": hidden})
        # when
        store.save(session)
        child = store.fork("s", 2, new_id="t")
        # then
        assert child.messages()[0]["content"][0]["text"] == hidden
        assert view(session) == view(store.load("s"))
        rows = dump(store)
    assert [(row[1], row[2]) for row in rows if row[0] == "t"] == [
        (0, "session"),
        (1, "append:user/message"),
        (2, "log:turn/start"),
        (3, "log:turn/end"),
        (4, "log:session/end-seed"),
        (4, "snapshot:1"),
    ]
    assert not any(hidden.encode() in state for *_, state in rows)


# Threads


def test_many_threads_use_one_store(store: SessionStore) -> None:
    """Each thread works on its own session of one store, forks included; nobody waits for long, and all is there."""

    # given
    def live(number: int) -> None:
        session = store.create(id=f"s{number:02}")
        for text in "abc":
            say(session, text)
            store.save(session)
            child = store.fork(session.id, new_id=f"{session.id}-{text}")
            say(child, "child")
            store.save(child)

    # when
    with ThreadPoolExecutor(24) as threads:
        for _ in threads.map(live, range(24)):
            pass
    # then
    ids = [f"s{number:02}{fork}" for number in range(24) for fork in ("", "-a", "-b", "-c")]
    assert ids == [header.id for header in store.sessions()]
    lengths = {"": 3, "-a": 3, "-b": 4, "-c": 5}
    assert [lengths[session_id[3:]] for session_id in ids] == [len(store.log(session_id)) for session_id in ids]


def test_a_writer_that_reads_does_not_wait_for_the_writers_behind_it(path: Path) -> None:
    """While a log is imported from its own store, a thread that wants to write waits, and the import goes on."""
    with open_store(path) as store, ThreadPoolExecutor(1) as thread:
        # given
        session = worked(store)
        other = store.create(id="other")
        say(other, "hello")
        saving: list[Future[int]] = []

        def read() -> Iterator[SessionEvent]:
            yield store.log("s")[0]
            saving.append(thread.submit(store.save, other))
            sleep(0.1)  # so that the other thread has come to where it waits
            yield from store.log("s")[1:]

        # when
        count = store.import_log(SessionHeader(id="copy", created_at=0), read())
        # then
        assert session.next_seq == count
        assert saving[0].result() == 1


@pytest.mark.parametrize(
    "key", ["CIPER_TOPIC", "CIPHER_KYE", "COMPRESSOR_TOPIK", "CIPHER", "SQLITE_", "PERSISTENCE_MODULE", ""]
)
def test_an_unknown_setting_is_refused(tmp_path: Path, key: str) -> None:
    """A misspelt setting would leave a store in the clear, so it is an error that names it."""
    with pytest.raises(InvalidOptionError, match="settings is"):
        SessionStore.open(tmp_path / "s.db", settings={key: "x"})

    assert list(tmp_path.iterdir()) == []


def test_a_setting_is_a_text(tmp_path: Path) -> None:
    """A value of another type is refused by its key."""
    wrong: Any = {"CIPHER_KEY": 5}
    with pytest.raises(InvalidOptionError, match=r"settings\['CIPHER_KEY'\] is 5; it is a str"):
        SessionStore.open(tmp_path / "s.db", settings=wrong)


def test_a_key_that_is_none_is_a_store_error(path: Path) -> None:
    """What a cipher says of its key is an error of the store, which names the database."""
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: "):
        SessionStore.open(path, settings={"CIPHER_TOPIC": "stored:KeylessCipher", "CIPHER_KEY": "abc"})


def test_a_cipher_of_one_s_own_has_settings_of_its_own(path: Path) -> None:
    """Further settings are taken beside the topic of a cipher, whose meaning they have."""
    with open_store(path, **ciphered("k"), CIPHER_ROUNDS="7") as store:
        assert len(worked(store).surface) == 4


@pytest.mark.parametrize("target", ["mysql://u:secret@h/d", "postgresql+psycopg://u:secret@h/d", "sqlite:///x.db"])
def test_a_url_of_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """The error names the scheme, and repeats nothing that may be a password; no file is made."""
    monkeypatch.chdir(tmp_path)
    scheme = target.partition(":")[0]
    with pytest.raises(StoreError, match=f"the scheme '{re.escape(scheme)}' is none of them") as caught:
        SessionStore.open(target)
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_cipher_that_is_not_there_is_a_store_error(tmp_path: Path) -> None:
    """A topic that names nothing is an error of the store, which names the database."""
    with pytest.raises(StoreError, match=r"s\.db"):
        SessionStore.open(tmp_path / "s.db", settings={"CIPHER_TOPIC": "nowhere:Cipher"})

"""The ``eventsourcing`` application behind a store: which database, and how it is set up."""

from __future__ import annotations

import re
import sqlite3
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventsourcing.application import Application
from eventsourcing.domain import EventSourcingError
from eventsourcing.persistence import IntegrityError, JSONTranscoder, OperationalError, StoredEvent
from eventsourcing.utils import Environment, TopicError

from dsh_session.errors import InvalidOptionError, StoreError, StoreFormatError, StoreUnavailableError
from dsh_session.storage.mapper import SessionMapper
from dsh_session.storage.memory import MemoryFactory
from dsh_session.storage.sqlite import SessionSQLiteFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike

    from eventsourcing.persistence import InfrastructureFactory
    from eventsourcing.utils import EnvType

    MakeFactory = Callable[[Environment], InfrastructureFactory[Any]]


_SETTINGS: Final = ("COMPRESSOR_TOPIC", "CIPHER_TOPIC", "CIPHER_KEY", "SQLITE_…", "POSTGRES_…")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SEAL_ID: Final = ""  # no session has it
_SEALED: Final = b"dsh-session"


class SessionApplication(Application[str]):
    """The library's application behind a store.

    Its whole configuration is passed in: nothing in the process's environment moves anybody's data.

    Attributes:
        where: the database, as errors name it.
        snapshots: keeps what is not part of any log.
    """

    name = "dsh_session"

    def __init__(self, where: str, make_factory: MakeFactory, env: EnvType) -> None:
        self.where = where
        self._make_factory = make_factory
        super().__init__(env)
        self.snapshots: Any = self.factory.aggregate_recorder("snapshots")

    def check_encoding(self) -> None:
        """Refuse a key, cipher or compressor that the store was not made with, by a record that was sealed then.

        Raises:
            StoreError: it cannot be read.
        """
        mapper: Any = self.mapper
        seal = StoredEvent(_SEAL_ID, 0, "seal", mapper.seal(_SEALED))
        if not self.snapshots.select_events(_SEAL_ID):
            with suppress(IntegrityError, OperationalError):  # another first start, or a file that may not be written
                self.snapshots.insert_events([seal])
        kept = self.snapshots.select_events(_SEAL_ID) or [seal]
        try:
            is_right = mapper.unseal(kept[0].state) == _SEALED
        except ValueError:
            is_right = False
        if not is_right:
            raise StoreError(f"{self.where}: kept with another key, cipher or compressor than the settings say")

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        """Take the configuration as it was passed."""
        return Environment(name, dict(env or {}))

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        """Make the factory of the kind of database that is configured."""
        return self._make_factory(env)

    def construct_mapper(self) -> SessionMapper:
        """Make the mapper, with the compressor and the cipher that are configured."""
        return SessionMapper(JSONTranscoder(), self.factory.compressor(), self.factory.cipher())


def open_application(target: str | PathLike[str], settings: Mapping[str, str]) -> SessionApplication:
    """Open the database that a target names.

    Args:
        target: ``":memory:"``, the URL of a PostgreSQL database, or the path of an SQLite file.
        settings: further configuration of the library, such as ``COMPRESSOR_TOPIC`` and ``CIPHER_KEY``.

    Raises:
        StoreError: the database cannot be opened.
        InvalidOptionError: a setting is none that there is.
    """
    where, make_factory, configured = _database(target)
    for key, value in settings.items():
        if not _is_setting(key, settings):
            raise InvalidOptionError("settings", key, f"one of {', '.join(_SETTINGS)}")
        if type(value) is not str:
            raise InvalidOptionError(f"settings[{key!r}]", value, "a str")
    env = {"ORIGINATOR_ID_TYPE": "text", "CREATE_TABLE": "n", "IS_SNAPSHOTTING_ENABLED": "y", **settings, **configured}
    with translated_errors(where), ExitStack() as opened:
        try:
            application = SessionApplication(where, make_factory, env)
        except (OSError, TopicError, ValueError) as error:  # what a setting is refused with
            raise StoreError(f"{where}: {error}") from error
        opened.callback(application.close)
        recorder: Any = application.recorder
        recorder.create_table()
        application.check_encoding()
        opened.pop_all()
    return application


def _is_setting(key: str, settings: Mapping[str, str]) -> bool:
    """Tell whether a setting is one; a cipher or compressor of the user's own may have more of them."""
    kind, _, name = key.partition("_")
    return key in _SETTINGS or (
        bool(name)
        and (kind in {"SQLITE", "POSTGRES"} or (kind in {"CIPHER", "COMPRESSOR"} and f"{kind}_TOPIC" in settings))
    )


def _database(target: str | PathLike[str]) -> tuple[str, MakeFactory, dict[str, str]]:
    """Return the name of a database in errors, what makes its factory, and the configuration that finds it."""
    where = str(target)
    if where == ":memory:":
        return where, MemoryFactory, {}
    scheme = _SCHEME.match(where)
    if scheme is None:
        return where, SessionSQLiteFactory, {"SQLITE_DBNAME": str(Path(target).absolute())}
    if scheme[1] not in {"postgresql", "postgres"}:  # the rest may hold a password, and is not repeated
        raise StoreError(f'a store is a path, ":memory:" or postgresql://…; the scheme {scheme[1]!r} is none of them')
    try:
        from dsh_session.storage import postgres  # noqa: PLC0415 - an extra: only who opens a PostgreSQL store needs it
    except ImportError as error:
        raise StoreError("a store in PostgreSQL needs the package psycopg: install dsh-session[postgres]") from error
    configured = postgres.configuration(where)
    return postgres.name_of(configured), postgres.SessionPostgresFactory, configured


@contextmanager
def translated_errors(where: str) -> Iterator[None]:
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

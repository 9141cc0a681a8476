"""The ``eventsourcing`` application behind a store: which database, and how it is set up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventsourcing.application import Application
from eventsourcing.persistence import JSONTranscoder
from eventsourcing.popo import POPOFactory
from eventsourcing.sqlite import SQLiteFactory
from eventsourcing.utils import Environment

from dsh_session.recorder import MemoryRecorder, SQLiteRecorder, typed_errors
from dsh_session.storage import SessionMapper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from eventsourcing.persistence import InfrastructureFactory
    from eventsourcing.utils import EnvType


class MemoryFactory(POPOFactory):
    """Makes the recorders of a store in memory."""

    def application_recorder(self) -> MemoryRecorder:
        """Make the recorder of events."""
        return MemoryRecorder()


class SessionSQLiteFactory(SQLiteFactory):
    """Makes the recorders of a store in an SQLite file."""

    application_recorder_class = SQLiteRecorder


class SessionApplication(Application[str]):
    """The library's application behind a store.

    Its whole configuration is passed in: nothing in the process's environment moves anybody's data.
    """

    name = "dsh_session"

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        """Take the configuration as it was passed."""
        return Environment(name, dict(env or {}))

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        """Make the factory of the kind of database that is configured."""
        return SessionSQLiteFactory(env) if env.get("SQLITE_DBNAME") else MemoryFactory(env)

    def construct_mapper(self) -> SessionMapper:
        """Make the mapper, with the compressor and the cipher that are configured."""
        return SessionMapper(JSONTranscoder(), self.factory.compressor(), self.factory.cipher())


def open_application(target: str | PathLike[str], settings: Mapping[str, str]) -> SessionApplication:
    """Open the database that a target names.

    Args:
        target: ``":memory:"``, or the path of an SQLite file.
        settings: further configuration of the library, such as ``COMPRESSOR_TOPIC`` and ``CIPHER_KEY``.

    Raises:
        StoreError: the database cannot be opened.
    """
    env = {"ORIGINATOR_ID_TYPE": "text", "CREATE_TABLE": "n", "IS_SNAPSHOTTING_ENABLED": "y", **settings}
    if target != ":memory:":
        env["SQLITE_DBNAME"] = str(Path(target).absolute())
    with typed_errors(str(target)):
        application = SessionApplication(env)
        recorder: Any = application.recorder
        recorder.create_table()
    return application

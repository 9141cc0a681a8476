from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import Phase, is_hypothesis_test, settings

from dsh_session import SessionStore
from postgres_server import running_server
from stored import ticking_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


settings.register_profile("ci", derandomize=True)
settings.register_profile("laws", max_examples=int(os.environ.get("LAWS", "1000")), deadline=None)
settings.register_profile("mutants", derandomize=True, deadline=None, phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))  # "default" draws new examples at every run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every law draw as many examples as the profile ``laws`` says, also where it asks for few of its own."""
    if settings.get_current_profile_name() != "laws":
        return
    for item in items:
        test: Any = getattr(item, "obj", None)
        if is_hypothesis_test(test):
            holder, name = (
                (item.cls, "settings") if hasattr(item.cls, "settings") else (test, "_hypothesis_internal_use_settings")
            )
            setattr(holder, name, settings(getattr(holder, name), max_examples=settings().max_examples))


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Real session logs, which are no part of the project."""
    root = Path(os.environ.get("DSH_CORPUS") or Path(__file__).parents[1].parent / "shared" / "corpus") / "dsh"
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
    """A PostgreSQL server of the tests' own, as the URL of its superuser; it takes some seconds to start."""
    with running_server(fsync=False) as url:
        yield url


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

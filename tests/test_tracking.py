"""The contract of what keeps the states of tracked projections, whatever database it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_session import SessionStore, StoreError
from stored import TinyCipher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

NEW_NAMES = count()

SESSION_IDS = ["a", "B", "ä", "😀", "'x"]
ciphered = {"CIPHER_TOPIC": f"stored:{TinyCipher.__name__}"}


def moves() -> st.SearchStrategy[Any]:
    """Give a move: whose it is, of which version, from where to where, and the states."""
    states = st.dictionaries(st.sampled_from(SESSION_IDS), st.binary(max_size=3), max_size=3)
    return st.tuples(st.sampled_from("xy"), st.integers(1, 2), st.integers(0, 2), st.integers(1, 2), states)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(played=st.lists(moves(), max_size=12))
def test_states_move_with_their_position(store: SessionStore, played: list[Any]) -> None:
    """A move counts from the position where it stands, for its version alone; another version begins anew."""
    # given
    prefix = f"{next(NEW_NAMES)} "
    tracker = store.tracker()
    expected: dict[str, tuple[int, int, dict[str, bytes]]] = {"x": (0, 0, {}), "y": (0, 0, {})}
    for name, version, before, after, states in played:
        # when
        has_moved = tracker.move(prefix + name, version, before, after, states)
        # then
        known, position, kept = expected[name]
        if version != known:
            position, kept = 0, {}
        assert (position == before) == has_moved
        if has_moved:
            expected[name] = (version, after, kept | states)
    for name, (known, position, kept) in expected.items():
        assert (position, kept) == (
            tracker.position(prefix + name, known),
            dict(tracker.all_states(prefix + name, known)),
        )
        assert sorted(kept) == [session_id for session_id, _ in tracker.all_states(prefix + name, known)]
        some = {session_id: kept[session_id] for session_id in SESSION_IDS[:3] if session_id in kept}
        assert some == tracker.states(prefix + name, known, SESSION_IDS[:3])
        assert tracker.states(prefix + name, known, []) == {}
        other = known + 1
        assert (
            tracker.position(prefix + name, other),
            tracker.all_states(prefix + name, other),
            tracker.states(prefix + name, other, SESSION_IDS),
        ) == (0, [], {})


def test_of_many_who_move_one_does(store: SessionStore) -> None:
    """However many move one position at once, each step is made once and no state is lost."""
    # given
    tracker = store.tracker()

    def climb(_: int) -> int:
        steps = 0
        while (position := tracker.position("n", 1)) < 40:
            state = tracker.states("n", 1, ["s"]).get("s", b"")
            steps += tracker.move("n", 1, position, position + 1, {"s": state + b"."})
        return steps

    # when
    with ThreadPoolExecutor(4) as pool:
        steps = sum(pool.map(climb, range(4)))
    # then
    assert steps == 40
    assert tracker.all_states("n", 1) == [("s", b"." * 40)]


def test_states_outlive_their_store(tmp_path: Path) -> None:
    """What was moved is there when the file is opened again."""
    # given
    with SessionStore.open(tmp_path / "s.db") as store:
        store.tracker().move("n", 1, 0, 7, {"s": b"state"})
    # when
    with SessionStore.open(tmp_path / "s.db") as store:
        tracker = store.tracker()
        # then
        assert (tracker.position("n", 1), tracker.all_states("n", 1)) == (7, [("s", b"state")])


def test_states_are_enciphered_as_events_are(tmp_path: Path) -> None:
    """With a cipher, no state is in the file in the clear, and with another key it is refused by name."""
    # given
    path = tmp_path / "s.db"
    with SessionStore.open(path, settings={**ciphered, "CIPHER_KEY": "1"}) as store:
        store.tracker().move("titles", 1, 0, 1, {"s": b"confidential"})
        assert store.tracker().states("titles", 1, ["s"]) == {"s": b"confidential"}
        # when
        found = [file for file in tmp_path.iterdir() if b"confidential" in file.read_bytes()]
    # then
    assert found == []
    with SessionStore.open(path, settings={**ciphered, "CIPHER_KEY": "1"}) as store:
        tracker = store.tracker()
        cipher: Any = store._mapper.cipher
        cipher.key = b"2"
        asks: list[Callable[[], Any]] = [
            lambda: tracker.all_states("titles", 1),
            lambda: tracker.states("titles", 1, ["s"]),
        ]
        for ask in asks:
            with pytest.raises(
                StoreError, match="the state that 'titles' keeps of session 's': sealed with another key"
            ):
                ask()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_errors_of_the_database_are_the_store_s(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Whatever is asked of a database that cannot do it, the error is the store's own and names the database."""
    # given
    target = tmp_path / "s.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    with SessionStore.open(target) as store:
        tracker = store.tracker()
        asks: list[Callable[[], Any]] = [
            lambda: tracker.position("n", 1),
            lambda: tracker.states("n", 1, ["s"]),
            lambda: tracker.all_states("n", 1),
            lambda: tracker.move("n", 1, 0, 1, {}),
            lambda: tracker.move("n", 1, 1, 2, {}),
        ]
        if database == "sqlite":
            with store._application.factory.datastore.transaction(commit=True) as cursor:  # type: ignore[attr-defined]
                cursor.execute("DROP TABLE tracked_positions")
        else:
            admin: psycopg.Connection = request.getfixturevalue("postgres_admin")
            admin.execute("DROP TABLE dsh_session_positions")
        # when
        for ask in asks:
            with pytest.raises(StoreError, match=r"s\.db: no such table|dbname=postgres.*does not exist"):
                ask()


def test_a_move_that_fails_half_way_moves_nothing(tmp_path: Path) -> None:
    """When the states cannot be written, the position stays where it was."""
    # given
    with SessionStore.open(tmp_path / "s.db") as store:
        tracker = store.tracker()
        tracker.move("n", 1, 0, 1, {"s": b"1"})
        with store._application.factory.datastore.get_connection(commit=True) as connection:  # type: ignore[attr-defined]
            connection.cursor().execute("PRAGMA max_page_count = 1")
        # when
        with pytest.raises(StoreError, match="full"):
            tracker.move("n", 1, 1, 2, {"s": b"2", "new": bytes(100_000)})
        # then
        assert (tracker.position("n", 1), tracker.all_states("n", 1)) == (1, [("s", b"1")])


def test_sessions_are_ordered_by_code_point(postgres_url: str, postgres_admin: psycopg.Connection) -> None:
    """The order of states is not that of the server's language."""
    # given
    asked = "SELECT collation_name FROM information_schema.columns WHERE table_name = 'dsh_session_states'"
    # when
    SessionStore.open(postgres_url).close()
    # then
    assert postgres_admin.execute(f"{asked} AND column_name = 'session_id'").fetchall() == [("C",)]

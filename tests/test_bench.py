"""The benchmarks run, and what they measure is what they say. No time is asserted here."""

from __future__ import annotations

import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsh_projections.verify import verify_log
from dsh_session import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.no_cover  # a benchmark holds nothing against what is right
BENCH = Path(__file__).parents[1] / "bench"
SECTIONS = ["append", "save", "long", "screen", "compaction"]


@pytest.fixture(autouse=True)
def _rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of the benchmarks can be imported."""
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.fixture
def setting(tmp_path: Path, postgres_url: str) -> Iterator[Any]:
    """Small sizes, on the tests' own server."""
    from setting import QUICK, Setting  # noqa: PLC0415 - it is on the path now

    with Setting(tmp_path, QUICK, lambda: nullcontext(postgres_url)) as setting:
        yield setting


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_gives_a_table(setting: Any, section: str) -> None:
    """Every section runs at small sizes, and its table has a line for each thing that was measured."""
    import run  # noqa: PLC0415 - it is on the path now

    title, rows = run.SECTIONS[section]
    measured = list(rows(setting))

    lines = list(run.table(title, measured))
    assert [f"| {row.what} | {row.figure} |" for row in measured] == [
        " | ".join(line.split(" | ")[:2]) + " |" for line in lines[3:-1]
    ]
    assert list(run.SECTIONS) == SECTIONS


def test_a_missed_bound_is_told() -> None:
    """A line says of its bound when it is missed, from above or from below."""
    from figures import Row  # noqa: PLC0415 - it is on the path now

    lines = [
        Row("slow", "1 s", value=3.5, at_most=3),
        Row("slower than it should be", "1 s", value=0.5, at_least=0.6),
        Row("at the bound", "1 MB", value=20, unit=" MB", at_most=20),
        Row("without a bound", "1 s", value=2),
        Row("with nothing beside it", "1 s"),
    ]

    assert [line.cells()[-2:] for line in lines] == [
        ("3.50", "≤ 3 **missed**"),
        ("0.50", "≥ 0.6 **missed**"),
        ("20.00 MB", "≤ 20 MB"),
        ("2.00", ""),
        ("", ""),
    ]


def test_the_yardstick_writes_what_a_save_writes(tmp_path: Path) -> None:
    """The database alone is given the ids, versions, topics and bytes that a save of the same events keeps."""
    from workload import agent_steps, append_all  # noqa: PLC0415 - it is on the path now
    from yardsticks import TIME, raw_rows  # noqa: PLC0415 - as above

    candidates = agent_steps(50, chunks=2)
    with SessionStore.open(tmp_path / "ours.db", clock=lambda: TIME) as store:
        session = store.create(id="one")
        append_all(session, candidates)
        store.save(session)

    with closing(sqlite3.connect(tmp_path / "ours.db")) as database:
        columns = "originator_id, originator_version, topic, state"
        kept = database.execute(f"SELECT {columns} FROM stored_events WHERE originator_version > 0").fetchall()  # noqa: S608 - ours
    assert raw_rows("one", candidates, 1) == kept


def test_the_long_log_is_as_long_sessions_are() -> None:
    """It verifies, was compacted on the way and at the end, and has the same surface and tail at every length."""
    from workload import COMPACTED_TO, TAIL, write_long_log  # noqa: PLC0415 - it is on the path now

    found = []
    for length in (2_000, 6_000):
        with SessionStore.open(":memory:") as store:
            saves: list[int] = []
            session = store.create(id="long")
            write_long_log(session, length, lambda session, store=store, saves=saves: saves.append(store.save(session)))
            report = verify_log(session.header, store.log("long"))
        found.append((report.problem, report.generation, saves[-1], abs(session.next_seq - length) <= 10))
        assert COMPACTED_TO <= len(session.surface) <= COMPACTED_TO + TAIL

    assert found == [(None, 1, TAIL, True), (None, 2, TAIL, True)]


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ([(100, 2.0, 1.0), (900, 9.0, 5.0)], "from 100 B an event on, or less"),
        ([(100, 5.0, 1.0), (300, 7.0, 3.0), (900, 9.0, 5.0)], "from about 200 B an event on"),
        ([(100, 5.0, 1.0), (900, 20.0, 5.0)], "not yet at 900 B an event"),
    ],
)
def test_the_size_that_meets_the_bound_is_told(sizes: list[tuple[int, float, float]], told: str) -> None:
    """It lies where three times the encoding crosses the append, between two sizes that were measured."""
    from append import Measured, met_from  # noqa: PLC0415 - it is on the path now

    assert met_from([Measured(*size) for size in sizes]) == told

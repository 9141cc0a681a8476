"""Appending and saving in batches, beside the database alone and the stock aggregate; and a save alone."""

from __future__ import annotations

from contextlib import closing, nullcontext
from functools import partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Final

from figures import Row, in_turn, rate, seconds
from setting import KINDS
from workload import agent_steps, append_all, in_batches
from yardsticks import TIME, RawPostgres, RawSQLite, StockStore, raw_rows

from dsh_session import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from setting import Kind, Setting
    from workload import Candidate
    from yardsticks import Raw

MEASURED_ALONE: Final = 100
"""The batch of which the save is measured without its appends."""
SAVE_BOUNDS: Final[dict[Kind, float]] = {"SQLite": 0.6, "PostgreSQL": 0.35}
STOCK_BOUND: Final = 2
SAVES: Final = 200
"""How many batches are saved in a run, within the events of the scale."""
EVENTS_AT_LEAST: Final = 300


def rows(setting: Setting) -> Iterator[Row]:
    for kind in KINDS:
        for batch in setting.scale.batches:
            yield from _rows(setting, kind, batch)


def _rows(setting: Setting, kind: Kind, batch: int) -> Iterator[Row]:
    candidates = agent_steps(min(setting.scale.events, max(batch * SAVES, EVENTS_AT_LEAST)))
    batches = in_batches(candidates, batch)
    ids = (f"{number:036}" for number in count())
    with (
        raw_database(setting, kind) as raw,
        closing(StockStore(setting.new_target(kind))) as stock,
        SessionStore.open(setting.new_target(kind), clock=lambda: TIME) as store,
    ):

        def save() -> None:
            session = store.create(id=next(ids))
            for part in batches:
                append_all(session, part)
                store.save(session)

        def save_stock() -> None:
            for part in batches:
                stock.save(part)

        inserts = [partial(insert, raw, ids, batches)] if raw else []
        ours, stocks, *raws = in_turn(
            partial(seconds, save), partial(seconds, save_stock), *inserts, runs=setting.scale.runs
        )
        what = f"append and save, {kind}, batches of {batch:,}"
        figure = rate(ours.seconds, len(candidates))
        if raw:
            yield Row(what, figure, f"{raw.name}: {rate(raws[0].seconds, len(candidates))}", 1 / raws[0].times)
        yield Row(
            what,
            figure,
            f"stock aggregate: {rate(stocks.seconds, len(candidates))}",
            1 / stocks.times,
            at_least=STOCK_BOUND if batch == MEASURED_ALONE else None,
        )
        if raw and batch == MEASURED_ALONE:
            alone, theirs = in_turn(
                partial(saving_alone, store, ids, batches), partial(insert, raw, ids, batches), runs=setting.scale.runs
            )
            yield Row(
                f"save alone, {kind}, batches of {batch:,}",
                rate(alone.seconds, len(candidates)),
                f"{raw.name}: {rate(theirs.seconds, len(candidates))}",
                1 / theirs.times,
                at_least=SAVE_BOUNDS[kind],
            )


def raw_database(setting: Setting, kind: Kind) -> AbstractContextManager[Raw | None]:
    """Open a new database without this library; in memory there is none."""
    match kind:
        case "SQLite":
            return closing(RawSQLite(setting.new_target(kind)))
        case "PostgreSQL":
            return closing(RawPostgres(setting.new_target(kind)))
        case "memory":
            return nullcontext()


def insert(raw: Raw, ids: Iterator[str], batches: list[list[Candidate]]) -> float:
    """Encode and insert batches as one session; return the seconds."""

    def run() -> None:
        session_id, version = next(ids), 1
        for part in batches:
            raw.insert(raw_rows(session_id, part, version))
            version += len(part)

    return seconds(run)


def saving_alone(store: SessionStore, ids: Iterator[str], batches: list[list[Candidate]]) -> float:
    """Append and save batches; return the seconds of the saves."""
    session = store.create(id=next(ids))
    took = 0.0
    for part in batches:
        append_all(session, part)
        start = perf_counter()
        store.save(session)
        took += perf_counter() - start
    return took

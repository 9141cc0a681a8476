"""A long session: opening it, pages of it, all of it, a fork of it, and bringing one in, at growing lengths."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec
from figures import Row, after, in_turn, milli, rate, seconds
from fresh import reading
from setting import KINDS, LONG_ID, Process
from workload import BATCH, agent_steps, in_batches
from yardsticks import RawSQLite, StockStore, rows_of_lines

from dsh_projections import HistoryPager
from dsh_session import SessionStore, read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from setting import Fresh, Kind, Setting

RUNS: Final = 3
"""How often what takes many seconds is done."""
PAGES: Final = 10
READ_ROWS: Final = (
    "SELECT originator_version, topic, state FROM stored_events WHERE originator_id=? ORDER BY originator_version"
)
READ_TOPICS: Final = "SELECT originator_version, topic FROM stored_events WHERE originator_id=?"
FORK_ROWS: Final = (
    "INSERT INTO stored_events SELECT ?, originator_version, topic, state FROM stored_events"
    " WHERE originator_id=? AND originator_version<=?"
)


def rows(setting: Setting) -> Iterator[Row]:
    for kind in KINDS:
        for part in (_opens, _pages, _reads, _forks, _imports):
            yield from part(setting, kind)
    yield from _beside_stock(setting)
    yield _without_snapshot(setting)


def _opens(setting: Setting, kind: Kind) -> Iterator[Row]:
    if kind == "memory":
        return  # no other process can open it
    shortest, *longer = setting.scale.lengths_in(kind)
    short_opening = Process(setting, "open", kind, shortest)
    for length in longer:
        opening = Process(setting, "open", kind, length)
        ours, short = in_turn(opening, short_opening, runs=setting.scale.runs)
        what = f"open {length:,} events, {kind}, fresh process"
        yield Row(what, milli(ours.seconds), f"{shortest:,} events: {milli(short.seconds)}", short.times, at_most=1.5)
        if length == longer[-1]:
            yield from _memory(what, opening.taken, at_most=30)


def _memory(what: str, taken: list[Fresh], *, at_most: float) -> Iterator[Row]:
    """Tell the median of the memory, where the system told it."""
    if sys.platform == "linux":
        above_empty = median(fresh.above_empty for fresh in taken)
        above_imported = median(fresh.above_imported for fresh in taken)
        figure = f"{above_empty:.1f} MB above an empty process"
        yield Row(f"{what}: memory, imports apart", figure, "", above_imported, " MB", at_most=at_most)


def _pages(setting: Setting, kind: Kind) -> Iterator[Row]:
    shortest, *longer = setting.scale.lengths_in(kind)
    with ExitStack() as opened:
        short_store = opened.enter_context(setting.long_store(kind, shortest))
        for length in longer:
            store = opened.enter_context(setting.long_store(kind, length))
            for where, share in (("end", 1.0), ("middle", 0.5)):
                ours, short = in_turn(
                    partial(seconds, partial(_turn_pages, store, share)),
                    partial(seconds, partial(_turn_pages, short_store, share)),
                    runs=setting.scale.runs,
                )
                yield Row(
                    f"a page of 50 messages from the {where} of {length:,} events, {kind}",
                    milli(ours.seconds, PAGES),
                    f"of {shortest:,}: {milli(short.seconds, PAGES)}",
                    short.times,
                    at_most=2,
                )


def _turn_pages(store: SessionStore, share: float) -> None:
    log = store.log(LONG_ID)
    for _ in range(PAGES):
        HistoryPager(log).page(int(len(log) * share))


def _reads(setting: Setting, kind: Kind) -> Iterator[Row]:
    lengths = setting.scale.lengths_in(kind)
    for length in lengths:
        what = f"read all {length:,} events, {kind}"
        if kind == "memory":
            with setting.long_store(kind, length) as store:
                yield _beside_raw(setting, what, length, [partial(seconds, partial(reading(), store, LONG_ID))])
            continue
        process = Process(setting, "read", kind, length)
        if kind == "SQLite":
            with closing(sqlite3.connect(setting.long_target(kind, length))) as raw:
                yield _beside_raw(setting, what, length, [process, partial(seconds, partial(_read_raw, raw))])
        else:
            yield _beside_raw(setting, what, length, [process])
        if length == lengths[-1]:
            yield from _memory(what, process.taken, at_most=20)


def _read_raw(raw: sqlite3.Connection) -> None:
    decode = msgspec.json.Decoder().decode
    for _, _, state in raw.execute(READ_ROWS, (LONG_ID,)):
        decode(state)


def _forks(setting: Setting, kind: Kind) -> Iterator[Row]:
    for length in setting.scale.lengths_in(kind):
        half = length // 2
        what = f"fork half of {length:,} events, {kind}"
        if kind == "SQLite":
            with setting.long_copy(length) as (store, raw):
                measures = [
                    partial(seconds, partial(store.fork, LONG_ID, half)),
                    partial(seconds, partial(_fork_raw, raw, half)),
                ]
                yield _beside_raw(setting, what, half, measures)
        else:
            with setting.long_store(kind, length) as store:
                yield _beside_raw(setting, what, half, [partial(seconds, partial(store.fork, LONG_ID, half))])


def _fork_raw(raw: sqlite3.Connection, at: int) -> None:
    raw.execute(FORK_ROWS, (str(uuid4()), LONG_ID, at + 1))


def _imports(setting: Setting, kind: Kind) -> Iterator[Row]:
    for length in setting.scale.lengths_in(kind):
        path = setting.long_file(length)
        measures = [partial(after, partial(setting.new_target, kind), partial(_import, path))]
        if kind == "SQLite":
            measures.append(partial(after, partial(setting.new_target, kind), partial(_import_raw, path)))
        yield _beside_raw(setting, f"import {length:,} events of plain JSONL, {kind}", length, measures)


def _import(path: Path, target: str) -> None:
    with SessionStore.open(target) as store, read_jsonl(path) as log:
        store.import_log(log.header, log)


def _import_raw(path: Path, target: str) -> None:
    with path.open("rb") as lines, closing(RawSQLite(target)) as raw:
        next(lines)
        raw.insert(rows_of_lines(LONG_ID, lines))


def _beside_raw(setting: Setting, what: str, count: int, measures: Sequence[Callable[[], float]]) -> Row:
    """Take a measure, and that of sqlite3 and msgspec alone where there is one."""
    ours, *raws = in_turn(*measures, runs=min(RUNS, setting.scale.runs))
    figure = f"{ours.seconds:.2f} s, {rate(ours.seconds, count)}"
    for raw in raws:
        return Row(what, figure, f"{RawSQLite.name}: {rate(raw.seconds, count)}", 1 / raw.times)
    return Row(what, figure)


def _beside_stock(setting: Setting) -> Iterator[Row]:
    length = setting.scale.stock_length
    lengths = setting.scale.lengths[1:]
    with closing(StockStore(setting.new_target("SQLite"))) as stock:
        for batch in in_batches(agent_steps(length, result_chars=400, chunks=12), BATCH):
            stock.save(batch)
        stocks, *ours = in_turn(
            partial(seconds, stock.get),
            *(Process(setting, "open", "SQLite", of) for of in lengths),
            runs=min(RUNS, setting.scale.runs),
        )
    for of, opened in zip(lengths, ours, strict=True):
        yield Row(
            f"open {of:,} events, SQLite, fresh process",
            milli(opened.seconds),
            f"repository.get of a stock aggregate of {length:,}: {milli(stocks.seconds)}",
            opened.times,
            at_least=100,
        )


def _without_snapshot(setting: Setting) -> Row:
    length = setting.scale.lengths[-1]
    with setting.long_copy(length) as (store, raw):
        raw.execute("DELETE FROM stored_snapshots")
        ours, theirs = in_turn(
            partial(seconds, partial(store.load, LONG_ID)),
            partial(seconds, lambda: sum(1 for _ in raw.execute(READ_TOPICS, (LONG_ID,)))),
            runs=min(RUNS, setting.scale.runs),
        )
    return Row(
        f"load {length:,} events without a snapshot, SQLite",
        f"{ours.seconds:.2f} s",
        f"raw SELECT of versions and topics: {theirs.seconds:.2f} s",
        theirs.times,
        at_most=3,
    )

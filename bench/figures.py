"""Timing: medians of alternating runs, and ratios within one process."""

from __future__ import annotations

import gc
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5


class Row(NamedTuple):
    """One line of the table."""

    what: str
    figure: str
    against: str
    ratio: str
    bound: str


def seconds(run: Callable[[], object]) -> float:
    """Return how long one call takes, with the garbage of earlier ones swept first."""
    gc.collect()
    start = perf_counter()
    run()
    return perf_counter() - start


def paired(ours: Callable[[], object], yardstick: Callable[[], object], runs: int = RUNS) -> tuple[float, float, float]:
    """Time two things in turn; return both medians in seconds, and the median of the ratios pair by pair."""
    pairs = [(seconds(ours), seconds(yardstick)) for _ in range(runs)]
    return (
        median(mine for mine, _ in pairs),
        median(theirs for _, theirs in pairs),
        median(mine / theirs for mine, theirs in pairs),
    )


def micro(value: float, count: int) -> str:
    """Write seconds over a count as microseconds each."""
    return f"{value / count * 1e6:,.2f} µs"

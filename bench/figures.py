"""Timing: medians of runs that alternate, ratios within one process, and the lines of the table."""

from __future__ import annotations

import gc
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        what: what was done.
        figure: what ours took.
        against: what it is held against, and what that took.
        value: what a bound is about: a ratio, unless there is a unit.
        unit: of the value.
        at_most: the bound from above.
        at_least: the bound from below.
    """

    what: str
    figure: str
    against: str = ""
    value: float | None = None
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the line as text."""
        value = "" if self.value is None else f"{self.value:,.2f}{self.unit}"
        return self.what, self.figure, self.against, value, self._bound()

    def _bound(self) -> str:
        value, bound, is_met = self.value or 0.0, "", True
        if self.at_most is not None:
            bound, is_met = f"≤ {self.at_most:g}{self.unit}", value <= self.at_most
        if self.at_least is not None:
            bound, is_met = f"≥ {self.at_least:g}{self.unit}", value >= self.at_least
        return bound if is_met else f"{bound} **missed**"


class Timing(NamedTuple):
    """What one of several things took that were done in turn.

    Attributes:
        seconds: the median.
        times: the median, round by round, of how many times longer the first of them took.
    """

    seconds: float
    times: float


def seconds(run: Callable[[], object]) -> float:
    """Return how long one call takes, with the garbage of earlier ones swept first."""
    gc.collect()
    start = perf_counter()
    run()
    return perf_counter() - start


def after(make: Callable[[], Any], run: Callable[[Any], object]) -> float:
    """Return how long a call takes on something newly made, whose making does not count."""
    made = make()
    return seconds(lambda: run(made))


def in_turn(*measures: Callable[[], float], runs: int) -> list[Timing]:
    """Take several measures in turn, in rounds; each returns its own seconds."""
    rounds = [[measure() for measure in measures] for _ in range(runs)]
    firsts = [taken[0] for taken in rounds]
    return [
        Timing(median(taken), median(first / one for first, one in zip(firsts, taken, strict=True)))
        for taken in zip(*rounds, strict=True)
    ]


def micro(value: float, count: int) -> str:
    """Write seconds over a count as microseconds each."""
    return f"{value / count * 1e6:,.2f} µs"


def milli(value: float, count: int = 1) -> str:
    """Write seconds over a count as milliseconds each."""
    return f"{value / count * 1e3:,.2f} ms"


def rate(value: float, count: int) -> str:
    """Write a count over seconds."""
    return f"{count / value:,.0f} events/s"

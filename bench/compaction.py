"""The standard engine's own work, all of a compaction but the summarizer, against encoding the messages once."""

from __future__ import annotations

import gc
import json
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from workload import agent_steps, append_all

from dsh_compact import BasicCompactionEngine, CompactionPolicy, SurfaceLedger
from dsh_session import Session, SessionHeader

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = 1000
CHECKS = 200
ENGINE = BasicCompactionEngine(CompactionPolicy(retain_tokens=1000, context_window=10**9))


def fastest(act: Callable[[Any], object], make: Callable[[], Any], runs: int) -> float:
    """Return the seconds of the fastest of some runs, each on something newly made."""
    times = []
    for _ in range(runs):
        subject = make()
        gc.collect()
        begin = perf_counter()
        act(subject)
        times.append(perf_counter() - begin)
    return min(times)


def session_of(nodes: int, *, chunks: int = 0, is_known: bool = True) -> Session:
    """Make a session of agent steps; a known one has been measured before, as at each step boundary of a harness."""
    session = Session(SessionHeader(id="bench", created_at=1))
    append_all(session, agent_steps(nodes * (6 + chunks) // 2, chunks=chunks))
    if is_known:
        SurfaceLedger.of(session.surface, ENGINE.meter)
    return session


def compact(session: Session) -> None:
    ENGINE.compact(session, "manual", summarize=lambda _: "in short")


def check_pressure(session: Session) -> None:
    for _ in range(CHECKS):
        ENGINE.compact(session, "pressure", summarize=lambda _: "in short")


def compaction_rows(runs: int = 9) -> list[tuple[str, float]]:
    """Return what was measured, and its ratio.

    A node is decoded and priced once in its life on the surface, at the first step boundary after it came; so a
    session is known when it is compacted. The rows of an unknown one add that reading of all of its nodes.
    """
    messages = session_of(NODES).messages()
    encode = fastest(msgspec.json.encode, lambda: messages, runs)
    dump = fastest(json.dumps, lambda: messages, runs)
    known = fastest(compact, partial(session_of, NODES), runs)
    unknown = fastest(compact, partial(session_of, NODES, is_known=False), runs)
    long_log = fastest(compact, partial(session_of, NODES, chunks=40), runs)
    few = fastest(check_pressure, partial(session_of, 100), runs)
    many = fastest(check_pressure, partial(session_of, 10 * NODES), 3)
    return [
        ("compact 1,000 nodes / encode their messages with msgspec", known / encode),
        ("compact 1,000 nodes / encode their messages with json", known / dump),
        ("compact 1,000 nodes never measured before / encode their messages with msgspec", unknown / encode),
        ("compact 1,000 nodes never measured before / encode their messages with json", unknown / dump),
        ("compact 1,000 nodes in a log of 23,000 events / of 3,000", long_log / known),
        ("find that 10,000 nodes fit / that 100 fit", many / few),
    ]


if __name__ == "__main__":
    for name, ratio in compaction_rows():
        print(f"{ratio:8.2f}  {name}")

"""The standard engine's own work, all of a compaction but the summarizer, against encoding the messages once."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from figures import Row, after, in_turn, micro, milli, seconds
from workload import agent_steps, append_all

from dsh_compact import BasicCompactionEngine, CompactionPolicy, SurfaceLedger
from dsh_session import Session, SessionHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from setting import Setting

CHECKS: Final = 200
CHUNKS: Final = 40
ENGINE: Final = BasicCompactionEngine(CompactionPolicy(retain_tokens=1000, context_window=10**9))


def rows(setting: Setting) -> Iterator[Row]:
    """Measure compactions.

    A node is decoded and priced once in its life on the surface, at the first step boundary after it came; so a
    session is known when it is compacted. The rows of an unknown one add that reading of all of its nodes.
    """
    runs, nodes = setting.scale.runs, setting.scale.nodes
    messages = _session_of(nodes).messages()
    encode = partial(seconds, lambda: msgspec.json.encode(messages))
    dump = partial(seconds, lambda: json.dumps(messages))
    compact = partial(after, partial(_session_of, nodes), _compact)
    compact_unknown = partial(after, partial(_session_of, nodes, is_known=False), _compact)
    compact_long = partial(after, partial(_session_of, nodes, chunks=CHUNKS), _compact)
    for name, run, bounds in (
        (f"compact {nodes:,} nodes", compact, (3, None)),
        (f"compact {nodes:,} nodes never measured before", compact_unknown, (None, None)),
    ):
        ours, with_msgspec, with_json = in_turn(run, encode, dump, runs=runs)
        for encoder, theirs, bound in zip(("msgspec", "json"), (with_msgspec, with_json), bounds, strict=True):
            against = f"encoding their messages with {encoder}: {milli(theirs.seconds)}"
            yield Row(name, milli(ours.seconds), against, theirs.times, at_most=bound)
    of_long, of_short = in_turn(compact_long, compact, runs=runs)
    yield Row(
        f"compact {nodes:,} nodes in a log of {_length(nodes, CHUNKS):,} events",
        milli(of_long.seconds),
        f"of {_length(nodes):,}: {milli(of_short.seconds)}",
        of_short.times,
    )
    many, few = in_turn(_checking(10 * nodes), _checking(nodes // 10), runs=runs)
    yield Row(
        f"find that {10 * nodes:,} nodes fit",
        micro(many.seconds, CHECKS),
        f"that {nodes // 10:,} do: {micro(few.seconds, CHECKS)}",
        few.times,
    )


def _length(nodes: int, chunks: int = 0) -> int:
    """Return how many events have about so many nodes among them."""
    return nodes * (6 + chunks) // 2


def _session_of(nodes: int, *, chunks: int = 0, is_known: bool = True) -> Session:
    """Make a session of agent steps; a known one has been measured before, as at each step boundary of a harness."""
    session = Session(SessionHeader(id="bench", created_at=1))
    append_all(session, agent_steps(_length(nodes, chunks), chunks=chunks, result_chars=6_000))
    if is_known:
        SurfaceLedger.of(session.surface, ENGINE.meter)
    return session


def _compact(session: Session) -> None:
    ENGINE.compact(session, "manual", summarize=lambda _: "in short")


def _checking(nodes: int) -> partial[float]:
    return partial(seconds, partial(_check_pressure, _session_of(nodes)))


def _check_pressure(session: Session) -> None:
    for _ in range(CHECKS):
        ENGINE.compact(session, "pressure", summarize=lambda _: "in short")

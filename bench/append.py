"""Appending in memory: a replacement whatever the surface, and an event beside encoding its payload."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from figures import Row, in_turn, micro, seconds
from workload import agent_steps, append_all

from dsh_session import APPEND, Replace, Session, SessionHeader, user_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from setting import Setting
    from workload import Candidate

BOUND: Final = 3
"""How many times longer than msgspec's encoding of its payload an append may take."""
RESULT_CHARS: Final = (600, 6_000, 30_000, 120_000)
BYTES: Final = 64_000_000
"""How much the payloads of a run may be together."""


class Measured(NamedTuple):
    """Appends of events of some size: the microseconds of one, and those of encoding its payload."""

    size: int
    ours: float
    theirs: float


def rows(setting: Setting) -> Iterator[Row]:
    yield _replacement_row(setting)
    yield _append_row(setting, "with 12 stream chunks a step", agent_steps(setting.scale.events, chunks=12))[0]
    measured = []
    for chars in RESULT_CHARS:
        candidates = agent_steps(min(setting.scale.events, BYTES * 5 // chars), result_chars=chars)
        row, of_size = _append_row(setting, f"with results of {chars:,} characters", candidates)
        yield row
        measured.append(of_size)
    yield Row(f"an append is within {BOUND} times the encoding", met_from(measured))


def met_from(measured: list[Measured]) -> str:
    """Tell the size of event from which on the bound is met, on a straight line between two that were measured."""
    excess = [(of.size, of.ours - BOUND * of.theirs) for of in measured]
    if excess[0][1] <= 0:
        return f"from {excess[0][0]:,} B an event on, or less"
    for (low, above), (high, below) in pairwise(excess):
        if below <= 0:
            return f"from about {low + (high - low) * above / (above - below):,.0f} B an event on"
    return f"not yet at {excess[-1][0]:,} B an event"


def _append_row(setting: Setting, name: str, candidates: list[Candidate]) -> tuple[Row, Measured]:
    encode = msgspec.json.Encoder().encode
    payloads = [data for _, data, _ in candidates]
    count = len(candidates)
    size = sum(len(encode(payload)) for payload in payloads) // count
    ours, theirs = in_turn(
        partial(seconds, lambda: append_all(_session(), candidates)),
        partial(seconds, lambda: [encode(payload) for payload in payloads]),
        runs=setting.scale.runs,
    )
    row = Row(
        f"append agent steps {name} ({size:,} B an event)",
        micro(ours.seconds, count),
        f"msgspec encoding the payloads: {micro(theirs.seconds, count)}",
        theirs.times,
        at_most=BOUND,
    )
    return row, Measured(size, ours.seconds / count, theirs.seconds / count)


def _replacement_row(setting: Setting) -> Row:
    few, many = setting.scale.surfaces
    copies = 500
    of_many, of_few = in_turn(
        partial(seconds, _rewriter(many, copies)), partial(seconds, _rewriter(few, copies)), runs=setting.scale.runs
    )
    return Row(
        f"replace 1 node of a surface of {many:,}",
        micro(of_many.seconds, copies),
        f"of {few:,}: {micro(of_few.seconds, copies)}",
        of_few.times,
        at_most=1.5,
    )


def _rewriter(nodes: int, copies: int) -> Callable[[], None]:
    session = _session()
    append_all(session, [("user/message", user_message("x", message_id=f"m{node}"), APPEND) for node in range(nodes)])
    middle = session.surface.nodes[nodes // 2]

    def rewrite() -> None:
        nonlocal middle
        for index in range(copies):
            copy = user_message("y", message_id=f"c{index}")
            middle = session.append("user/message", copy, Replace(middle, middle), [middle]).seq

    return rewrite


def _session() -> Session:
    return Session(SessionHeader(id="bench", created_at=1))

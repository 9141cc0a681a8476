"""Hypothesis strategies for whole logs, for what two writers make of one, and for what may come next."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
from hypothesis import strategies as st

from dsh_session import lossless_json
from dsh_session.event import APPEND, Replace, SessionEvent
from dsh_session.testing.builder import LogBuilder
from dsh_session.testing.moves import log_moves, message_moves, replacement_moves, turn_moves
from dsh_session.testing.oracles import naive_surface
from dsh_session.testing.values import user_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from dsh_session.testing.moves import Move


@st.composite
def logs(  # noqa: D417 - Hypothesis passes draw
    draw: DrawFn, moves: SearchStrategy[Move] | None = None, *, max_moves: int = 24
) -> list[SessionEvent]:
    """Give a log that every reader must take: valid events in seq order, from 0, cut short anywhere.

    Args:
        moves: what may happen; those of `log_moves` when None. Join yours to them with ``|``.
        max_moves: how many moves are made at most. At least a third as many are, so that much happens in most logs;
            some of them do nothing, so logs shrink all the same.
    """
    log = LogBuilder()
    for move in draw(st.lists(log_moves() if moves is None else moves, min_size=max_moves // 3, max_size=max_moves)):
        move(log)
    return log.events


def turns(*, max_turns: int = 3) -> SearchStrategy[list[SessionEvent]]:
    """Give the log of whole turns, one behind another: tool rounds, parallel calls, late and missing results.

    A result that comes late stands in another turn than its call, and behind what was said meanwhile, so that whoever
    pairs neighbours is found out. A result that is missing leaves its call open for ever.

    Args:
        max_turns: how many turns there are at most.
    """
    return logs(turn_moves(), max_moves=max_turns)


@st.composite
def replaced_logs(draw: DrawFn, *, max_moves: int = 16) -> list[SessionEvent]:  # noqa: D417 - Hypothesis passes draw
    """Give a log of some messages of every kind, and then of replacements and more messages.

    So much is replaced that replacements are nested and repeated, of one node and of all, of a compaction and of
    others; a reader that follows them by anything but surface position loses its way.

    Args:
        max_moves: how many messages and replacements there are at most, an int >= 2.
    """
    log = LogBuilder()
    head = draw(st.lists(message_moves(), min_size=1, max_size=max(max_moves // 2, 1)))
    tail = st.lists(replacement_moves() | message_moves(), min_size=1, max_size=max_moves - len(head))
    for move in head + draw(tail):
        move(log)
    return log.events


@st.composite
def crash_prefixes(  # noqa: D417 - Hypothesis passes draw
    draw: DrawFn, *, logs: SearchStrategy[list[SessionEvent]] | None = None
) -> list[SessionEvent]:
    """Give what is left of a log when the process died: a prefix that ends inside a turn, if the log has one.

    So calls are open, started or not, and a stream has no message yet. Any other log is cut anywhere.

    Args:
        logs: what to cut; `turns` and `logs` when None.
    """
    events = draw(turns() | _any_logs() if logs is None else logs)
    inside: list[int] = []
    is_open = False
    for event in events:
        is_open = event.type == "turn/start" or (is_open and event.type != "turn/end")
        if is_open:
            inside.append(event.seq + 1)
    return events[: draw(st.sampled_from(inside) if inside else st.integers(0, len(events)))]


@attrs.frozen
class Interleaving:
    """A log, and what each of two writers appends to it who know no more than that.

    Attributes:
        base: the log that both have loaded.
        theirs: what the other writer saves first; it fits behind the base.
        ours: what we would save then; it fits behind the base too, and only perhaps behind theirs.
    """

    base: list[SessionEvent]
    theirs: list[SessionEvent]
    ours: list[SessionEvent]


@st.composite
def interleavings(draw: DrawFn, *, max_moves: int = 8) -> Interleaving:  # noqa: D417 - Hypothesis passes draw
    """Give the appends of two writers of one session, for the laws of conflicts and rebases.

    Both replace and cite what is in the base, where they may be in each other's way, and what they have said
    themselves, whose seqs a rebase must move: in markers, in provenance, and inside records of compactions and titles.

    Args:
        max_moves: how many moves make the base, and each writer's part, at most.
    """
    kinds = ["compact/summary", "compaction/prune", "session/title", "compaction/summary", "note"]
    moves: SearchStrategy[Move] = log_moves() | st.sampled_from([partial(_cite_surface, kind=kind) for kind in kinds])
    base = draw(logs(max_moves=max_moves))
    parts = []
    for _ in range(2):
        log = LogBuilder()
        log.events.extend(base)
        for move in draw(st.lists(moves, max_size=max_moves)):
            move(log)
        parts.append(log.events[len(base) :])
    return Interleaving(base, *parts)


@st.composite
def candidates(draw: DrawFn, events: Sequence[SessionEvent]) -> SessionEvent:  # noqa: D417 - Hypothesis passes draw
    """Give an event that somebody might try to append to a log: right, or wrong in seq, marker or provenance.

    Args:
        events: the log, a valid one.
    """
    length = len(events)
    nodes = naive_surface(events).nodes
    known = [(event.type, event.data) for event in events if event.seq in nodes]
    kind, data = draw(st.sampled_from([*known, ("user/message", draw(user_messages())), ("turn/start", {"turn": 1})]))
    if "turn" in data and draw(st.booleans()):
        data["turn"] += 1
    ends = [*nodes, length]
    all_before = tuple(range(length))
    return SessionEvent(
        "",
        draw(st.sampled_from([length, length, length + 1, max(length - 1, 0)])),
        0,
        kind,
        lossless_json.encode(data),
        draw(st.sampled_from([APPEND, None, *(Replace(start, end) for start in ends for end in ends)])),
        draw(
            st.sampled_from([all_before, None, (), all_before[1:], (*all_before, length), all_before + all_before[:1]])
            | st.lists(st.integers(0, length + 1), max_size=3).map(tuple)
        ),
    )


def _any_logs() -> SearchStrategy[list[SessionEvent]]:
    return logs()


def _cite_surface(log: LogBuilder, kind: str) -> None:
    """Write a record about the whole surface."""
    seqs = list(log.nodes)
    if seqs:
        ends = {"start": seqs[0], "end": seqs[-1]}
        log.append(kind, {"shadowedSeqs": seqs, "shadowedRange": ends, "messageSeqs": seqs})

"""Hypothesis strategies for whole logs, for what two writers make of one, and for what may come next."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
from hypothesis import strategies as st

from dsh_session.testing.builder import LogBuilder
from dsh_session.testing.moves import log_moves, message_moves, replacement_moves, turn_moves
from dsh_session.testing.oracles import naive_attempts, naive_refusals, naive_surface
from dsh_session.testing.values import user_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from dsh_session.event import SessionEvent
    from dsh_session.testing.moves import Move

_MOST_WRONGS: Final = 2


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
    Each begins and ends compactions, of which only one may be live.

    Args:
        max_moves: how many moves make the base, and each writer's part, at most.
    """
    kinds = ["compact/summary", "compaction/prune", "session/title", "compaction/summary", "note"]
    records = [*(partial(_cite_surface, kind=kind) for kind in kinds), *[_begin_or_end_compaction] * 3]
    moves: SearchStrategy[Move] = st.one_of(log_moves(), *map(st.just, records))
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

    Every way in which the log lets it be wrong, in one thing or two, is as likely as every other, so that whoever
    leaves out one check is found out.

    Args:
        events: the log, a valid one.
    """
    nodes = naive_surface(events).nodes
    new: list[tuple[str, Any]] = [("user/message", draw(user_messages())), ("turn/start", {"turn": 1})]
    known = [(events[seq].type, events[seq].data) for seq in nodes]
    kind, data = draw(st.sampled_from(known or new) | st.sampled_from(new))
    if "turn" in data and draw(st.booleans()):
        data["turn"] += 1
    ways: defaultdict[tuple[str, ...], list[SessionEvent]] = defaultdict(list)
    for candidate in naive_attempts(events, kind, data):
        ways[tuple(sorted(naive_refusals(events, candidate)))].append(candidate)
    way = draw(st.sampled_from(sorted(way for way in ways if len(way) <= _MOST_WRONGS)))
    return draw(st.sampled_from(ways[way]))


def _any_logs() -> SearchStrategy[list[SessionEvent]]:
    return logs()


def _begin_or_end_compaction(log: LogBuilder) -> None:
    """Take the lock in the log, or let it go."""
    live = _live_compaction(log)
    if live is None:
        log.append("compact/start", {"compactionId": f"c{len(log.events)}", "turn": None})
    else:
        log.append("compact/end", {"compactionId": live, "turn": None})


def _live_compaction(log: LogBuilder) -> str | None:
    brackets = [event for event in log.events if event.type in {"compact/start", "compact/end"}]
    return brackets[-1].data["compactionId"] if brackets and brackets[-1].type == "compact/start" else None


def _cite_surface(log: LogBuilder, kind: str) -> None:
    """Write a record about the whole surface."""
    seqs = list(log.nodes)
    if seqs:
        ends = {"start": seqs[0], "end": seqs[-1]}
        ids = {"compactionId": _live_compaction(log)}
        log.append(kind, {**ids, "shadowedSeqs": seqs, "shadowedRange": ends, "messageSeqs": seqs})

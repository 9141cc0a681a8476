"""Naive oracles, which are slow and obvious and share no code with what they check, and the laws that use them."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from dsh_session import lossless_json
from dsh_session.errors import InvalidSurfaceError, NotJSONError
from dsh_session.event import APPEND, Append, Replace, SessionEvent
from dsh_session.message import message_of, tool_calls_of
from dsh_session.surface import Replacement, SurfaceFold
from dsh_session.testing.assertions import expect, hold, taken
from dsh_session.vocabulary import SURFACE_EVENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dsh_session.event import SurfaceOp
    from dsh_session.surface import Surface
    from dsh_session.testing.logs import Interleaving

_LOCKS: Final = ("compact/start", "compaction/start")
_ENDS: Final = ("compact/end", "compaction/end")
_SUMMARIES: Final = ("compact/summary", "compaction/summary")


def is_same_json(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same: in every value, its type, the sign of zero, and the order of keys."""
    return list(_places(one)) == list(_places(other))


def naive_surface(events: Iterable[SessionEvent]) -> SurfaceFold:
    """Fold a valid log the obvious way, over a plain list. Cost: O(events x nodes)."""
    nodes: list[int] = []
    replacements = []
    for event in events:
        match event.surface_op:
            case Append():
                nodes.append(event.seq)
            case Replace(start, end):
                first, last = nodes.index(start), nodes.index(end)
                replacements.append(Replacement(event.seq, start, end, tuple(nodes[first : last + 1])))
                nodes[first : last + 1] = [event.seq]
            case None:
                pass
            case _:
                assert_never(event.surface_op)
    return SurfaceFold(tuple(nodes), len(replacements), tuple(replacements))


def naive_classes(events: Iterable[SessionEvent]) -> dict[int, Literal["current", "shadowed", "log-only"]]:
    """Say of every seq of a valid log whether its event is on the surface, was taken off it, or never was on it."""
    log = list(events)
    nodes = naive_surface(log).nodes
    return {
        event.seq: "log-only" if event.surface_op is None else "current" if event.seq in nodes else "shadowed"
        for event in log
    }


def naive_chains(events: Iterable[SessionEvent]) -> dict[int, list[int]]:
    """Give, of every seq that was replaced, the chain of its replacers: the next first, the last of them current."""
    replacements = naive_surface(events).replacements
    chains: dict[int, list[int]] = {}
    for replacement in reversed(replacements):
        for seq in replacement.shadowed_seqs:
            chains[seq] = [replacement.seq, *chains.get(replacement.seq, [])]
    return chains


def naive_refusals(events: Sequence[SessionEvent], candidate: SessionEvent) -> set[str]:
    """Name every rule of the surface that a candidate for the next event of a valid log breaks; none if it may land."""
    marker, sources = candidate.surface_op, candidate.source_event_seqs
    is_message = candidate.type in SURFACE_EVENT_TYPES
    broken = {
        "seq": candidate.seq != len(events),
        "marker-missing": is_message and marker is None,
        "marker-on-log-only": not is_message and marker is not None,
        "sources-on-log-only": not is_message and sources is not None,
        "sources-empty": is_message and sources == () and candidate.type != "assistant/message",
        "sources-duplicate": is_message and len(set(sources or ())) < len(sources or ()),
        "sources-not-earlier": is_message and any(source >= candidate.seq for source in sources or ()),
    }
    if is_message and isinstance(marker, Replace):
        nodes = naive_surface(events).nodes
        broken["start-not-on-surface"] = marker.start not in nodes
        broken["end-not-on-surface"] = marker.end not in nodes
        if {marker.start, marker.end} <= set(nodes):
            shadowed = nodes[nodes.index(marker.start) : nodes.index(marker.end) + 1]
            targets = [events[seq] for seq in shadowed]
            is_result = candidate.type == "tool/result"
            broken["range-reversed"] = not shadowed
            broken["sources-missing-shadowed"] = not set(shadowed) <= set(sources or ())
            broken["result-span"] = is_result and len(shadowed) > 1
            broken["result-target"] = is_result and any(target.type != "tool/result" for target in targets)
            broken["result-fields"] = (
                is_result and len(targets) == 1 and _beside_content(targets[0]) != _beside_content(candidate)
            )
    return {rule for rule, is_broken in broken.items() if is_broken}


def naive_attempts(events: Sequence[SessionEvent], kind: str, data: Any) -> Iterator[SessionEvent]:
    """Give the events that somebody might try to append to a valid log with a message: right, or wrong somewhere.

    Their markers are of each node, of neighbours in either order, of all nodes, and of none that is there. Provenance
    covers the range, lacks a node, names one twice, or names the event itself. Where both are right, some have the seq
    of another event.

    Args:
        events: the log.
        kind: the type of the message.
        data: what it says.
    """
    length, nodes, encoded = len(events), naive_surface(events).nodes, lossless_json.encode(data)
    ends = [*nodes, length]
    whole = (ends[0], ends[max(len(nodes) - 1, 0)])
    pairs = sorted({*zip(ends, ends, strict=True), *pairwise(ends), *pairwise(ends[::-1]), whole})
    rights: list[tuple[SurfaceOp | None, tuple[int, ...] | None]] = [(APPEND, None), (None, None)]
    for start, end in pairs:
        is_range = {start, end} <= set(nodes)
        rights.append((Replace(start, end), nodes[nodes.index(start) : nodes.index(end) + 1] if is_range else None))
    for marker, right in rights:
        cited = right or tuple(range(length))
        for sources in (right, None, (), cited[1:], (*cited, length), cited + cited[:1]):
            yield SessionEvent("", length, 0, kind, encoded, marker, sources)
        for seq in (length + 1, max(length - 1, 0)):
            yield SessionEvent("", seq, 0, kind, encoded, marker, right)


def naive_rebase(work: Interleaving) -> tuple[list[SessionEvent], int | None]:
    """Put what we have pending behind what another writer saved, by the wire form of each event.

    What breaks a rule of the surface does not fit there. Neither does, behind events of theirs, the start of a
    compaction while one is live, nor the summary or the end of one that is not.

    Returns:
        The log, and None; or how far it came, and the seq of our first event that does not fit there.
    """
    log = [*work.base, *work.theirs]
    for event in work.ours:
        candidate = _moved(event, len(work.base), len(work.theirs))
        if (work.theirs and _is_locked_out(log, event)) or naive_refusals(log, candidate):
            return log, event.seq
        log.append(candidate)
    return log, None


def check_lossless(round_trip: Callable[[Any], Any], value: Any) -> None:
    """Check that what goes into a store is what comes out of it, in value and type, and is the caller's no more.

    Args:
        round_trip: stores a JSON value and reads it back.
        value: a value out of `json_values`.
    """
    given = deepcopy(value)
    stored = round_trip(value)
    hold(is_same_json(given, value), f"storing {given!r} changed it to {value!r}")
    hold(is_same_json(given, stored), f"{given!r} came back as {stored!r}")
    hold(stored is not value or not isinstance(value, dict | list), "the caller's own object came back")


def check_refuses_foreign(round_trip: Callable[[Any], Any], value: Any) -> None:
    """Check that what would not come back as it is does not go into a store.

    Args:
        round_trip: stores a JSON value and reads it back.
        value: a value out of `foreign_values`.
    """
    with suppress(NotJSONError):
        raise AssertionError(f"{value!r} was taken, and came back as {round_trip(value)!r}")


def check_fold(fold: Callable[[Iterable[SessionEvent]], SurfaceFold], events: Sequence[SessionEvent]) -> None:
    """Check that a fold finds the nodes, the generation and the replacements that the naive fold finds.

    Args:
        fold: folds a log.
        events: a log out of `logs`.
    """
    with taken("a valid log"):
        actual = fold(events)
    expected = naive_surface(events)
    hold(expected == actual, f"expected {expected}, found {actual}")


def check_surface(make: Callable[[], Surface], events: Sequence[SessionEvent]) -> None:
    """Check that a surface takes an event exactly when no rule is against it, and stays as it was when it refuses.

    Everything in `naive_attempts` is tried behind the log, with what the newest node of each type says. The rule that
    is named is one that is broken. To plan changes nothing, whatever comes of it.

    Args:
        make: makes an empty surface.
        events: a log out of `logs`.
    """
    surface = _surface_of(make, events)
    said: dict[str, Any] = {events[seq].type: events[seq].data for seq in sorted(surface.nodes)}
    for kind, data in {"turn/start": {"turn": 1}, **said}.items():
        for candidate in naive_attempts(events, kind, data):
            broken = naive_refusals(events, candidate)
            for act in (surface.plan, surface.take) if broken else (surface.plan,):
                before = surface.nodes, surface.generation, surface.next_seq
                named: set[str] = set()
                try:
                    act(candidate)
                except InvalidSurfaceError as error:
                    named = {error.rule}
                if bool(named) != bool(broken) or not named <= broken:
                    raise AssertionError(f"{candidate} breaks {broken or 'nothing'}; it was said: {named or 'nothing'}")
                if before != (surface.nodes, surface.generation, surface.next_seq):
                    raise AssertionError(f"the surface changed, and {candidate} has not landed")
            if not broken:
                landed, fold = _surface_of(make, [*events, candidate]), naive_surface([*events, candidate])
                expect((fold.nodes, fold.generation), (landed.nodes, landed.generation), "where a candidate landed")


def check_repair(
    repair_events: Callable[[Sequence[SessionEvent]], list[SessionEvent]], events: Sequence[SessionEvent]
) -> None:
    """Check that a repair gives events that may land, follows from the log alone, and leaves nothing to repair.

    Each call of the open step that has no result gets one, an error that tells whether the call was started; then the
    step is ended, and the turn is, as interrupted. Nothing else is said.

    Args:
        repair_events: gives the events that close what a log leaves open.
        events: a log out of `logs`.
    """
    repaired = list(events)
    for repair in repair_events(events):
        broken = naive_refusals(repaired, repair)
        hold(not broken, f"{repair} cannot land: {', '.join(sorted(broken))}")
        hold(repair.time == events[-1].time, f"{repair} has another time than the last event, {events[-1].time}")
        repaired.append(repair)
    hold(repaired == [*events, *repair_events(events)], "a second repair of the same log is another one")
    boundaries = [event.type for event in repaired if event.type in {"turn/start", "turn/end"}]
    hold(boundaries[-1:] != ["turn/start"], "the last turn is still open")
    hold(not repair_events(repaired), f"the repaired log is repaired again: {repair_events(repaired)}")
    expect(_naive_closers(events), [_gist(repair) for repair in repaired[len(events) :]], "what closes the log")


def _surface_of(make: Callable[[], Surface], events: Iterable[SessionEvent]) -> Surface:
    surface = make()
    with taken("a valid log"):
        for event in events:
            surface.take(event)
    return surface


def _naive_closers(events: Sequence[SessionEvent]) -> list[tuple[Any, ...]]:
    """Give the gist of each event that closes what a log leaves open."""
    turn: int | None = None
    step: int | None = None
    calls: dict[str, str] = {}
    for event in events:
        match event.type, event.data:
            case "turn/start", {"turn": int(number)}:
                turn, step, calls = number, None, {}
            case _ if turn is None:
                pass
            case "turn/end", _:
                turn, step, calls = None, None, {}
            case "step/start", {"step": int(number)}:
                step = number
            case "step/end", _:
                step, calls = None, {}
            case "assistant/message", {"step": _} as data:
                calls |= {call["id"]: "TOOL_NOT_STARTED" for call in tool_calls_of(message_of(event.type, data))}
            case "tool/call", {"callId": str(call_id)} if call_id in calls:
                calls[call_id] = "TOOL_OUTCOME_UNKNOWN"
            case "tool/result", data if (call_id := message_of(event.type, data)["source"]["callId"]) in calls:
                calls[call_id] = ""
            case _:
                pass
    repairs: list[tuple[Any, ...]] = [("tool/result", call_id, code) for call_id, code in calls.items() if code]
    if step is not None:
        repairs.append(("step/end", turn, step))
    if turn is not None:
        repairs.append(("turn/end", turn, {"kind": "interrupted"}))
    return repairs


def _gist(repair: SessionEvent) -> tuple[Any, ...]:
    match repair.type, repair.data:
        case "tool/result" as kind, {"message": {"source": {"callId": call_id}}, "error": {"code": code}}:
            return kind, call_id, code
        case "step/end" as kind, {"turn": turn, "step": step}:
            return kind, turn, step
        case "turn/end" as kind, {"turn": turn, "reason": reason}:
            return kind, turn, reason
        case _:
            return repair.type, repair.data


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, type, str]]:
    """Give every place in a JSON value, in order: its path, its type, and how it is written when it is a leaf."""
    is_container = isinstance(value, dict | list)
    yield path, type(value), "" if is_container else repr(value)
    if is_container:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(item, (*path, key))


def _is_locked_out(log: Iterable[SessionEvent], event: SessionEvent) -> bool:
    """Tell whether an event is a record of a compaction that the lock in a log does not let through."""
    live = None
    for each in log:
        if each.type in (*_LOCKS, *_ENDS, "session/end-seed"):
            live = each.data.get("compactionId", "") if each.type in _LOCKS else None
    if event.type in _LOCKS:
        return live is not None
    return event.type in (*_SUMMARIES, *_ENDS) and (live is None or live != event.data.get("compactionId", ""))


def _moved(event: SessionEvent, first: int, by: int) -> SessionEvent:
    """Renumber an event, and the seqs from ``first`` on that its marker, its provenance and known records name."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return value + by if isinstance(value, int) and value >= first else value

    wire = event.to_wire()
    is_record = event.type in ("compact/summary", "compaction/summary", "compaction/prune")
    is_title = event.type == "session/title" and "messageSeqs" in wire["data"]
    moved = {"seq", "surfaceOp", "sourceEventSeqs", *(["data"] if is_record or is_title else [])}
    return type(event).from_wire({key: walk(value) if key in moved else value for key, value in wire.items()})


def _beside_content(event: SessionEvent) -> set[Any]:
    """Give every place in a result's data but those of the content that a rewrite may change."""
    content = ("message", "content", 0, "content")
    return {place for place in _places(event.data) if place[0][:4] != content}

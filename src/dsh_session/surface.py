"""The surface: the ordered list of nodes that the model is sent, folded from the log.

An append puts a node at the tail. A replacement takes out every node from ``start`` to ``end`` by position and stands
where they stood. The fold plans before it applies: planning checks everything and changes nothing.

The order is a linked list, so an append is O(1) and a replacement costs the nodes that it shadows, whatever the size
of the surface (ADR-0005).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from dsh_session import lossless_json
from dsh_session.errors import InvalidSurfaceError, StalePlanError
from dsh_session.event import Append, Replace
from dsh_session.vocabulary import SURFACE_EVENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dsh_session.event import SessionEvent, SurfaceOp

_ENDS = -1  # the neighbour of the first node and of the last; no event has this seq


class SurfacePlan(msgspec.Struct, frozen=True, gc=False):
    """What one event will do to the surface, checked and ready to apply.

    Attributes:
        event: the event.
        shadowed_seqs: the nodes that it takes off the surface, in surface order; empty unless it is a replacement.
    """

    event: SessionEvent
    shadowed_seqs: tuple[int, ...]


@attrs.frozen
class Replacement:
    """A landed replacement: the node ``seq`` stands where the nodes from ``start`` to ``end`` stood."""

    seq: int
    start: int
    end: int
    shadowed_seqs: tuple[int, ...]


@attrs.frozen
class SurfaceFold:
    """What folding a log gives.

    Attributes:
        nodes: the seqs on the surface, in surface order.
        generation: how many replacements have landed.
        replacements: each of them, in log order.
    """

    nodes: tuple[int, ...]
    generation: int
    replacements: tuple[Replacement, ...]


class Surface:
    """The incremental fold.

    Args:
        first_seq: the seq of the first event to come; above 0 for a window into a log, whose replacements may then
            name nodes of the window only.

    Attributes:
        next_seq: the seq that the next event must have.
        generation: how many replacements have landed.
    """

    def __init__(self, first_seq: int = 0) -> None:
        self.next_seq = first_seq
        self.generation = 0
        self._after = {_ENDS: _ENDS}
        self._before = {_ENDS: _ENDS}
        self._events: dict[int, SessionEvent | None] = {}
        self.fetch: Callable[[Sequence[int]], Iterable[SessionEvent]] | None = None

    @classmethod
    def restore(
        cls,
        nodes: Iterable[int],
        *,
        next_seq: int,
        generation: int,
        fetch: Callable[[Sequence[int]], Iterable[SessionEvent]] | None = None,
    ) -> Surface:
        """Make the surface that `nodes`, `next_seq` and `generation` were read from.

        Args:
            nodes: the seqs in surface order.
            next_seq: the seq of the next event.
            generation: how many replacements had landed.
            fetch: gives the events of some seqs, when they are first asked for; a surface without it knows its order
                and no payloads.
        """
        surface = cls(next_seq)
        surface.generation = generation
        surface.fetch = fetch
        for node in nodes:
            surface._link(surface._before[_ENDS], node, _ENDS)
            surface._events[node] = None
        return surface

    @property
    def nodes(self) -> tuple[int, ...]:
        """The seqs on the surface, in surface order.

        Cost: O(nodes).
        """
        return tuple(self)

    def __iter__(self) -> Iterator[int]:
        node = self._after[_ENDS]
        while node != _ENDS:
            yield node
            node = self._after[node]

    def __reversed__(self) -> Iterator[int]:
        node = self._before[_ENDS]
        while node != _ENDS:
            yield node
            node = self._before[node]

    def __len__(self) -> int:
        return len(self._events)

    def __contains__(self, seq: object) -> bool:
        return seq in self._events

    def events(self, nodes: Iterable[int] | None = None) -> list[SessionEvent]:
        """Return the events of some nodes, in their order; of all, in surface order, when None.

        Raises:
            KeyError: one of them is not on the surface.

        Cost: O(nodes asked for), and one fetch of those not yet loaded.
        """
        wanted = list(self if nodes is None else nodes)
        known = self._events
        self._load([node for node in wanted if known[node] is None])
        return [known[node] for node in wanted]  # type: ignore[misc] # all are loaded now

    def event(self, seq: int) -> SessionEvent:
        """Return the event of one node.

        Raises:
            LookupError: ``seq`` is not on the surface.
        """
        if seq not in self._events:
            raise LookupError(f"seq {seq} is not on the surface")
        return self.events((seq,))[0]

    def span(self, start: int, end: int) -> tuple[int, ...]:
        """Return the nodes from ``start`` to ``end``, both included; none when ``end`` stands before ``start``.

        Raises:
            KeyError: start or end is not on the surface.

        Cost: O(nodes between the two), in either order: a second walk, from the end, meets the start of a reversed
        range.
        """
        after = self._after
        nodes = [start]
        node, probe = start, end
        while node != end:
            node = after[node]
            if probe != _ENDS:
                probe = after[probe]
            if node == _ENDS or probe == start:
                return ()
            nodes.append(node)
        return tuple(nodes)

    def plan(self, event: SessionEvent) -> SurfacePlan:
        """Check an event against the surface, and change nothing.

        Returns:
            What `apply` will do.

        Raises:
            InvalidSurfaceError: the event cannot come next; ``rule`` says which rule it breaks.

        Cost: O(1) for an append or a log-only event; O(nodes shadowed + provenance) for a replacement.
        """
        return SurfacePlan(event, self._shadowed_by(event))

    def apply(self, plan: SurfacePlan) -> None:
        """Carry out a plan that this surface made.

        Raises:
            StalePlanError: the surface has moved on since the plan was made.

        Cost: O(1 + nodes shadowed).
        """
        seq = plan.event.seq
        if seq != self.next_seq:
            raise StalePlanError(f"the plan is for seq {seq}; the next event of this log has seq {self.next_seq}")
        self._land(plan.event, plan.shadowed_seqs)

    def take(self, event: SessionEvent) -> tuple[int, ...]:
        """Plan and apply in one step, and return the nodes that the event takes off the surface.

        Raises:
            InvalidSurfaceError: the event cannot come next. Nothing has changed then.

        Cost: as `plan`.
        """
        shadowed = self._shadowed_by(event)
        self._land(event, shadowed)
        return shadowed

    def _shadowed_by(self, event: SessionEvent) -> tuple[int, ...]:
        seq = event.seq
        if seq != self.next_seq:
            raise _refusal(seq, "seq", f"the next event of this log has seq {self.next_seq}")
        marker = event.surface_op
        sources = event.source_event_seqs
        if event.type not in SURFACE_EVENT_TYPES:
            if marker is not None:
                raise _refusal(seq, "marker-on-log-only", f"{event.type} is log-only and cannot carry a marker")
            if sources is not None:
                raise _refusal(seq, "sources-on-log-only", f"{event.type} is log-only and cannot carry provenance")
            return ()
        if type(marker) is Append:
            if sources is not None:
                _check_sources(event, sources)
            return ()
        if marker is None:
            raise _refusal(seq, "marker-missing", f"{event.type} produces a message and must carry a marker")
        if type(marker) is not Replace:
            raise _refusal(seq, "marker-invalid", f"the marker is {marker!r}; it is APPEND or Replace(start, end)")
        shadowed = self._range(seq, marker)
        if sources is not None:
            _check_sources(event, sources)
        missing = sorted(set(shadowed).difference(sources or ()))
        if missing:
            raise _refusal(
                seq, "sources-missing-shadowed", f"provenance must name every node that is shadowed; {missing} missing"
            )
        if event.type == "tool/result":
            self._check_result_rewrite(event, shadowed)
        return shadowed

    def _land(self, event: SessionEvent, shadowed: tuple[int, ...]) -> None:
        seq = event.seq
        self.next_seq = seq + 1
        if event.surface_op is not None:
            self._put(seq, shadowed)
            self._events[seq] = event

    def drop_payload(self, seq: int) -> None:
        """Let go of a node's payload, but for what a later rewrite of the node is checked against.

        So a long log can be checked event by event in little memory, by whoever does not need the nodes' messages.

        Cost: O(size of the event).
        """
        event = self.event(seq)
        rest = _without_content(event.data) if event.type == "tool/result" else None
        self._events[seq] = msgspec.structs.replace(event, encoded_data=lossless_json.encode(rest))

    def skip_to(self, seq: int) -> None:
        """Pass over the log-only events before ``seq``, which a reader of surface events is not shown."""
        self.next_seq = max(seq, self.next_seq)

    def apply_checked(self, seq: int, marker: SurfaceOp) -> tuple[int, ...]:
        """Take in a surface event of a log that was checked when it was written, by its seq and marker alone.

        The log-only events before it are passed over. Its own event is fetched when it is asked for.

        Returns:
            The nodes that it takes off the surface, in surface order.

        Raises:
            InvalidSurfaceError: the event lies behind, or its range is not on the surface.

        Cost: O(1 + nodes shadowed).
        """
        if seq < self.next_seq:
            raise _refusal(seq, "seq", f"the next event of this log has seq {self.next_seq}")
        shadowed = self._range(seq, marker) if isinstance(marker, Replace) else ()
        self._put(seq, shadowed)
        self._events[seq] = None
        self.next_seq = seq + 1
        return shadowed

    def _put(self, seq: int, shadowed: tuple[int, ...]) -> None:
        before, after = self._before[_ENDS], _ENDS
        if shadowed:
            before, after = self._before[shadowed[0]], self._after[shadowed[-1]]
            for node in shadowed:
                del self._before[node], self._after[node], self._events[node]
            self.generation += 1
        self._link(before, seq, after)

    def _link(self, before: int, node: int, after: int) -> None:
        self._after[before] = self._before[after] = node
        self._before[node] = before
        self._after[node] = after

    def _range(self, seq: int, marker: Replace) -> tuple[int, ...]:
        start, end = marker.start, marker.end
        if start not in self._events:
            raise _refusal(seq, "start-not-on-surface", f"the replacement starts at {start}, which is no node")
        if end not in self._events:
            raise _refusal(seq, "end-not-on-surface", f"the replacement ends at {end}, which is no node")
        span = self.span(start, end)
        if not span:
            raise _refusal(
                seq, "range-reversed", f"the replacement starts at {start}, which stands after its end {end}"
            )
        return span

    def _check_result_rewrite(self, event: SessionEvent, shadowed: tuple[int, ...]) -> None:
        if len(shadowed) != 1:
            raise _refusal(
                event.seq,
                "result-span",
                f"a tool/result rewrites exactly one node; this range spans {len(shadowed)}",
            )
        target = self.event(shadowed[0])
        if target.type != "tool/result":
            raise _refusal(
                event.seq,
                "result-target",
                f"a tool/result rewrites a tool/result; seq {target.seq} is a {target.type}",
            )
        if not _is_same(_without_content(event.data), _without_content(target.data)):
            raise _refusal(
                event.seq,
                "result-fields",
                f"only the content inside the tool-result block may differ from the result at seq {target.seq}",
            )

    def _load(self, missing: list[int]) -> None:
        if not missing:
            return
        if self.fetch is not None:
            for event in self.fetch(missing):
                self._events[event.seq] = event
        for seq in missing:
            if self._events[seq] is None:
                raise LookupError(f"the event of node {seq} is not in the store")


def fold_surface(events: Iterable[SessionEvent], first_seq: int = 0) -> SurfaceFold:
    """Fold a log, or a window into one, in one go.

    Args:
        events: in seq order.
        first_seq: the seq of the first of them.

    Raises:
        InvalidSurfaceError: an event does not fit; ``seq`` says which.

    Cost: O(events + nodes shadowed + provenance).
    """
    surface = Surface(first_seq)
    replacements = []
    for event in events:
        shadowed = surface.take(event)
        if isinstance(event.surface_op, Replace):
            replacements.append(Replacement(event.seq, event.surface_op.start, event.surface_op.end, shadowed))
    return SurfaceFold(surface.nodes, surface.generation, tuple(replacements))


def _check_sources(event: SessionEvent, sources: tuple[int, ...]) -> None:
    if not sources:
        if event.type != "assistant/message":
            raise _refusal(
                event.seq,
                "sources-empty",
                "provenance is empty; only on an assistant/message does that mean something: nothing was streamed",
            )
        return
    if len(set(sources)) != len(sources):
        raise _refusal(event.seq, "sources-duplicate", "provenance names an event twice")
    if max(sources) >= event.seq:
        raise _refusal(
            event.seq,
            "sources-not-earlier",
            f"provenance names {next(source for source in sources if source >= event.seq)}, which is no earlier event",
        )


def _refusal(seq: int, rule: str, reason: str) -> InvalidSurfaceError:
    return InvalidSurfaceError(reason, rule=rule, seq=seq)


def _without_content(data: Any) -> Any:
    """Return fresh result data less the content that a rewrite may change; older logs keep it beside the call id.

    Blocks after the first are no result's, and `check_data` keeps them out of every log.
    """
    if isinstance(data, dict):
        match data:
            case {"message": {"content": [dict() as block, *_]} as message}:
                block.pop("content", None)
                message["content"] = [block]
            case {"content": _} if "message" not in data:
                del data["content"]
            case _:
                pass
    return data


def _is_same(one: Any, other: Any) -> bool:
    """Compare two JSON values by value and type, the sign of zero included, whatever the order of keys."""
    if type(one) is not type(other):
        return False
    match one:
        case dict():
            return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
        case list():
            return len(one) == len(other) and all(map(_is_same, one, other))
        case float():
            return repr(one) == repr(other)
        case _:
            return bool(one == other)

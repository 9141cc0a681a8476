"""What became of each event: is it on the surface, was it shadowed, by what, and what did it shadow itself.

This answers questions about a whole log. Whose an event is, the human's or the model's, needs none of it: its marker
says that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from dsh_projections.projection import SURFACE_TOPICS
from dsh_session import SURFACE_EVENT_TYPES, Surface

if TYPE_CHECKING:
    from dsh_session import SessionEvent

EventClass: TypeAlias = Literal["current", "shadowed", "log-only"]


@attrs.frozen
class Explanation:
    """What became of one event, and what it became from.

    Attributes:
        seq: the event's seq.
        event_class: whether it is on the surface, was taken off it, or never was there.
        chain: its replacers, the next one first and a current node last; empty unless it was shadowed.
        replaced: the nodes that it took off the surface, in surface order; empty unless it is a replacement.
        sources: the earlier events that it was made from, as it says itself.
        made_into: the later events that say they were made from it, in log order.
    """

    seq: int
    event_class: EventClass
    chain: tuple[int, ...]
    replaced: tuple[int, ...]
    sources: tuple[int, ...]
    made_into: tuple[int, ...]


class EventClassifier:
    """The class of every event of a log, and the replacements between them.

    Memory: O(surface events of the log and their provenance), without payloads.
    """

    version = 1
    topics: frozenset[str] | None = SURFACE_TOPICS

    def __init__(self) -> None:
        self._surface = Surface()
        self._replaced_by: dict[int, int] = {}
        self._replaced: dict[int, tuple[int, ...]] = {}
        self._sources: dict[int, tuple[int, ...]] = {}

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event. Cost: O(1 + nodes shadowed).

        Raises:
            InvalidSurfaceError: the event replaces a range that is not on the surface.
        """
        if event.surface_op is None or event.type not in SURFACE_EVENT_TYPES:
            return
        shadowed = self._surface.apply_checked(event.seq, event.surface_op)
        if event.source_event_seqs:
            self._sources[event.seq] = event.source_event_seqs
        if shadowed:
            self._replaced[event.seq] = shadowed
            self._replaced_by |= dict.fromkeys(shadowed, event.seq)

    def classify(self, seq: int) -> EventClass:
        """Say what the event at ``seq`` is now. Cost: O(1)."""
        if seq in self._surface:
            return "current"
        return "shadowed" if seq in self._replaced_by else "log-only"

    def replaced_by(self, seq: int) -> int | None:
        """Return the replacement that took the event off the surface, or None. Cost: O(1)."""
        return self._replaced_by.get(seq)

    def chain(self, seq: int) -> tuple[int, ...]:
        """Return the replacers of an event, the next one first and a current node last. Cost: O(its length)."""
        replacers = []
        replacer = self._replaced_by.get(seq)
        while replacer is not None:
            replacers.append(replacer)
            replacer = self._replaced_by.get(replacer)
        return tuple(replacers)

    def replaced(self, seq: int) -> tuple[int, ...]:
        """Return the nodes that the event took off the surface, in surface order. Cost: O(1)."""
        return self._replaced.get(seq, ())

    def explain(self, seq: int) -> Explanation:
        """Tell what became of any event, log-only ones included. Cost: O(provenance in the log)."""
        return Explanation(
            seq,
            self.classify(seq),
            self.chain(seq),
            self.replaced(seq),
            self._sources.get(seq, ()),
            tuple(maker for maker, sources in self._sources.items() if seq in sources),
        )

    def view(self) -> dict[int, EventClass]:
        """Return the class of every event that is or was a node. Cost: O(surface events)."""
        return {seq: self.classify(seq) for seq in sorted({*self._surface, *self._replaced_by})}

    def state(self) -> Any:
        """Return the nodes, what each replacement replaced, and the provenance."""
        return {
            "next_seq": self._surface.next_seq,
            "generation": self._surface.generation,
            "nodes": list(self._surface),
            "replaced": [[seq, list(shadowed)] for seq, shadowed in self._replaced.items()],
            "sources": [[seq, list(sources)] for seq, sources in self._sources.items()],
        }

    def restore(self, state: Any) -> None:
        """Take on the nodes and replacements of a state."""
        self._surface = Surface.restore(state["nodes"], next_seq=state["next_seq"], generation=state["generation"])
        self._replaced = {seq: tuple(shadowed) for seq, shadowed in state["replaced"]}
        self._sources = {seq: tuple(sources) for seq, sources in state["sources"]}
        self._replaced_by = {node: seq for seq, shadowed in self._replaced.items() for node in shadowed}

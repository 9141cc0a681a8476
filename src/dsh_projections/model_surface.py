"""The model's reader: the messages to send, which are the current surface and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_projections.projection import SURFACE_TOPICS
from dsh_session import EventNotFoundError, SessionEvent, Surface, derive_message, is_surface_event

if TYPE_CHECKING:
    from collections.abc import Iterable


class ModelSurface:
    """The messages that the model is sent, in surface order.

    Memory: the events of the current nodes.
    """

    version = 1
    topics: frozenset[str] | None = SURFACE_TOPICS

    def __init__(self) -> None:
        self._surface = Surface()

    @classmethod
    def as_of(cls, events: Iterable[SessionEvent], seq: int) -> ModelSurface:
        """Return the surface as it was when the event at ``seq`` was the newest: exactly what the model was sent then.

        Args:
            events: a log in seq order, from its start; nothing after ``seq`` is read.
            seq: an int >= 0.

        Raises:
            EventNotFoundError: the log has no event at ``seq``; it is a LookupError.

        Cost: O(events up to ``seq``).
        """
        if type(seq) is not int or seq < 0:
            raise EventNotFoundError(seq, None)
        surface = cls()
        newest: int | None = None
        for event in events:
            if event.seq > seq:
                break
            surface.apply(event)
            newest = event.seq
        if newest != seq:
            raise EventNotFoundError(seq, 0 if newest is None else newest + 1)
        return surface

    @property
    def nodes(self) -> tuple[int, ...]:
        """The seqs of the nodes, in surface order.

        Cost: O(nodes).
        """
        return self._surface.nodes

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event; only surface events change anything. Cost: O(1 + nodes shadowed + provenance).

        Raises:
            InvalidSurfaceError: the event does not fit the surface.
        """
        if is_surface_event(event):
            self._surface.skip_to(event.seq)
            self._surface.take(event)

    def events(self) -> list[SessionEvent]:
        """Return the nodes' events, in surface order. Cost: O(nodes)."""
        return self._surface.events()

    def messages(self) -> list[Any]:
        """Return the messages to send, fresh plain dicts. Cost: O(size of the nodes' events)."""
        derived = map(derive_message, self.events())
        return [message for message in derived if message is not None]

    def view(self) -> list[Any]:
        """Return `messages`."""
        return self.messages()

    def state(self) -> Any:
        """Return the nodes with their events."""
        return {
            "next_seq": self._surface.next_seq,
            "generation": self._surface.generation,
            "nodes": [[event.session_id, event.to_wire()] for event in self._surface.events()],
        }

    def restore(self, state: Any) -> None:
        """Take on the nodes of a state."""
        read = [SessionEvent.from_wire(wire, session_id) for session_id, wire in state["nodes"]]
        events = {event.seq: event for event in read}
        self._surface = Surface.restore(
            events,
            next_seq=state["next_seq"],
            generation=state["generation"],
            fetch=lambda seqs: [events[seq] for seq in seqs],
        )

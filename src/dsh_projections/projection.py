"""What a projection is, and how one is run over a log.

A projection is a reader of the log: it takes in events one at a time and has a view. Live, event by event, or
replayed from the start, or from a stored state of its own, it comes to the same view; that is the first law of
`dsh_projections.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from dsh_session import SURFACE_EVENT_TYPES, topics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_session import SessionEvent

APPEND_TOPICS: Final = topics("append", SURFACE_EVENT_TYPES)
"""The topics of the conversation: every append-origin event."""

SURFACE_TOPICS: Final = APPEND_TOPICS | topics("replace", SURFACE_EVENT_TYPES)
"""The topics of every event that is or was a node of the surface."""

View_co = TypeVar("View_co", covariant=True)
P = TypeVar("P", bound="Projection[Any]")


class Projection(Protocol[View_co]):
    """A reader of one session's log.

    What an implementation owes:

    - ``apply`` decides from the event alone, by its marker and type, whether the event is its own; it passes over all
      others, known or not, and costs the event, not the log;
    - ``view`` follows from the events applied and nothing else: no clock, no randomness, no id of its own making;
    - ``restore(state())`` of the same ``version`` gives a projection that goes on as if it had never stopped.

    ``version`` and ``topics`` may be plain attributes of the class.
    """

    @property
    def version(self) -> int:
        """Of the shape of the state; a stored state of another version is thrown away and built anew."""
        ...

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics that the projection takes notice of, so that a store can leave out the rest; None for all.

        `dsh_session.topic_of` names them.
        """
        ...

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event of the log."""
        ...

    def view(self) -> View_co:
        """Return what the reader sees."""
        ...

    def state(self) -> Any:
        """Return everything that the next ``apply`` depends on, as a lossless JSON value."""
        ...

    def restore(self, state: Any) -> None:
        """Take on a state that ``state`` gave. The projection has applied nothing before."""
        ...


def replay(projection: P, events: Iterable[SessionEvent]) -> P:
    """Apply events to a projection, in seq order, and return it."""
    for event in events:
        projection.apply(event)
    return projection

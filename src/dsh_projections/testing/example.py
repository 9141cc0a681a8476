"""Examples of views: given a log, when events happen, then a projection shows this, whichever way it came there.

What comes of a *command* that is run on a session is stated with `dsh_session.testing.given`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dsh_projections.projection import replay
from dsh_projections.testing.laws import check_projection_laws
from dsh_session.testing.assertions import expect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_projections.projection import Projection
    from dsh_session import SessionEvent


@attrs.frozen
class Example:
    """A projection and what it is shown; `given` begins one.

    Attributes:
        make: makes the projection.
        events: what has happened so far.
    """

    make: Callable[[], Projection[Any]]
    events: tuple[SessionEvent, ...]

    def when(self, *events: SessionEvent) -> Example:
        """Return the example in which these events happen next."""
        return Example(self.make, (*self.events, *events))

    def then(self, expected: Any, seen: Callable[[Any], Any] = lambda view: view) -> None:
        """Check what the projection shows, and that it keeps the laws of `check_projection_laws` on this log.

        Args:
            expected: what is to be seen.
            seen: picks out of the view what the example is about; by default, all of it.

        Raises:
            AssertionError: it shows something else, or not the same whichever way it came there.
        """
        check_projection_laws(self.make, self.events)
        expect(expected, seen(replay(self.make(), self.events).view()), "what is seen")


def given(make: Callable[[], Projection[Any]], events: Sequence[SessionEvent] = ()) -> Example:
    """Begin an example: a projection that is shown a log.

    Args:
        make: makes the projection.
        events: the log, in seq order from 0; `dsh_session.testing.LogBuilder` writes one.
    """
    return Example(make, tuple(events))

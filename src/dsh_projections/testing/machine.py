"""A state machine: a session goes on while its reader is stopped, restarted, and crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dsh_compact.testing import session_moves
from dsh_projections.projection import replay
from dsh_session import lossless_json, topic_of
from dsh_session.testing import LogBuilder
from dsh_session.testing.assertions import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from dsh_projections.projection import Projection
    from dsh_session.testing import Move


def projection_machine(
    make: Callable[[], Projection[Any]], moves: SearchStrategy[Move] | None = None
) -> type[RuleBasedStateMachine]:
    """Make a Hypothesis state machine for a projection, whose ``TestCase`` pytest and unittest run.

    A session goes on. Its reader is told of every event, and now and then keeps its state. It crashes: what it has
    learnt since is lost, and it catches up from the kept state with the events of its topics. At any time it must show
    what a fresh replay of the log shows.

    Args:
        make: makes the projection.
        moves: what may happen to the session; `session_moves` when None. Join yours to them with ``|``.
    """

    class ProjectionMachine(RuleBasedStateMachine):
        """A session, and its reader."""

        def __init__(self) -> None:
            super().__init__()
            self.log = LogBuilder()
            self.reader = make()
            self.keep()

        @rule(move=session_moves() if moves is None else moves)
        def go_on(self, move: Move) -> None:
            """Let something happen, of which the reader is told."""
            known = len(self.log.events)
            move(self.log)
            replay(self.reader, self.log.events[known:])

        @rule()
        def keep(self) -> None:
            """Keep the reader's state, and up to where it has read."""
            self.position = len(self.log.events)
            self.state = lossless_json.encode(self.reader.state())

        @rule()
        def crash(self) -> None:
            """Go on from the kept state, with what was missed since."""
            self.reader = make()
            self.reader.restore(lossless_json.decode(self.state))
            topics = self.reader.topics
            missed = self.log.events[self.position :]
            replay(self.reader, [event for event in missed if topics is None or topic_of(event) in topics])

        @invariant()
        def shows_what_a_replay_shows(self) -> None:
            """Compare the reader with one that has read the whole log."""
            expect(replay(make(), self.log.events).view(), self.reader.view(), "what the reader shows")

    return ProjectionMachine

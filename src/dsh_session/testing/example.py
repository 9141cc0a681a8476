"""Examples of commands: given a log, when a command is run on its session, then these events come out, or this error.

What a *reader* shows of a log is stated with `dsh_projections.testing.given`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import msgspec

from dsh_session.event import SessionEvent, topic_of
from dsh_session.testing.assertions import expect, hold
from dsh_session.testing.builder import session_of
from dsh_session.testing.oracles import naive_surface
from dsh_session.testing.show import show_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsh_session.session import Session

Command: TypeAlias = "Callable[[Session], object]"
"""What is done to a session: it appends, replaces, compacts, prunes, or is refused. What it returns is passed over."""

Outcome: TypeAlias = SessionEvent | str | type[BaseException] | BaseException
"""One thing that comes of a command: an event, or the topic of one as `topic_of` names it, or at last an error."""


@attrs.frozen
class Given:
    """A log; `given` gives it."""

    events: tuple[SessionEvent, ...]

    def when(self, command: Command) -> When:
        """Return the example in which a command is run on a session that has the log."""
        return When(self.events, command)


@attrs.frozen
class When:
    """A log and a command; `Given.when` gives it."""

    events: tuple[SessionEvent, ...]
    command: Command

    def then(self, *outcome: Outcome) -> None:
        """Run the command, and check all that comes of it.

        Args:
            outcome: the events that the command appends, in order, each as an event, which it equals but for its
                session and time, or as its topic, such as ``"log:compact/start"``. Last, where the command is to raise,
                the error: its class, or one of the same class and message. So ``then(SomeError)`` says that the command
                was refused and that log, surface and state are what they were; ``then()``, that nothing came of it.

        Raises:
            AssertionError: something else came of it, the log that was there changed, or the surface is not what a
                naive fold finds.
        """
        *expected, error = outcome if outcome and isinstance(outcome[-1], _ERRORS) else (*outcome, None)
        session = session_of(self.events)
        before, state = session.pending, session.state()
        try:
            self.command(session)
        except BaseException as raised:
            if error is None:
                raise
            if not _is_as_said(error, raised):
                raise AssertionError(f"expected {error!r}, but {raised!r} was raised") from raised
        else:
            hold(error is None, f"expected {error!r}, but nothing was raised")
        log = session.pending
        written = log[len(before) :]
        expect(before, log[: len(before)], "the log that was given")
        is_equal = len(expected) == len(written) and all(map(_is_as_said, expected, written))
        hold(is_equal, f"expected {expected!r}, but these events came out:\n{show_log(written)}")
        hold(bool(written) or state == session.state(), "nothing came out, and yet the state changed")
        expect(naive_surface(log).nodes, session.surface.nodes, "the surface, against a naive fold")


def given(events: Sequence[SessionEvent] = ()) -> Given:
    """Begin an example of a command: a session that has a log.

    Args:
        events: the log, in seq order from 0; `LogBuilder` writes one.
    """
    return Given(tuple(events))


def _is_as_said(said: Outcome | None, found: SessionEvent | BaseException) -> bool:
    match said, found:
        case str(), SessionEvent():
            return said == topic_of(found)
        case SessionEvent(), SessionEvent():
            return said == msgspec.structs.replace(found, session_id=said.session_id, time=said.time)
        case type(), _:
            return isinstance(found, said)
        case _:
            return type(said) is type(found) and str(said) == str(found)


_ERRORS: Final = (type, BaseException)

"""A log written by hand: for examples, for moves, for logs that are wrong on purpose, and a session that has one."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from dsh_session import lossless_json
from dsh_session.event import Replace, SessionEvent
from dsh_session.header import SessionHeader
from dsh_session.session import Session
from dsh_session.testing.oracles import naive_surface

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_session.event import SurfaceOp


class LogBuilder:
    """A log that is written event by event and checked by nobody, so that it can also be made wrong.

    Times step back and repeat, as those of clocks do.

    Attributes:
        events: the log so far.
    """

    def __init__(self) -> None:
        self.events: list[SessionEvent] = []

    @property
    def nodes(self) -> tuple[int, ...]:
        """The seqs on the surface, in surface order, by the naive fold."""
        return naive_surface(self.events).nodes

    def append(
        self,
        type: str,  # noqa: A002 - the name that an event's type has everywhere
        data: Any,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: Sequence[int] | None = None,
        *,
        ignorable: bool = False,
    ) -> SessionEvent:
        """Append one event, from the arguments that `Session.append` takes."""
        seq = len(self.events)
        time = 1_700_000_000_000 + seq // 2 * 3 % 5
        sources = None if source_event_seqs is None else tuple(source_event_seqs)
        event = SessionEvent("", seq, time, type, lossless_json.encode(data), surface_op, sources, ignorable)
        self.events.append(event)
        return event

    def replace(
        self,
        type: str,  # noqa: A002 - the name that an event's type has everywhere
        data: Any,
        start: int,
        end: int,
    ) -> SessionEvent:
        """Append a replacement of the nodes from ``start`` to ``end``, which cites exactly these."""
        nodes = self.nodes
        shadowed = nodes[nodes.index(start) : nodes.index(end) + 1]
        return self.append(type, data, Replace(start, end), shadowed)


def session_of(events: Iterable[SessionEvent]) -> Session:
    """Make a session in memory that has a log, as its pending events, and a clock that gives each time once.

    Args:
        events: a valid log, in seq order from 0.
    """
    session = Session(SessionHeader(id="s", created_at=0), clock=partial(next, count(1)))
    for event in events:
        session.append_event(event)
    return session

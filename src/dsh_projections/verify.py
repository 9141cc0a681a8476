"""A full check of a log, as a store or a file holds it: nothing that was checked once is trusted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import attrs

from dsh_compact import BracketError, ToolPairing, check_brackets
from dsh_session import InvalidEventError, NotJSONError, Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsh_session import SessionEvent, SessionHeader


@attrs.frozen
class LogReport:
    """What a full check found.

    Attributes:
        session_id: the session.
        events: how many events hold together, from the first on.
        nodes: how many of them are on the surface.
        generation: how many replacements landed.
        problem: why the log does not go on from there, or None when all of it is sound.
        warnings: what is odd and stands in nobody's way.
    """

    session_id: str
    events: int
    nodes: int
    generation: int
    problem: str | None
    warnings: tuple[str, ...]


def verify_log(header: SessionHeader, events: Iterable[SessionEvent]) -> LogReport:
    """Check every event of a log: its data, its marker, and its place on the surface.

    Compaction brackets out of order, and results that answer no call, are warnings: the readers stand above them.

    Memory: the surface. Cost: O(size of the log).
    """
    session = Session(header)

    def received() -> Iterator[SessionEvent]:
        for event in events:
            session.append_event(event)
            session.forget_pending(1)
            yield event

    problem = None
    warnings = []
    try:
        check_brackets(received(), seed_length=sys.maxsize)
    except InvalidEventError as error:
        problem = str(error)
    except NotJSONError as error:
        problem = f"event at seq {session.next_seq}: the data is not JSON: {error}"
    except BracketError as error:
        warnings.append(str(error))
    pairing = ToolPairing(session.surface_events())
    warnings += (f"the result at seq {seq} answers no call on the surface" for seq in pairing.orphan_results)
    return LogReport(
        header.id,
        session.next_seq,
        len(session.surface),
        session.surface.generation,
        problem,
        tuple(warnings),
    )

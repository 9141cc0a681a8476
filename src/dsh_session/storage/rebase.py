"""A pending event behind what other writers appended: whether it may stand there, and as what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsh_session import lossless_json
from dsh_session.errors import InvalidEventError
from dsh_session.event import Replace, SessionEvent
from dsh_session.vocabulary import COMPACTION_STARTS, compact_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_session.session import Session

_OF_THE_OPEN_ONE: Final = compact_types("summary", "end")
_NAMES_SEQS: Final = compact_types("summary", "prune") | {"session/title"}


def check_lock(event: SessionEvent, session: Session) -> None:
    """Refuse a compaction record that does not fit the lock which the other writers left: an open start is one.

    Raises:
        InvalidEventError: a compaction begins while another is live, or goes on that is no longer the live one.
    """
    lock = session.compaction_start
    if event.type in COMPACTION_STARTS and lock is not None:
        raise InvalidEventError(f"the compaction that started at seq {lock.seq} is live", rule="compaction-live")
    if event.type in _OF_THE_OPEN_ONE and (lock is None or _compaction_id(event) != _compaction_id(lock)):
        raise InvalidEventError(
            f"the compaction {_compaction_id(event)!r} of this {event.type} is no longer live", rule="compaction-stale"
        )


def _compaction_id(event: SessionEvent) -> Any:
    match event.data:
        case {"compactionId": compaction_id}:
            return compaction_id
        case _:
            return None


def renumbered(event: SessionEvent, first: int, by: int) -> SessionEvent:
    """Return a pending event with a new seq, and so with every seq at or above ``first`` that it names.

    These stand in its marker, in its provenance, and inside compaction records and titles.

    Args:
        event: one of a session's pending events.
        first: the seq of the first of them.
        by: how many events others appended.

    Cost: O(provenance); O(size of the data) for a record that names seqs.
    """

    def move(seq: Any) -> Any:
        return seq + by if type(seq) is int and seq >= first else seq

    marker = event.surface_op
    if isinstance(marker, Replace):
        marker = Replace(move(marker.start), move(marker.end))
    sources = None if event.source_event_seqs is None else tuple(map(move, event.source_event_seqs))
    return SessionEvent(
        event.session_id,
        event.seq + by,
        event.time,
        event.type,
        _moved_data(event, move),
        marker,
        sources,
        event.ignorable,
    )


def _moved_data(event: SessionEvent, move: Callable[[Any], Any]) -> bytes:
    """Move the seqs that the data of known records holds; data that is of no known shape is kept as it is."""
    data = event.data if event.type in _NAMES_SEQS else None
    if not isinstance(data, dict):
        return event.encoded_data
    for key, held in data.items():
        match key, held:
            case (("shadowedSeqs" | "messageSeqs"), list()):
                data[key] = [*map(move, held)]
            case "shadowedRange", dict():
                data[key] = {end: move(seq) for end, seq in held.items()}
            case _:
                pass
    return lossless_json.encode(data)

"""Closing events for a log that a crash cut short inside a turn.

A model whose calls have no results is refused by its provider for ever. So before such a log is used again, each call
gets an error result that says what is known of it, and the open step and turn are ended. The repair depends on the
log alone, takes its time from the last event, and finds nothing to do in a log that it has repaired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_session.open_turn import OpenTurn
from dsh_session.vocabulary import TURN_EVENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_session.event import SessionEvent


def interrupted_turn_closers(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return the events that close a log which a crash cut short inside a turn.

    Args:
        events: the whole log, in seq order.

    Returns:
        For each call without a result an error ``tool/result`` (``TOOL_OUTCOME_UNKNOWN`` when its start was recorded,
        ``TOOL_NOT_STARTED`` when it was not), then the open ``step/end``, then a ``turn/end`` with reason
        ``interrupted``; an empty list for a log that ends between turns.

    Cost: O(events); only events that open or close something are decoded.
    """
    open_turn = OpenTurn()
    last = None
    for event in events:
        last = event
        if event.type in TURN_EVENT_TYPES:
            open_turn.apply(event.type, event.seq, event.data)
    return [] if last is None else open_turn.repair_events(last.session_id, last.seq + 1, last.time)

"""Tool-call balance: where the surface may be cut without parting a call from its result.

In surface order an assistant message opens one call for each of its tool-call blocks, and a tool result closes the
call that has its id. A cut is balanced when no call is open across it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dsh_compact.errors import UnknownNodeError
from dsh_session import message_of, tool_calls_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_session import SessionEvent


class NodeCalls(NamedTuple):
    """What one node does to the calls that are open.

    Attributes:
        opened: the ids of the calls that it asks for, in order.
        closed: the id of the call that it answers, or None.
    """

    opened: Sequence[str] = ()
    closed: str | None = None


NO_CALLS: Final = NodeCalls()
"""What a node does that has to do with no call."""


def node_calls(event_type: str, message: Any) -> NodeCalls:
    """Return what a node does to the calls that are open.

    Args:
        event_type: the type of its event.
        message: the message inside.

    Cost: O(content blocks).
    """
    if event_type == "assistant/message":
        opened = [call["id"] for call in tool_calls_of(message)]
        return NodeCalls(opened) if opened else NO_CALLS
    return NodeCalls(closed=message["source"]["callId"]) if event_type == "tool/result" else NO_CALLS


class ToolPairing:
    """The balance at every cut of one surface.

    An id that was asked for n times is open until it has n results. A result whose id is not open opens and closes
    nothing, so a damaged log never makes a query fail nor stands in the way of a compaction.

    Args:
        surface_events: the surface's events, in surface order. After a replacement has landed, make a new pairing.

    Cost: O(size of the surface's events) once, then `append` alone.
    """

    def __init__(self, surface_events: Iterable[SessionEvent]) -> None:
        self._positions: dict[int, int] = {}
        self._is_balanced = [True]
        self._open: dict[str, list[int]] = {}
        self._orphans: list[int] = []
        for event in surface_events:
            self.append(event)

    def append(self, event: SessionEvent) -> None:
        """Take in the event of a new node at the tail. Cost: O(size of its data)."""
        self.add(event.seq, node_calls(event.type, message_of(event.type, event.data)))

    def add(self, seq: int, calls: NodeCalls) -> None:
        """Take in a new node at the tail whose calls are known already. Cost: O(its calls)."""
        for call_id in calls.opened:
            self._open.setdefault(call_id, []).append(seq)
        if calls.closed is not None:
            self._close(calls.closed, seq)
        self._positions[seq] = len(self._positions)
        self._is_balanced.append(not self._open)

    def balanced_before(self, seq: int) -> bool:
        """Tell whether the cut before a node is balanced.

        Raises:
            UnknownNodeError: ``seq`` is no node; it is a LookupError.

        Cost: O(1).
        """
        return self._is_balanced[self._position(seq)]

    def balanced_after(self, seq: int) -> bool:
        """Tell whether the cut after a node is balanced.

        Raises:
            UnknownNodeError: ``seq`` is no node; it is a LookupError.

        Cost: O(1).
        """
        return self._is_balanced[self._position(seq) + 1]

    @property
    def open_calls(self) -> list[tuple[int, str]]:
        """The calls without a result, as (seq of the message that asked, call id).

        Cost: O(open calls).
        """
        return [(seq, call_id) for call_id, seqs in self._open.items() for seq in seqs]

    @property
    def orphan_results(self) -> list[int]:
        """The seqs of the results that have no open call before them, in surface order."""
        return list(self._orphans)

    def _close(self, call_id: str, seq: int) -> None:
        """Close the newest call of an id: where an id is used again, the older call is the one left unanswered."""
        asked = self._open.get(call_id)
        if asked is None:
            self._orphans.append(seq)
            return
        asked.pop()
        if not asked:
            del self._open[call_id]

    def _position(self, seq: int) -> int:
        try:
            return self._positions[seq]
        except KeyError:
            raise UnknownNodeError(seq) from None

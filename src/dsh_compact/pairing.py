"""Tool-call balance: where the surface may be cut without parting a call from its result.

In surface order an assistant message opens one call for each of its tool-call blocks, and a tool result closes the
call that has its id. A cut is balanced when no call is open across it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_compact.errors import UnknownNodeError
from dsh_session import message_of, tool_calls_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_session import SessionEvent


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
        if event.type == "assistant/message":
            for call in tool_calls_of(message_of(event.type, event.data)):
                self._open.setdefault(call["id"], []).append(event.seq)
        elif event.type == "tool/result":
            self._close(message_of(event.type, event.data)["source"]["callId"], event.seq)
        self._positions[event.seq] = len(self._positions)
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
        """The calls without a result: the seq of the message that asked, and the call's id. Cost: O(open calls)."""
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

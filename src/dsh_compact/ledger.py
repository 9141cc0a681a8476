"""What compaction knows of a surface: the price and the tool calls of each node, read once and kept up."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from dsh_compact.pairing import NO_CALLS, ToolPairing, node_calls
from dsh_session import derive_message

if TYPE_CHECKING:
    from dsh_compact.meter import Meter
    from dsh_compact.pairing import NodeCalls
    from dsh_session import SessionEvent, Surface


class SurfaceLedger:
    """The prices and the tool-call balance of one surface.

    A node never changes, so each is decoded and priced once in its life on the surface, whoever asks: `of` keeps the
    ledger for as long as the surface lives.

    Attributes:
        meter: what prices the messages.
        tokens: the price of each node by its seq, in surface order; a node that sends nothing costs nothing.
        total: what all nodes cost together.
        pairing: the balance at every cut.
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._generation = 0
        self._calls: dict[int, NodeCalls] = {}
        self._clear()

    @classmethod
    def of(cls, surface: Surface, meter: Meter) -> SurfaceLedger:
        """Return the ledger of a surface, brought up to date.

        Cost: O(size of the new nodes' events); after a replacement O(nodes) as well.
        """
        ledger = _LEDGERS.get(surface)
        if ledger is None or ledger.meter != meter:
            ledger = _LEDGERS[surface] = cls(meter)
        ledger._follow(surface)
        return ledger

    def _clear(self) -> None:
        self.tokens: dict[int, int] = {}
        self.total = 0
        self.pairing = ToolPairing(())

    def _follow(self, surface: Surface) -> None:
        """Take in what is new. As long as no replacement lands, that is at the tail, behind the last known node."""
        known = self.tokens
        if surface.generation != self._generation:
            self._generation = surface.generation
            self._clear()
        arrived = list(takewhile(lambda seq: seq not in self.tokens, reversed(surface)))
        calls = self._calls
        for event in surface.events(reversed(arrived)):
            seq = event.seq
            tokens = known.get(seq)
            if tokens is None:
                tokens = self._read(event)
            self.tokens[seq] = tokens
            self.total += tokens
            self.pairing.add(seq, calls.get(seq, NO_CALLS))

    def _read(self, event: SessionEvent) -> int:
        """Return the price of a node that is seen for the first time, and note its calls."""
        message = derive_message(event)
        if message is None:
            return 0
        calls = node_calls(event.type, message)
        if calls is not NO_CALLS:
            self._calls[event.seq] = calls
        return self.meter.estimate_message(message)


_LEDGERS: Final[WeakKeyDictionary[Surface, SurfaceLedger]] = WeakKeyDictionary()

"""Which range of the surface to compact: everything up to what must be kept, cut where no tool call is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_compact.errors import InvalidArgumentError
from dsh_compact.pairing import ToolPairing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_session import SessionEvent


def select_compactable_range(
    surface_events: Iterable[SessionEvent], tokens: Sequence[int], retain_tokens: int
) -> tuple[int, int] | None:
    """Choose the range to compact, from the head of the surface.

    The newest nodes whose tokens reach ``retain_tokens`` are kept, and at least the newest one. From there the cut
    moves towards the head until no tool call is open across it.

    Args:
        surface_events: the surface's events, in surface order.
        tokens: the price of each node, in the same order.
        retain_tokens: how much to keep at the tail.

    Returns:
        The first and the last node of the range, or None when there is nothing to compact: everything is to be kept,
        or no cut is balanced.

    Raises:
        InvalidArgumentError: there is not one price a node, or a price or ``retain_tokens`` is no int >= 0.

    Cost: O(nodes); the events are decoded only when there is something to cut off.
    """
    events = list(surface_events)
    if len(tokens) != len(events):
        raise InvalidArgumentError("tokens", f"{len(tokens)} prices for {len(events)} nodes; each node has one")
    for price in tokens:
        _check_tokens("tokens", price)
    _check_tokens("retain_tokens", retain_tokens)
    cut = retained_tail(tokens, retain_tokens)
    if cut:
        nodes = [event.seq for event in events]
        cut = balanced_cut(nodes, cut, ToolPairing(events[: cut + 1]))
    return (events[0].seq, events[cut - 1].seq) if cut else None


def retained_tail(tokens: Sequence[int], retain_tokens: int) -> int:
    """Return where the tail to keep begins, as a position in the surface; 0 keeps everything.

    Args:
        tokens: the price of each node, in surface order.
        retain_tokens: what the tail's prices reach together; the newest node is in it, whatever it costs.

    Cost: O(nodes of the tail).
    """
    cut = max(len(tokens) - 1, 0)
    kept = sum(tokens[cut:])
    while cut > 0 and kept < retain_tokens:
        cut -= 1
        kept += tokens[cut]
    return cut


def balanced_cut(nodes: Sequence[int], cut: int, pairing: ToolPairing) -> int:
    """Move a cut towards the head until no tool call is open across it, at the latest to the head, where none can be.

    Args:
        nodes: the seqs in surface order.
        cut: the position of the node that the cut is before.
        pairing: the balance of the nodes up to that one, at least.

    Cost: O(nodes passed).
    """
    while not pairing.balanced_before(nodes[cut]):
        cut -= 1
    return cut


def _check_tokens(argument: str, value: Any) -> None:
    if type(value) is not int or value < 0:
        raise InvalidArgumentError(argument, f"{value!r} found; a number of tokens is an int >= 0")

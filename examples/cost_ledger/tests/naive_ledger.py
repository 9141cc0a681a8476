"""The ledger by looking at the whole log at once, in whole billionths."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from session_cost_ledger import Ledger, Line, Model, Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_session import SessionEvent

KINDS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
THOUSANDTHS = {("example", "large"): (2500, 10_000, 250, 3125), ("example", "small"): (100, 400, 100, 100)}
"""What a million tokens of each kind cost, by model, in thousandths; other models have no price."""


def naive_ledger(events: Sequence[SessionEvent]) -> Ledger:
    """Group what is paid for by turn and model, and price each group."""
    paid = [event for event in events if _is_paid(event)]
    places = [(_turn_of(events, event), _model_of(events, event)) for event in paid]
    lines = []
    for turn, model in dict.fromkeys(places):
        of_place = [event for event, place in zip(paid, places, strict=True) if place == (turn, model)]
        counts = [sum(_count(event, kind) for event in of_place) for kind in KINDS]
        cost = None
        if model in THOUSANDTHS:
            billionths = sum(price * count for price, count in zip(THOUSANDTHS[model], counts, strict=True))
            cost = Decimal(f"{billionths}e-9")
        lines.append(Line(turn, Model(*model), Tokens(*counts), cost))
    return Ledger(tuple(lines))


def _is_paid(event: SessionEvent) -> bool:
    is_answer = event.type == "assistant/message" and event.to_wire()["surfaceOp"] == "append"
    is_summary = event.type in ("compact/summary", "compaction/summary")
    return (is_answer or is_summary) and isinstance(event.data, dict) and isinstance(event.data.get("usage"), dict)


def _turn_of(events: Sequence[SessionEvent], event: SessionEvent) -> int | None:
    boundaries = [before for before in events[: event.seq] if before.type in ("turn/start", "turn/end")]
    said_in = event if event.type == "assistant/message" else (boundaries or [event])[-1]
    turn: int | None = said_in.data["turn"] if said_in.type in ("assistant/message", "turn/start") else None
    return turn


def _model_of(events: Sequence[SessionEvent], event: SessionEvent) -> tuple[str, str]:
    route: Any = event.data
    if event.type == "assistant/message":
        asked = [before.data["header"]["config"] for before in events[: event.seq] if before.type == "request/header"]
        is_flat = "message" not in event.data
        route = [{}, *asked][-1] if is_flat else event.data["message"]["source"]
    return route.get("provider", "unknown"), route.get("model", "unknown")


def _count(event: SessionEvent, kind: str) -> int:
    count = event.data["usage"].get(kind)
    return count if type(count) is int and count >= 0 else 0

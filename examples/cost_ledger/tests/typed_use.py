"""A use of the package by a program that is type-checked; nobody runs it."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, assert_type

from dsh_projections import TrackedProjection, follow, replay
from session_cost_ledger import Bill, CostLedger, Ledger, Model, Price, Prices

if TYPE_CHECKING:
    from dsh_session import SessionStore

PRICES: Prices = {Model("example", "example-large"): Price(input=Decimal("2.50"), output=Decimal(10))}


def print_costs(store: SessionStore, session_id: str) -> None:
    """Show what one session cost, what all of them cost, and what one costs while it goes on."""
    ledger = replay(CostLedger(PRICES), store.log(session_id)).view()
    assert_type(ledger, Ledger)
    assert_type(ledger.by_turn(), dict[int | None, Bill])

    costs = TrackedProjection(store, "costs", partial(CostLedger, PRICES))
    assert_type(costs, TrackedProjection[Ledger])
    costs.catch_up()
    money = sum((view.total.cost for _, view in costs.views()), Decimal(0))

    for live in follow(store, CostLedger(PRICES), session_id):
        assert_type(live, CostLedger)
        print(live.view().total.cost, money)

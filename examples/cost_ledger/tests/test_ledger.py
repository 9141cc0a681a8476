"""The ledger keeps the laws of projections, equals its oracle, and pays for what it should."""

from __future__ import annotations

from decimal import Decimal, Inexact
from functools import partial
from typing import Any

import pytest

from dsh_projections.testing import given, projection_test
from dsh_session import APPEND, user_message
from dsh_session.testing import LogBuilder
from naive_ledger import naive_ledger
from paid_moves import answer, answer_flat, ask, paid_logs, summarise
from session_cost_ledger import Bill, CostLedger, Ledger, Line, Model, Price, Tokens

LARGE, SMALL, NEW = Model("example", "large"), Model("example", "small"), Model("example", "new")
PRICES = {
    LARGE: Price(Decimal("2.50"), Decimal(10), cache_read=Decimal("0.25"), cache_write=Decimal("3.125")),
    SMALL: Price(Decimal("0.1"), Decimal("0.4")),
}
ledger = partial(CostLedger, PRICES)

test_ledger = projection_test(ledger, oracle=naive_ledger, logs=paid_logs())


def test_an_answer_is_paid_for() -> None:
    """Each kind of token has its price, and the sum is exact."""
    log = LogBuilder()
    log.append("turn/start", {"turn": 1})
    usage = {"inputTokens": 3, "outputTokens": 1, "cacheReadTokens": 1, "cacheWriteTokens": 1, "reasoningTokens": 1}

    seen = given(ledger, log.events).when(answer(log, LARGE, usage))

    seen.then(Ledger((Line(1, LARGE, Tokens(3, 1, 1, 1), Decimal("0.000020875")),)))


def test_cached_tokens_without_a_price_cost_what_others_do() -> None:
    """A price without prices for a cache takes the price of input for them."""
    log = LogBuilder()
    usage = {"inputTokens": 1, "cacheReadTokens": 2, "cacheWriteTokens": 3}

    seen = given(ledger).when(answer(log, SMALL, usage))

    seen.then(Decimal("0.0000006"), seen=lambda view: view.total.cost)


def test_a_copy_and_a_compaction_change_no_bill() -> None:
    """What was answered is paid for once, when it is copied for the model and when it is shadowed."""
    log = LogBuilder()
    paid = answer(log, LARGE, {"outputTokens": 10})
    bill = Bill(Tokens(output=10), Decimal("0.0001"), ())

    copied = log.replace("assistant/message", paid.data, paid.seq, paid.seq)
    checkpoint = log.replace("user/message", user_message("what matters"), copied.seq, copied.seq)

    given(ledger, [paid]).when(copied).then(bill, seen=lambda view: view.total)
    given(ledger, [paid]).when(copied, checkpoint).then(bill, seen=lambda view: view.total)


@pytest.mark.parametrize("odd", [None, {}, {"turn": "first"}])
def test_a_turn_without_a_number_is_none(odd: Any) -> None:
    """Boundaries are of the open vocabulary, so their data may be anything."""
    log = LogBuilder()
    log.append("turn/start", {"turn": 1})
    log.append("turn/start", odd)
    summarise(log, "compact", {"usage": {"inputTokens": 1}})

    given(ledger).when(*log.events).then([None], seen=lambda view: [line.turn for line in view.lines])


@pytest.mark.parametrize("spelling", ["compact", "compaction"])
def test_a_summary_is_paid_for_in_the_turn_that_it_is_written_in(spelling: str) -> None:
    """A summary's tokens are those of its own model, in the open turn, or between turns."""
    log = LogBuilder()
    record = {"provider": "example", "model": "small", "usage": {"inputTokens": 10}}

    log.append("turn/start", {"turn": 7})
    summarise(log, spelling, record)
    log.append("turn/end", {"turn": 7})
    summarise(log, spelling, record)

    bill = Bill(Tokens(10), Decimal("0.000001"), ())
    given(ledger).when(*log.events).then({7: bill, None: bill}, seen=lambda view: view.by_turn())


def test_a_model_without_a_price_is_listed() -> None:
    """Its tokens are counted, it is named, and money is the sum of the others."""
    log = LogBuilder()
    answer(log, NEW, {"inputTokens": 5})
    answer(log, SMALL, {"inputTokens": 10})
    answer(log, NEW, {"inputTokens": 5})

    seen = given(ledger).when(*log.events)

    seen.then(Bill(Tokens(20), Decimal("0.000001"), (NEW,)), seen=lambda view: view.total)
    seen.then([NEW, SMALL], seen=lambda view: [*view.by_model()])
    seen.then(Bill(Tokens(10), Decimal(0), (NEW,)), seen=lambda view: view.by_model()[NEW])


def test_an_answer_that_does_not_say_whose_it_is_belongs_to_the_model_that_was_asked() -> None:
    """Early logs keep an answer flat; the request header before it names the model."""
    log = LogBuilder()
    answer_flat(log, {"inputTokens": 1})
    ask(log, SMALL)
    answer_flat(log, {"inputTokens": 1})

    seen = given(ledger).when(*log.events)

    seen.then([Model("unknown", "unknown"), SMALL], seen=lambda view: [line.model for line in view.lines])


def test_an_answer_without_usage_has_no_line() -> None:
    """Nothing was reported, so nothing is known of what it cost."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    answer(log, LARGE, None)

    given(ledger).when(*log.events).then(Ledger())


def test_new_prices_need_no_new_reading() -> None:
    """A state that was kept under other prices is shown at the prices of now."""
    log = LogBuilder()
    before = CostLedger({})
    before.apply(answer(log, SMALL, {"inputTokens": 1_000_000}))

    after = ledger()
    after.restore(before.state())

    assert (before.view().total.unpriced, after.view().total.cost) == ((SMALL,), Decimal("0.1"))


@pytest.mark.parametrize("price", [0.1, Decimal(-1), Decimal("nan"), "1"])
def test_a_price_is_exact_and_not_negative(price: Any) -> None:
    """A float, a negative number, no number and a text are refused, with the field and the value."""
    with pytest.raises(ValueError, match=r"output: .* found; a price is a finite Decimal >= 0"):
        Price(Decimal(1), price)


def test_money_that_would_be_rounded_is_refused() -> None:
    """A price of more digits than can be multiplied exactly raises, and no sum is wrong by a little."""
    price = Price(Decimal("1." + 200 * "3"), Decimal(1))

    with pytest.raises(Inexact):
        price.of(Tokens(7))

"""The ledger: a projection that folds what providers reported by turn and by model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from dsh_session import compact_types, message_of, topic_of, topics
from session_cost_ledger.prices import Model, Tokens, summed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from decimal import Decimal

    from dsh_session import SessionEvent
    from session_cost_ledger.prices import Prices

Key = TypeVar("Key")

_UNKNOWN: Final = Model("unknown", "unknown")
_SUMMARIES: Final = topics("log", compact_types("summary"))


@attrs.frozen
class Line:
    """What one model was used for in one turn.

    Attributes:
        turn: the turn; None between turns, where a compaction that was asked for has its summary written.
        model: the model.
        tokens: what it read and wrote.
        cost: what they cost; None where the model has no price.
    """

    turn: int | None
    model: Model
    tokens: Tokens
    cost: Decimal | None


@attrs.frozen
class Bill:
    """Some lines as one.

    Attributes:
        tokens: of all of them.
        cost: of those that have one.
        unpriced: the models of the others, each once, in the order of their first use.
    """

    tokens: Tokens
    cost: Decimal
    unpriced: tuple[Model, ...]

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Bill:
        """Add lines up."""
        lines = tuple(lines)
        return cls(
            sum((line.tokens for line in lines), Tokens()),
            summed(line.cost for line in lines if line.cost is not None),
            tuple(dict.fromkeys(line.model for line in lines if line.cost is None)),
        )


@attrs.frozen
class Ledger:
    """What a session cost.

    Attributes:
        lines: one for each model in each turn, in the order of their first use.
    """

    lines: tuple[Line, ...] = ()

    @property
    def total(self) -> Bill:
        """The whole session."""
        return Bill.of(self.lines)

    def by_turn(self) -> dict[int | None, Bill]:
        """Return the bill of each turn, and under None of what was used between turns."""
        return self._by(lambda line: line.turn)

    def by_model(self) -> dict[Model, Bill]:
        """Return the bill of each model."""
        return self._by(lambda line: line.model)

    def _by(self, key: Callable[[Line], Key]) -> dict[Key, Bill]:
        grouped: dict[Key, list[Line]] = {}
        for line in self.lines:
            grouped.setdefault(key(line), []).append(line)
        return {name: Bill.of(lines) for name, lines in grouped.items()}


class CostLedger:
    """The ledger of one session.

    What a model answered is paid for once, whatever becomes of it on the surface; a copy of an answer is not paid for.
    So is every summary that a compaction had written, landed or not.

    Args:
        prices: what the models cost. They are no part of the state: where they change, nothing is read again.
    """

    version = 1
    topics: frozenset[str] | None = _SUMMARIES | {
        "append:assistant/message",
        "log:request/header",
        "log:turn/start",
        "log:turn/end",
    }

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._used: dict[tuple[int | None, Model], Tokens] = {}
        self._turn: int | None = None
        self._asked = _UNKNOWN  # the model that requests go to

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event. Cost: O(size of the event)."""
        match topic_of(event):
            case "append:assistant/message":
                data = event.data
                # Flat answers of older logs do not say whose they are.
                model = _model_in(message_of(event.type, data).get("source")) or self._asked
                self._use(data["turn"], model, data)
            case topic if topic in _SUMMARIES:
                self._use(self._turn, _model_in(event.data) or _UNKNOWN, event.data)
            case "log:request/header":
                self._asked = _model_in(event.data["header"].get("config")) or self._asked
            case "log:turn/start":
                self._turn = _turn_in(event.data)
            case "log:turn/end":
                self._turn = None
            case _:
                pass

    def view(self) -> Ledger:
        """Return the ledger at the prices given. Cost: O(turns and models)."""
        return Ledger(
            tuple(
                Line(turn, model, tokens, self._prices[model].of(tokens) if model in self._prices else None)
                for (turn, model), tokens in self._used.items()
            )
        )

    def state(self) -> Any:
        """Return the tokens; counts are texts, since an int of the store has 64 bits and a sum may need more."""
        used = [[turn, *model, *map(str, attrs.astuple(tokens))] for (turn, model), tokens in self._used.items()]
        return {"turn": self._turn, "asked": list(self._asked), "used": used}

    def restore(self, state: Any) -> None:
        """Take on the tokens of a state."""
        self._turn = state["turn"]
        self._asked = Model(*state["asked"])
        self._used = {
            (turn, Model(provider, name)): Tokens(*map(int, counts)) for turn, provider, name, *counts in state["used"]
        }

    def _use(self, turn: int | None, model: Model, data: Any) -> None:
        match data:
            case {"usage": dict() as usage}:
                self._used[turn, model] = self._used.get((turn, model), Tokens()) + Tokens.of(usage)
            case _:
                pass


def _turn_in(value: Any) -> int | None:
    match value:
        case {"turn": int() as turn}:
            return turn
        case _:
            return None


def _model_in(value: Any) -> Model | None:
    match value:
        case {"provider": str() as provider, "model": str() as name}:
            return Model(provider, name)
        case _:
            return None

"""Tokens, and what they cost: exact decimal money."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXACT: Final = Context(prec=200, traps=[Inexact, InvalidOperation])
_MILLIONTH: Final = Decimal("0.000001")


class Model(NamedTuple):
    """A model, as a provider names it."""

    provider: str
    name: str


@attrs.frozen
class Tokens:
    """Tokens of each kind that has a price of its own.

    Attributes:
        input: read afresh.
        output: written, reasoning included.
        cache_read: read from a prompt cache, and not in ``input``.
        cache_write: put into a prompt cache, and not in ``input``.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @classmethod
    def of(cls, usage: dict[str, Any]) -> Tokens:
        """Take the counts that an event reports; what is no count counts for nothing."""
        counts = map(usage.get, ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"))
        return cls(*(count if type(count) is int and count > 0 else 0 for count in counts))

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


def _check_price(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not (isinstance(value, Decimal) and value.is_finite() and value >= 0):
        raise ValueError(f"{attribute.name}: {value!r} found; a price is a finite Decimal >= 0")


@attrs.frozen
class Price:
    """What a million tokens of a model cost, in the one currency of all prices.

    Args:
        input: for tokens that are read afresh.
        output: for tokens that are written.
        cache_read: for tokens that are read from a prompt cache; as ``input`` when None.
        cache_write: for tokens that are put into one; as ``input`` when None.

    Raises:
        ValueError: a price is no finite Decimal >= 0.
    """

    input: Decimal = attrs.field(validator=_check_price)
    output: Decimal = attrs.field(validator=_check_price)
    cache_read: Decimal | None = attrs.field(default=None, validator=attrs.validators.optional(_check_price))
    cache_write: Decimal | None = attrs.field(default=None, validator=attrs.validators.optional(_check_price))

    def of(self, tokens: Tokens) -> Decimal:
        """Return what tokens cost, exactly.

        Raises:
            decimal.Inexact: the price has more digits than 200 can hold a product of.
        """
        cache_read = self.input if self.cache_read is None else self.cache_read
        cache_write = self.input if self.cache_write is None else self.cache_write
        with localcontext(_EXACT):
            return _MILLIONTH * (
                tokens.input * self.input
                + tokens.output * self.output
                + tokens.cache_read * cache_read
                + tokens.cache_write * cache_write
            )


Prices: TypeAlias = Mapping[Model, Price]
"""The prices by model."""


def summed(costs: Iterable[Decimal]) -> Decimal:
    """Add up money, exactly."""
    with localcontext(_EXACT):
        return sum(costs, Decimal(0))

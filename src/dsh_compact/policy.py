"""When to compact, and how much to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from dsh_compact.errors import InvalidArgumentError


def _check_ratio(_: Any, attribute: attrs.Attribute[float], value: Any) -> None:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise InvalidArgumentError(attribute.name, f"{value!r} found; a ratio lies between 0 and 1")


def _check_count(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or value < 0:
        raise InvalidArgumentError(attribute.name, f"{value!r} found; it is an int >= 0")


def _check_window(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or value < 1:
        raise InvalidArgumentError(attribute.name, f"{value!r} found; it is an int >= 1")


@attrs.frozen(kw_only=True)
class CompactionPolicy:
    """When to compact, and how much to keep.

    Attributes:
        threshold_ratio: the part of the context window at which pressure acts.
        threshold_tokens: the same as a number of tokens, which wins where it is given.
        retain_ratio: the part of the context window to keep at the tail.
        retain_tokens: the same as a number of tokens, which wins where it is given.
        compaction_retries: how many attempts may follow the first.
        context_window: the model's window, in tokens, where the log does not say it.

    Raises:
        InvalidArgumentError: a ratio lies outside 0 to 1, or a number is no int >= 0; a window is at least 1.
    """

    threshold_ratio: float = attrs.field(default=0.8, validator=_check_ratio)
    threshold_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(_check_count))
    retain_ratio: float = attrs.field(default=0.16, validator=_check_ratio)
    retain_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(_check_count))
    compaction_retries: int = attrs.field(default=1, validator=_check_count)
    context_window: int | None = attrs.field(default=None, validator=attrs.validators.optional(_check_window))

    def threshold(self, window: int | None) -> int | None:
        """Return the tokens at which pressure acts on a model with this window; None when nothing says it."""
        if self.threshold_tokens is not None:
            return self.threshold_tokens
        return None if window is None else int(self.threshold_ratio * window)

    def retained(self, window: int | None) -> int:
        """Return the tokens to keep at the tail; 0 when nothing says it, which keeps the newest node."""
        if self.retain_tokens is not None:
            return self.retain_tokens
        return 0 if window is None else int(self.retain_ratio * window)


Policies: TypeAlias = Callable[[str | None, str | None], CompactionPolicy]
"""Gives the policy for a provider and a model, which are None before the first request header."""

"""How a law says that it was broken: the two sentences that every `AssertionError` of the laws is made by."""

from __future__ import annotations

from typing import Any


def hold(is_so: bool, otherwise: str) -> None:
    """Raise `AssertionError`, with what is the case otherwise, unless something is so."""
    if not is_so:
        raise AssertionError(otherwise)


def expect(expected: Any, actual: Any, what: str) -> None:
    """Raise `AssertionError`, with both values, unless what was found is what was expected."""
    hold(expected == actual, f"{what}: expected {expected!r}, found {actual!r}")

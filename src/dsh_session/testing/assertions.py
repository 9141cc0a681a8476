"""How a law says that it was broken: the sentences that every `AssertionError` of the laws is made by."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dsh_session.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterator


def hold(is_so: bool, otherwise: str) -> None:
    """Raise `AssertionError`, with what is the case otherwise, unless something is so."""
    if not is_so:
        raise AssertionError(otherwise)


def expect(expected: Any, actual: Any, what: str) -> None:
    """Raise `AssertionError`, with both values, unless what was found is what was expected."""
    hold(expected == actual, f"{what}: expected {expected!r}, found {actual!r}")


@contextmanager
def taken(what: str) -> Iterator[None]:
    """Raise `AssertionError` where something that must be taken is refused within."""
    try:
        yield
    except SessionError as error:
        raise AssertionError(f"{what} was refused: {error!r}") from error


def check_makes(make: Any, law: str, what: str) -> None:
    """Refuse what is given to a law in place of something that makes things.

    Raises:
        TypeError: it cannot be called.
    """
    if not callable(make):
        raise TypeError(f"{law} is given {make!r:.80}; it is a class or function that makes {what}")

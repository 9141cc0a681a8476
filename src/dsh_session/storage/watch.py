"""Waking up when something is saved."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Bell:
    """Rung at every save of one store, for whoever watches it in this process."""

    def __init__(self) -> None:
        self._rung = Condition()
        self._count = 0

    def ring(self) -> None:
        """Wake everybody who waits."""
        with self._rung:
            self._count += 1
            self._rung.notify_all()

    def count(self) -> int:
        """Return how often it was rung."""
        with self._rung:
            return self._count

    def wait_beyond(self, count: int, seconds: float) -> int:
        """Wait until it was rung more often than ``count``, or for some seconds, and return how often it was."""
        with self._rung:
            self._rung.wait_for(lambda: self._count > count, seconds)
            return self._count


class LocalWatch:
    """Watches the saves of this process.

    Args:
        bell: what is rung at each.
    """

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._heard = bell.count()

    def wait(self, seconds: float) -> None:
        """Return when something was saved here, or after some seconds."""
        self._heard = self._bell.wait_beyond(self._heard, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to stop."""

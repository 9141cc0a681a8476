"""Waiting in one process until something is saved."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class SaveSignal:
    """Counts the saves of one store, and wakes the threads that wait for the next one."""

    def __init__(self) -> None:
        self._saved = Condition()
        self._count = 0

    def notify(self) -> None:
        """Count one save, and wake every thread that waits."""
        with self._saved:
            self._count += 1
            self._saved.notify_all()

    def count(self) -> int:
        """Return the number of saves so far."""
        with self._saved:
            return self._count

    def wait_beyond(self, count: int, seconds: float) -> int:
        """Wait until there were more than ``count`` saves, or for ``seconds``, and return their number."""
        with self._saved:
            self._saved.wait_for(lambda: self._count > count, seconds)
            return self._count


class LocalWatch:
    """Watches the saves that this process makes.

    Args:
        signal: the signal that every save notifies.
    """

    def __init__(self, signal: SaveSignal) -> None:
        self._signal = signal
        self._seen = signal.count()

    def wait(self, seconds: float) -> None:
        """Return after the next save of this process, or after ``seconds``."""
        self._seen = self._signal.wait_beyond(self._seen, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: there is nothing to stop."""

"""A process that follows a store with a tracked projection until it is killed: ``killed_runner.py TARGET``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dsh_projections import TrackedProjection, runner
from dsh_session import SessionStore

if TYPE_CHECKING:
    from dsh_session import SessionEvent

BATCH = 3


class Tally:
    """Counts events, and takes each only where it belongs: none twice, and none left out."""

    version = 1
    topics: frozenset[str] | None = None

    def __init__(self) -> None:
        self.count = 0

    def apply(self, event: SessionEvent) -> None:
        if event.seq != self.count:
            raise AssertionError(f"seq {event.seq} where {self.count} is next")
        self.count += 1

    def view(self) -> int:
        return self.count

    def state(self) -> Any:
        return self.count

    def restore(self, state: Any) -> None:
        self.count = state


def main(target: str) -> None:
    """Follow, in small batches, and say when that begins."""
    runner.BATCH = BATCH  # type: ignore[misc] # many transactions are many moments to be killed at
    with SessionStore.open(target) as store:
        tracked = TrackedProjection(store, "tally", Tally)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for _ in tracked.follow(poll_seconds=0.01):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])

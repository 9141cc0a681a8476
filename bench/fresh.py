"""Do one thing to a stored session, in a process that has done nothing else. Usage: fresh.py ACT TARGET ID.

Prints how many seconds the act took, when everything was imported; the most MB that the process held, above what it
held before it had imported anything; and the same above what it held before the act.
"""

from __future__ import annotations

import sys
import time


def megabytes(of: str) -> float:
    """Return what Linux says of this process: VmRSS, what it holds, or VmHWM, the most that it held."""
    if sys.platform != "linux":
        return float("nan")
    with open("/proc/self/status") as status:  # noqa: PTH123 - pathlib would be part of the empty process
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(of))


EMPTY = megabytes("VmRSS")

from typing import TYPE_CHECKING, Any  # noqa: E402 - what is empty is known now

from dsh_session import SessionStore  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[SessionStore, str], Any]


def opening() -> Act:
    """The session is loaded, and the messages for the model are there."""
    return lambda store, session_id: store.load(session_id).messages()


def reading() -> Act:
    """The whole log is read, the data of each event decoded."""

    def read(store: SessionStore, session_id: str) -> None:
        for event in store.log(session_id):
            _ = event.data

    return read


def window() -> Act:
    """The newest entries of the transcript are there."""
    from dsh_projections import TranscriptPager  # noqa: PLC0415 - what a plain reader does not hold

    return lambda store, session_id: TranscriptPager(store.log(session_id)).tail().entries


def first_screen() -> Act:
    """The newest entries of the transcript are text."""
    from io import StringIO  # noqa: PLC0415 - what a plain reader does not hold

    from rich.console import Console  # noqa: PLC0415 - as above

    from dsh_projections.terminal import draw_transcript  # noqa: PLC0415 - as above

    console = Console(file=StringIO(), width=100, highlight=False, markup=False, emoji=False)
    console.print("…")  # the first character that is not ASCII makes Rich import its tables
    entries_of = window()

    def show(store: SessionStore, session_id: str) -> None:
        for drawn in draw_transcript(entries_of(store, session_id)):
            console.print(drawn)

    return show


def main() -> None:
    """Do what is asked."""
    act, target, session_id = sys.argv[1:]
    run = {"open": opening, "read": reading, "window": window, "screen": first_screen}[act]()
    if target.startswith("postgresql://"):
        import dsh_session.storage.postgres  # noqa: F401, PLC0415 - opening such a store imports it
    imported = megabytes("VmRSS")
    start = time.perf_counter()
    with SessionStore.open(target) as store:
        run(store, session_id)
    took = time.perf_counter() - start
    peak = megabytes("VmHWM")
    print(took, peak - EMPTY, peak - imported)


if __name__ == "__main__":
    main()

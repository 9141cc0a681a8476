"""Many processes use one file at once."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from dsh_session import SessionStore, fold_surface

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 8
EVENTS = 12

FIRST_START = """
import sys
from dsh_session import SessionStore
with SessionStore.open(sys.argv[1]) as store:
    store.create(id=sys.argv[2])
"""
APPENDS = """
import sys
from dsh_session import APPEND, Replace, SessionStore, user_message
with SessionStore.open(sys.argv[1]) as store:
    session = store.load("s")
    for number in range(int(sys.argv[3])):
        name = f"{sys.argv[2]} {number}"
        event = session.append("user/message", user_message(name, message_id=name), APPEND)
        if number % 4 == 3:
            short = user_message(name, message_id=name + " short")
            session.append("user/message", short, Replace(event.seq, event.seq), [event.seq])
        store.save(session, on_conflict="rebase")
"""


def run_all(script: str, path: Path, *arguments: str) -> list[str]:
    """Run a script in many processes at once, each with its number, and return what they complain of."""
    processes = [
        subprocess.Popen(  # noqa: S603 - a script of ours
            [sys.executable, "-c", script, path, str(number), *arguments], stderr=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    return [process.communicate()[1] for process in processes]


def test_many_processes_start_on_a_new_file(tmp_path: Path) -> None:
    """Whichever is the first makes the tables, and the others find them."""
    # given
    path = tmp_path / "sessions.db"
    # when
    complaints = run_all(FIRST_START, path)
    # then
    assert complaints == [""] * PROCESSES
    with SessionStore.open(path) as store:
        assert [str(number) for number in range(PROCESSES)] == [header.id for header in store.sessions()]


def test_many_processes_append_to_one_session(tmp_path: Path) -> None:
    """Each event is there once, the log has no gap, each writer's events keep their order, and replacements land."""
    # given
    path = tmp_path / "sessions.db"
    with SessionStore.open(path) as store:
        store.create(id="s")
    # when
    complaints = run_all(APPENDS, path, str(EVENTS))
    # then
    assert complaints == [""] * PROCESSES
    with SessionStore.open(path) as store:
        log = [*store.log("s")]
        assert [*range(len(log))] == [event.seq for event in log]
        for process in range(PROCESSES):
            names = [event.data["id"] for event in log if event.data["id"].startswith(f"{process} ")]
            numbers = [
                (number, short) for number in range(EVENTS) for short in ([False, True] if number % 4 == 3 else [False])
            ]
            assert [f"{process} {number}" + " short" * short for number, short in numbers] == names
        assert fold_surface(log).nodes == store.load("s").surface.nodes
        assert len(store.load("s").surface) == PROCESSES * EVENTS

"""A writer that is killed at any moment loses nothing that was acknowledged to it, and leaves nothing half done."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from dsh_session import Session, SessionStore
from killed_writer import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_session import SessionEvent, SessionHeader

KILLS = int(os.environ.get("DSH_KILLS") or 4)
KILLS_A_SESSION = 4
WRITER = Path(__file__).with_name("killed_writer.py")


def killed_writer(path: Path, session_id: str, chance: random.Random) -> dict[str, tuple[int, str]]:
    """Run a writer, kill it, and return the length and digest that it last knew to be saved, by session."""
    command = [sys.executable, WRITER, path, session_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:  # noqa: S603 - a script of ours
        assert writer.stdout is not None
        lines = []
        if chance.random() < 0.8:  # else it is killed as it starts
            lines.append(writer.stdout.readline())
        sleep(chance.uniform(0, 0.3))
        assert writer.poll() is None
        writer.kill()
        lines += writer.stdout
    words = [line.split() for line in lines if line.endswith("\n")]
    return {saved_id: (int(length), known) for saved_id, length, known in words}


def check_whole(log: Sequence[SessionEvent]) -> None:
    """Check that what is saved in one go is there in one piece."""
    for event in log:
        match event.type:
            case "turn/start":
                rest = [later.type for later in log[event.seq :] if later.type != "assistant/chunk"][:5]
                assert rest == ["turn/start", "step/start", "assistant/message", "step/end", "turn/end"]
            case "compact/start":
                bracket = [later.type for later in log[event.seq : event.seq + 4]]
                assert bracket == ["compact/start", "compact/summary", "user/message", "compact/end"]


def check_log(store: SessionStore, header: SessionHeader, length: int, known: str) -> None:
    """Check a whole log from its first event on, and that it begins with what was acknowledged of it."""
    log = [*store.log(header.id)]
    received = Session(header)
    for event in log:
        received.append_event(event)
    assert received.state() == store.load(header.id).state()
    assert known == digest(log[:length])
    check_whole(log)
    if header.parent_session is not None:
        inherited = [event.to_wire() for event in log[: header.seed_length]]
        assert inherited == [event.to_wire() for event in store.log(header.parent_session)[: header.seed_length]]
        assert [event.type for event in log[header.seed_length :]] == ["session/end-seed"]


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """After each kill every log reads whole, holds what was acknowledged, and can be gone on with."""
    # given
    path = tmp_path / "sessions.db"
    chance = random.Random()  # noqa: S311 - the moments are any
    acknowledged: dict[str, tuple[int, str]] = {}
    checked: set[str] = set()
    for kill in range(KILLS):
        session_id = f"s{kill // KILLS_A_SESSION}"
        # when
        acknowledged |= killed_writer(path, session_id, chance)
        # then
        with SessionStore.open(path) as store:
            headers = {header.id: header for header in store.sessions()}
            assert acknowledged.keys() <= headers.keys()
            for header in headers.values():
                if header.id == session_id or header.id not in checked:
                    check_log(store, header, *acknowledged.get(header.id, (0, digest([]))))
                    checked.add(header.id)
    assert acknowledged

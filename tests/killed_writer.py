"""A process that writes until it is killed, and says what was acknowledged to it: ``killed_writer.py PATH ID``."""

from __future__ import annotations

import random
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

from dsh_session import APPEND, SessionNotFoundError, SessionStore, assistant_message
from stored import compact, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsh_session import Session, SessionEvent


def digest(events: Iterable[SessionEvent]) -> str:
    """Return what tells a log from every other."""
    return sha256(b"\n".join(str(event.to_wire()).encode() for event in events)).hexdigest()


def take_turn(session: Session, chance: random.Random) -> None:
    """Append a turn that is streamed."""
    turn = session.next_seq
    say(session, f"question {turn}")
    session.append("turn/start", {"turn": turn})
    session.append("step/start", {"turn": turn, "step": 1})
    for index in range(chance.randrange(1, 20)):
        session.append("assistant/chunk", {"turn": turn, "step": 1, "chunk": {"type": "text", "text": "x" * index}})
    answer = assistant_message("x" * chance.randrange(5000), turn=turn, step=1, provider="p", model="m")
    session.append("assistant/message", answer, APPEND)
    session.append("step/end", {"turn": turn, "step": 1})
    session.append("turn/end", {"turn": turn, "reason": {"kind": "completed"}})


def acknowledge(session_id: str, log: Sequence[SessionEvent]) -> None:
    """Tell whoever reads along what is durable now."""
    sys.stdout.write(f"{session_id} {len(log)} {digest(log)}\n")
    sys.stdout.flush()


def main(path: str, session_id: str) -> None:
    """Write turns, compactions and forks, one save each."""
    chance = random.Random()  # noqa: S311 - which work it is does not matter
    with SessionStore.open(path) as store:
        try:
            session = store.resume(session_id)
        except SessionNotFoundError:
            session = store.create(id=session_id)
        known = [*store.log(session_id)]
        while True:
            take_turn(session, chance)
            if chance.random() < 0.3:
                nodes = session.surface.nodes
                compact(session, nodes[0], nodes[-2], f"compaction {session.next_seq}")
            known += session.pending
            store.save(session)
            acknowledge(session_id, known)
            if chance.random() < 0.2:
                child = store.fork(session_id)
                acknowledge(child.id, store.log(child.id))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What the tests of stores share: all that a store or a session holds, ways to fill them, and moves of a log."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from itertools import count
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from eventsourcing.persistence import Cipher
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    ConflictError,
    Replace,
    SessionEvent,
    SessionStore,
    assistant_message,
    tool_result_message,
    user_message,
)
from dsh_session.testing import log_moves
from dsh_session.testing.store_laws import fill, owned, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventsourcing.utils import Environment
    from hypothesis.strategies import SearchStrategy

    from dsh_session import Session
    from dsh_session.testing import Move


__all__ = ["fill", "owned", "view"]  # the contract's own, for the tests beside it


def ticking_clock() -> Callable[[], int]:
    """Return a clock that gives each time once."""
    return partial(next, count(1_700_000_000_000))


def dump(store: SessionStore) -> list[Any]:
    """Return every row of a store, those of snapshots included."""
    rows = store._application.recorder.select_notifications(start=1, limit=10**9)
    ids = sorted({str(row.originator_id) for row in rows})
    kept = [
        *rows,
        *(snapshot for session_id in ids for snapshot in store._snapshots.recorder.select_events(session_id)),
    ]
    return [(row.originator_id, row.originator_version, row.topic, bytes(row.state)) for row in kept]


def newest_row(store: SessionStore) -> int | None:
    """Return the number of the newest row of a store: it grows with everything that is written of sessions."""
    return store._application.recorder.max_notification_id()


def say(session: Session, text: str) -> SessionEvent:
    """Append what a user says."""
    return session.append("user/message", user_message(text, message_id=text), APPEND)


def work(session: Session) -> None:
    """Append a turn with a call and its result, seqs 0 to 8 in a new session, and what the user says after it."""
    call = {"type": "tool-call", "id": "c", "name": "run", "arguments": "{}"}
    say(session, "go")
    session.append("turn/start", {"turn": 1})
    session.append("step/start", {"turn": 1, "step": 1})
    answer = assistant_message([call], turn=1, step=1, provider="p", model="m", message_id="a")
    session.append("assistant/message", answer, APPEND, [])
    session.append("tool/call", {"turn": 1, "step": 1, "callId": "c", "name": "run", "arguments": "{}"})
    session.append("tool/result", tool_result_message("c", "done", turn=1, step=1, message_id="r"), APPEND)
    session.append("step/end", {"turn": 1, "step": 1})
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    say(session, "thanks")


def compact(session: Session, start: int, end: int, text: str, *, spelling: str = "compact") -> None:
    """Append a whole compaction of a range of nodes, by hand."""
    nodes = session.surface.nodes
    shadowed = list(nodes[nodes.index(start) : nodes.index(end) + 1])
    started = session.append(f"{spelling}/start", {"compactionId": text, "turn": None})
    record = {"compactionId": text, "summary": [], "shadowedSeqs": shadowed, "shadowedTokenCount": 1}
    summary = session.append(f"{spelling}/summary", record | {"shadowedRange": {"start": start, "end": end}})
    source: Any = {"kind": "plugin", "plugin": "compact", "compactionId": text}
    checkpoint = user_message(text, source=source, message_id=text)
    session.append("user/message", checkpoint, Replace(start, end), [started.seq, summary.seq, *shadowed])
    session.append(f"{spelling}/end", {"compactionId": text, "turn": None})


def moves() -> SearchStrategy[Move]:
    """Give a move of an ordinary log, a compaction's bracket, a seed's end, or a boundary that nobody should write."""
    records: list[tuple[str, Any]] = [
        ("compact/start", {"compactionId": "c", "turn": None}),
        ("compaction/start", {"compactionId": "c", "turn": None}),
        ("compact/end", {"compactionId": "c", "turn": None, "error": "e"}),
        ("compaction/end", {"compactionId": "c", "turn": None, "error": "e"}),
        ("session/end-seed", {}),
        ("turn/start", {"turn": 7}),
        ("turn/start", {}),
        ("turn/end", None),
        ("step/start", {"turn": 7, "step": 9}),
    ]
    return log_moves() | st.sampled_from([methodcaller("append", *record) for record in records])


class SpoiltError(Exception):
    """What `TinyCipher` raises, which is no builtin and nobody's base."""


class KeylessCipher(Cipher):
    """A cipher to which no key is right."""

    def __init__(self, environment: Environment) -> None:
        raise ValueError(f"no key: {environment.get('CIPHER_KEY')}")

    def encrypt(self, plaintext: bytes) -> bytes:
        raise NotImplementedError

    def decrypt(self, ciphertext: bytes) -> bytes:
        raise NotImplementedError


class TinyCipher(Cipher):
    """Ciphers that are good enough to tell keys apart: a keyed stream, behind a check of what it hides."""

    def __init__(self, environment: Environment) -> None:
        self.key = environment.get("CIPHER_KEY", "").encode()

    def _mask(self, text: bytes) -> bytes:
        stream = sha256(self.key).digest() * (len(text) // 32 + 1)
        return bytes(one ^ other for one, other in zip(text, stream, strict=False))

    def encrypt(self, plaintext: bytes) -> bytes:
        return sha256(self.key + plaintext).digest() + self._mask(plaintext)

    def decrypt(self, ciphertext: bytes) -> bytes:
        plaintext = self._mask(ciphertext[32:])
        if ciphertext[:32] != sha256(self.key + plaintext).digest():
            raise SpoiltError
        return plaintext


class LosesOnConflict(SessionStore):
    """Forgets an event that it could not save."""

    def save(self, session: Session, **options: Any) -> int:
        try:
            return super().save(session, **options)
        except ConflictError:
            session.forget_pending(1)
            raise

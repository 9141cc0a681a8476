"""Sessions written in short, for the tests of compaction.

``U`` is what a user says, ``U!`` the same with an image; ``A`` an answer, ``A0`` an empty one, ``A[x,y]`` one that
calls x and y; ``R[x]`` the result of x. ``(`` begins a turn and ``)`` ends it.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from dsh_session import APPEND, Replace, Session, SessionHeader, assistant_message, tool_result_message, user_message
from stored import ticking_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_compact import SummaryRequest
    from dsh_session import SessionEvent

WORDS = "several words that take their place "
IMAGE: Any = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
ROUTE = {"provider": "p", "model": "m"}


def new_session() -> Session:
    """Return a session in memory."""
    return Session(SessionHeader(id="s", created_at=0), clock=ticking_clock())


def play(session: Session, script: str) -> list[int]:
    """Append what a script says, each message long enough to be worth a compaction; return the seqs of its nodes."""
    return [event.seq for word in script.split() for event in _play(session, word) if event.surface_op is not None]


def played(script: str) -> Session:
    """Return a new session in which a script has happened."""
    session = new_session()
    play(session, script)
    return session


def _play(session: Session, word: str) -> list[SessionEvent]:
    seq = session.next_seq
    name = f"{word}@{seq}"
    text: Any = {"type": "text", "text": f"{name}: {WORDS * 9}"}
    place: Any = {"turn": session.open_turn.turn or 0, "step": 1}
    kind = re.match(r"\w0?|\W", word)
    ids = re.findall(r"\w+", word[1:])
    match kind and kind[0]:
        case "(":
            return [session.append("turn/start", {"turn": seq}), session.append("step/start", {"turn": seq, "step": 1})]
        case ")":
            return [session.append("step/end", place), session.append("turn/end", {"turn": place["turn"]})]
        case "U":
            blocks = [IMAGE, text] if word == "U!" else [text]
            return [session.append("user/message", user_message(blocks, message_id=name), APPEND)]
        case "A" | "A0":
            calls: list[Any] = [
                {"type": "tool-call", "id": call_id, "name": "run", "arguments": "{}"} for call_id in ids
            ]
            blocks = [] if word == "A0" else [text, *calls]
            data = assistant_message(blocks, message_id=name, **place, **ROUTE)
            return [session.append("assistant/message", data, APPEND)]
        case "R":
            result = tool_result_message(ids[0], [text], message_id=name, **place)
            return [session.append("tool/result", result, APPEND)]
        case _:
            raise AssertionError(word)


def names(session: Session) -> list[str]:
    """Return the current surface in the words of the script, with C for a checkpoint."""
    return [
        "C" if isinstance(event.surface_op, Replace) else str(_id_of(event)).split("@", maxsplit=1)[0]
        for event in session.surface_events()
    ]


def _id_of(event: SessionEvent) -> Any:
    return event.data.get("message", event.data)["id"]


def types(events: Sequence[SessionEvent]) -> list[str]:
    """Return the types of events."""
    return [event.type for event in events]


def in_short(_: SummaryRequest) -> str:
    """Summarise anything."""
    return "in short"


async def in_short_later(request: SummaryRequest) -> str:
    """Summarise anything, after a while."""
    await asyncio.sleep(0)
    return in_short(request)

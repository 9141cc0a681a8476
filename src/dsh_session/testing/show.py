"""A log as a table that a person can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsh_session.event import Replace, SessionEvent, topic_of
from dsh_session.message import message_of
from dsh_session.vocabulary import SURFACE_EVENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

_GIST: Final = 60  # characters
_HEAD: Final = ("seq", "topic", "replaces", "cites", "gist")


def show_log(events: Iterable[SessionEvent]) -> str:
    """Print a log as a short table, a line an event: seq, topic, what it replaces and cites, and the gist of its data.

    Give it to Hypothesis' ``note``, so that a failing example can be read; `projection_test` and its kin do so.
    """
    rows = [_HEAD, *map(_row, events)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _row(event: SessionEvent) -> tuple[str, ...]:
    marker, sources = event.surface_op, event.source_event_seqs
    replaces = f"{marker.start}..{marker.end}" if isinstance(marker, Replace) else ""
    cites = "" if sources is None else ",".join(map(str, sources)) or "nothing"
    gist = _gist(event)
    gist = gist if len(gist) <= _GIST else f"{gist[: _GIST - 3]}..."
    return str(event.seq), topic_of(event), replaces, cites, gist


def _gist(event: SessionEvent) -> str:
    """Give the blocks of a message, or the data as it is written."""
    if event.type not in SURFACE_EVENT_TYPES:
        return event.encoded_data.decode()
    try:
        message = message_of(event.type, event.data)
        source = message.get("source", {"kind": "?"})
        name = source.get("plugin") or source["kind"]
        return f"{name}: " + " ".join(map(_block_gist, message["content"]))
    except (LookupError, TypeError, AttributeError):
        return event.encoded_data.decode()  # a log may be wrong on purpose


def _block_gist(block: Any) -> str:
    match block:
        case {"type": "text" | "reasoning", "text": text}:
            return ascii(text)
        case {"type": "tool-call", "id": call_id, "name": name}:
            return f"{name}({call_id})"
        case {"type": "tool-result", "toolCallId": call_id, "content": content}:
            return f"{call_id} -> " + " ".join(map(_block_gist, content))
        case _:
            return f"<{block['type']}>"

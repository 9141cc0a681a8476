"""The event types that this library knows, and the topics under which stores keep and projections name events.

The vocabulary is open: a log may hold any other type, which is kept and shown as log-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SURFACE_EVENT_TYPES: Final = frozenset({"user/message", "assistant/message", "tool/result", "steering/message"})
"""The types that produce messages and so carry a marker. The set is closed; the rest of the vocabulary is open."""

TURN_EVENT_TYPES: Final = frozenset(
    {"turn/start", "turn/end", "step/start", "step/end", "assistant/message", "tool/call", "tool/result"}
)
"""The types that open or close a turn, a step or a tool call."""

REQUEST_TYPES: Final = frozenset({"request/header", "request/context"})
"""The types that say what the next request is built with."""

END_SEED: Final = "session/end-seed"
"""Everything before an event of this type came from a fork, a resume or a replay."""

CompactRecord: TypeAlias = Literal["start", "summary", "end", "prune"]
"""What an event of a compaction records."""

COMPACT_RECORDS: Final[Mapping[str, CompactRecord]] = {
    "compact/start": "start",
    "compact/summary": "summary",
    "compact/end": "end",
    "compact/prune": "prune",
    "compaction/start": "start",
    "compaction/summary": "summary",
    "compaction/end": "end",
    "compaction/prune": "prune",
}
"""The event types of compaction, and what each of them records. The later spelling is read and not written."""

Marker: TypeAlias = Literal["append", "replace", "log"]
"""How a topic begins: with the name of the event's marker, or with ``log`` where it has none."""


def compact_types(*records: CompactRecord) -> frozenset[str]:
    """Return the event types, in both spellings, that record the given steps of a compaction."""
    return frozenset(kind for kind, record in COMPACT_RECORDS.items() if record in records)


def topics(marker: Marker, types: Iterable[str]) -> frozenset[str]:
    """Return the topics of events that have one marker and one of several types, such as ``append:user/message``.

    Args:
        marker: ``"append"``, ``"replace"``, or ``"log"`` for events without a marker.
        types: event types.
    """
    return frozenset(f"{marker}:{kind}" for kind in types)


COMPACTION_STARTS: Final = compact_types("start")
"""The types that begin a compaction, and so take its lock."""

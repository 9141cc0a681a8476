"""The marker contract of compaction: how the checkpoint that a compaction lands is made known and recognised.

A checkpoint is known by its message's source, never by its shape. The contract belongs to the seam and not to an
engine, so reading it needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, TypedDict

from dsh_session import is_replacement_surface_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_session import SessionEvent

COMPACT_CHECKPOINT_SOURCE: Final[Mapping[str, str]] = {"kind": "plugin", "plugin": "compact"}
"""What the source of every checkpoint holds; older logs have no more than this."""


class CheckpointSource(TypedDict):
    """The source of a checkpoint's message."""

    kind: Literal["plugin"]
    plugin: Literal["compact"]
    compactionId: NotRequired[str]
    sourceCommandId: NotRequired[str]


def compact_checkpoint_source(compaction_id: str, source_command_id: str | None = None) -> CheckpointSource:
    """Make the source of the checkpoint that a compaction lands.

    Args:
        compaction_id: the attempt that it belongs to, as in its bracket.
        source_command_id: the command that asked for it, if one did.
    """
    source: CheckpointSource = {"kind": "plugin", "plugin": "compact", "compactionId": compaction_id}
    if source_command_id is not None:
        source["sourceCommandId"] = source_command_id
    return source


def is_compact_checkpoint_source(source: Any) -> bool:
    """Tell whether a message's source is that of a checkpoint. Cost: O(1)."""
    return isinstance(source, dict) and COMPACT_CHECKPOINT_SOURCE.items() <= source.items()


def is_compact_checkpoint(event: SessionEvent) -> bool:
    """Tell whether an event is a landed checkpoint: a replacing ``user/message`` with the marker's source.

    A message with that source which was appended is injected context, and no boundary. Cost: O(size of the data).
    """
    return (
        event.type == "user/message"
        and is_replacement_surface_event(event)
        and is_compact_checkpoint_source(event.data.get("source"))
    )

"""Compaction: a range of the surface becomes one checkpoint, in one transaction that is itself in the log."""

from dsh_compact.checkpoint import (
    COMPACT_CHECKPOINT_SOURCE,
    compact_checkpoint_source,
    is_compact_checkpoint,
    is_compact_checkpoint_source,
)

__all__ = [
    "COMPACT_CHECKPOINT_SOURCE",
    "compact_checkpoint_source",
    "is_compact_checkpoint",
    "is_compact_checkpoint_source",
]

"""Compaction: a range of the surface becomes one checkpoint, in one transaction that is itself in the log.

Start from `is_compact_checkpoint`, which recognises what a compaction lands, and `ToolPairing` and
`select_compactable_range`, which say where one may cut. `ToolResultPruner` makes tool results smaller without a model.
"""

from dsh_compact.bracket import COMPACT_RECORDS, Bracket, BracketFold, check_brackets
from dsh_compact.checkpoint import (
    COMPACT_CHECKPOINT_SOURCE,
    compact_checkpoint_source,
    is_compact_checkpoint,
    is_compact_checkpoint_source,
)
from dsh_compact.errors import (
    BracketError,
    CompactionBusyError,
    CompactionError,
    InvalidArgumentError,
    NoProgressError,
    SummaryRejectedError,
    SurfaceChangedError,
    UnknownNodeError,
)
from dsh_compact.meter import Meter, TokenMeter
from dsh_compact.pairing import ToolPairing
from dsh_compact.pruner import PRUNE_MARKER, ToolResultPruner
from dsh_compact.selection import select_compactable_range

__all__ = [
    "COMPACT_CHECKPOINT_SOURCE",
    "COMPACT_RECORDS",
    "PRUNE_MARKER",
    "Bracket",
    "BracketError",
    "BracketFold",
    "CompactionBusyError",
    "CompactionError",
    "InvalidArgumentError",
    "Meter",
    "NoProgressError",
    "SummaryRejectedError",
    "SurfaceChangedError",
    "TokenMeter",
    "ToolPairing",
    "ToolResultPruner",
    "UnknownNodeError",
    "check_brackets",
    "compact_checkpoint_source",
    "is_compact_checkpoint",
    "is_compact_checkpoint_source",
    "select_compactable_range",
]

"""Compaction: a range of the surface becomes one checkpoint, in one transaction that is itself in the log.

Start from `BasicCompactionEngine`, which decides when and what to compact, or from `begin_compaction`, which compacts a
range that you choose. `is_compact_checkpoint` recognises what lands; reading it needs neither.
"""

from dsh_compact.bracket import Bracket, BracketFold, check_brackets
from dsh_compact.checkpoint import (
    COMPACT_CHECKPOINT_SOURCE,
    compact_checkpoint_source,
    is_compact_checkpoint,
    is_compact_checkpoint_source,
)
from dsh_compact.engine import (
    AsyncSummarizer,
    BasicCompactionEngine,
    CompactionEngine,
    EngineReport,
    Summarizer,
    Trigger,
)
from dsh_compact.errors import (
    BracketError,
    CompactionBusyError,
    CompactionClosedError,
    CompactionError,
    ContextWindowUnknownError,
    InvalidArgumentError,
    NoProgressError,
    SummaryRejectedError,
    SurfaceChangedError,
    UnknownNodeError,
)
from dsh_compact.ledger import SurfaceLedger
from dsh_compact.meter import Meter, TokenMeter
from dsh_compact.pairing import ToolPairing
from dsh_compact.policy import CompactionPolicy
from dsh_compact.pruner import PRUNE_MARKER, ToolResultPruner
from dsh_compact.selection import select_compactable_range
from dsh_compact.summary import INSTRUCTION, Summary
from dsh_compact.transaction import Compaction, CompactionResult, SummaryRequest, begin_compaction

__all__ = [
    "COMPACT_CHECKPOINT_SOURCE",
    "INSTRUCTION",
    "PRUNE_MARKER",
    "AsyncSummarizer",
    "BasicCompactionEngine",
    "Bracket",
    "BracketError",
    "BracketFold",
    "Compaction",
    "CompactionBusyError",
    "CompactionClosedError",
    "CompactionEngine",
    "CompactionError",
    "CompactionPolicy",
    "CompactionResult",
    "ContextWindowUnknownError",
    "EngineReport",
    "InvalidArgumentError",
    "Meter",
    "NoProgressError",
    "Summarizer",
    "Summary",
    "SummaryRejectedError",
    "SummaryRequest",
    "SurfaceChangedError",
    "SurfaceLedger",
    "TokenMeter",
    "ToolPairing",
    "ToolResultPruner",
    "Trigger",
    "UnknownNodeError",
    "begin_compaction",
    "check_brackets",
    "compact_checkpoint_source",
    "is_compact_checkpoint",
    "is_compact_checkpoint_source",
    "select_compactable_range",
]

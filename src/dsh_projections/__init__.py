"""Readers of a session: what the model is sent, what the human sees, and more, each on its own.

Start from `HumanTranscript`, `ModelSurface` and `HistoryPager`; `replay` runs a projection over a log, and
`Projection` is what one of your own owes.
"""

from dsh_projections.classifier import EventClassifier
from dsh_projections.history_pager import HistoryPage, HistoryPager, PageCursorError
from dsh_projections.human_transcript import HumanTranscript
from dsh_projections.model_surface import ModelSurface
from dsh_projections.projection import Projection, replay
from dsh_projections.transcript_entry import (
    CompactionEntry,
    ContextEntry,
    MessageEntry,
    ToolEntry,
    TranscriptCall,
    TranscriptEntry,
)

__all__ = [
    "CompactionEntry",
    "ContextEntry",
    "EventClassifier",
    "HistoryPage",
    "HistoryPager",
    "HumanTranscript",
    "MessageEntry",
    "ModelSurface",
    "PageCursorError",
    "Projection",
    "ToolEntry",
    "TranscriptCall",
    "TranscriptEntry",
    "replay",
]

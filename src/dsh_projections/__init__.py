"""Readers of a session: what the model is sent, what the human sees, and more, each on its own.

Start from `HumanTranscript`, `ModelSurface` and `HistoryPager`; `replay` runs a projection over a log, and
`Projection` is what one of your own owes.
"""

from dsh_projections.classifier import EventClassifier, Explanation
from dsh_projections.context_liveness import ContextLiveness
from dsh_projections.history_pager import HistoryPage, HistoryPager, PageCursorError
from dsh_projections.human_transcript import HumanTranscript
from dsh_projections.model_surface import ModelSurface
from dsh_projections.progress import CompactionProgress, RunningCompaction
from dsh_projections.projection import Projection, replay
from dsh_projections.references.mention import (
    MAX_REFERENCES,
    REFERENCE_SCHEME,
    InvalidReferenceError,
    Mention,
    ReferableSessions,
    SelfReferenceError,
    TooManyReferencesError,
    decode_reference_uri,
    encode_reference_uri,
    format_mention,
    parse_mentions,
    prepare_references,
)
from dsh_projections.references.projector import (
    MAX_REFERENCE_BYTES,
    ReferenceBudgetError,
    ReferenceData,
    ReferenceItem,
    ReferenceProjector,
    ReferenceStats,
    SessionReference,
    tag_safe_json,
)
from dsh_projections.runner import ProjectionError, ProjectionGroup, TrackedProjection, follow
from dsh_projections.search.session_search import SearchHit, SearchQueryError, SessionSearch
from dsh_projections.search.snippet import Snippet
from dsh_projections.session_counts import Counts, SessionCounts
from dsh_projections.session_index import SessionIndex
from dsh_projections.transcript_entry import (
    CompactionEntry,
    ContextEntry,
    MessageEntry,
    ToolEntry,
    TranscriptCall,
    TranscriptEntry,
)
from dsh_projections.transcript_pager import TranscriptPager
from dsh_projections.verify import LogReport, verify_log

__all__ = [
    "MAX_REFERENCES",
    "MAX_REFERENCE_BYTES",
    "REFERENCE_SCHEME",
    "CompactionEntry",
    "CompactionProgress",
    "ContextEntry",
    "ContextLiveness",
    "Counts",
    "EventClassifier",
    "Explanation",
    "HistoryPage",
    "HistoryPager",
    "HumanTranscript",
    "InvalidReferenceError",
    "LogReport",
    "Mention",
    "MessageEntry",
    "ModelSurface",
    "PageCursorError",
    "Projection",
    "ProjectionError",
    "ProjectionGroup",
    "ReferableSessions",
    "ReferenceBudgetError",
    "ReferenceData",
    "ReferenceItem",
    "ReferenceProjector",
    "ReferenceStats",
    "RunningCompaction",
    "SearchHit",
    "SearchQueryError",
    "SelfReferenceError",
    "SessionCounts",
    "SessionIndex",
    "SessionReference",
    "SessionSearch",
    "Snippet",
    "TooManyReferencesError",
    "ToolEntry",
    "TrackedProjection",
    "TranscriptCall",
    "TranscriptEntry",
    "TranscriptPager",
    "decode_reference_uri",
    "encode_reference_uri",
    "follow",
    "format_mention",
    "parse_mentions",
    "prepare_references",
    "replay",
    "tag_safe_json",
    "verify_log",
]

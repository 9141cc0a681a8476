"""What the author of a compaction engine imports: the laws that bind it, and logs and answers to try it on.

Start from `engine_test`, which makes a test of an engine; `worked_logs` gives it sessions that are worth compacting,
and `answers` what a summarizer may come up with. Every other name that begins with ``check_`` is a law, which raises
`AssertionError` for what breaks it; a strategy's name is a plural. All of it needs the ``testing`` extra.
"""

from dsh_compact.testing.laws import (
    TRIGGERS,
    check_async_equals_sync,
    check_comes_to_rest,
    check_engine_laws,
    check_lands_whole_or_not_at_all,
    check_leaves_alone_what_fits,
    engine_test,
)
from dsh_compact.testing.logs import (
    FRAME,
    compacted_logs,
    compaction_moves,
    long_moves,
    session_logs,
    session_moves,
    worked_logs,
)
from dsh_compact.testing.summarizers import Answer, ScriptedSummarizer, SummarizerError, answers

__all__ = [
    "FRAME",
    "TRIGGERS",
    "Answer",
    "ScriptedSummarizer",
    "SummarizerError",
    "answers",
    "check_async_equals_sync",
    "check_comes_to_rest",
    "check_engine_laws",
    "check_lands_whole_or_not_at_all",
    "check_leaves_alone_what_fits",
    "compacted_logs",
    "compaction_moves",
    "engine_test",
    "long_moves",
    "session_logs",
    "session_moves",
    "worked_logs",
]

"""What the author of a projection imports: the laws that bind it, logs to try it on, and examples written by hand.

Start from `check_projection`, which holds a log against every law of a projection, and `session_logs`, which gives such
logs. A law's name begins with ``check_``: it raises `AssertionError` for what breaks it. `given` states an example, and
`projection_machine` stops and restarts a projection while its session goes on. All of it needs the ``testing`` extra.
"""

from dsh_projections.testing.example import Example, given
from dsh_projections.testing.laws import (
    check_entries_keep_identity,
    check_live_equals_replay,
    check_nothing_said_is_lost,
    check_pages_tile,
    check_projection,
    check_reads_only_its_topics,
    check_restores_at_every_cut,
)
from dsh_projections.testing.machine import projection_machine
from dsh_projections.testing.session_logs import compaction_moves, irregular_moves, session_logs, session_moves

__all__ = [
    "Example",
    "check_entries_keep_identity",
    "check_live_equals_replay",
    "check_nothing_said_is_lost",
    "check_pages_tile",
    "check_projection",
    "check_reads_only_its_topics",
    "check_restores_at_every_cut",
    "compaction_moves",
    "given",
    "irregular_moves",
    "projection_machine",
    "session_logs",
    "session_moves",
]

"""What the author of a projection imports: the laws that bind it, logs to try it on, and examples written by hand.

Start from `projection_test`, which makes a test of a projection, and `session_logs`, which gives it logs. Every other
name that begins with ``check_`` is a law, which raises `AssertionError` for what breaks it. `given` states an example
of what a reader shows. `projection_machine` stops and restarts a projection while its session goes on, and
`SystemMachine` is the whole system, for rules of your own. All of it needs the ``testing`` extra.
"""

from dsh_compact.testing import compaction_moves, session_logs, session_moves
from dsh_projections.testing.example import Example, given
from dsh_projections.testing.laws import (
    check_changes_no_event,
    check_entries_keep_identity,
    check_equals_oracle,
    check_live_equals_replay,
    check_marker_decides,
    check_nothing_said_is_lost,
    check_page,
    check_pages_tile,
    check_projection_laws,
    check_reads_only_its_topics,
    check_redelivery_changes_nothing,
    check_restores_at_every_cut,
    check_strangers_change_nothing,
    naive_page,
    projection_test,
)
from dsh_projections.testing.machine import projection_machine
from dsh_projections.testing.system import SystemMachine
from dsh_session.testing import irregular_moves

__all__ = [
    "Example",
    "SystemMachine",
    "check_changes_no_event",
    "check_entries_keep_identity",
    "check_equals_oracle",
    "check_live_equals_replay",
    "check_marker_decides",
    "check_nothing_said_is_lost",
    "check_page",
    "check_pages_tile",
    "check_projection_laws",
    "check_reads_only_its_topics",
    "check_redelivery_changes_nothing",
    "check_restores_at_every_cut",
    "check_strangers_change_nothing",
    "compaction_moves",
    "given",
    "irregular_moves",
    "naive_page",
    "projection_machine",
    "projection_test",
    "session_logs",
    "session_moves",
]

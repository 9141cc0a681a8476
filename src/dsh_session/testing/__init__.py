"""What a user's own tests import: strategies for values, events, logs and files, naive oracles, laws, and examples.

Start from `logs`, whose every log a reader must take, from `LogBuilder`, which writes one by hand, and from `given`,
which states what comes of a command. `store_test` makes a test of a store's whole contract; every other name that
begins with ``check_`` is a law, which raises `AssertionError` for what breaks it. An oracle's name begins with
``naive_``, and a strategy's is a plural. All of it needs the ``testing`` extra.
"""

from dsh_session.testing.builder import LogBuilder, session_of
from dsh_session.testing.example import Command, Given, Outcome, When, given
from dsh_session.testing.files import DamagedLog, Edit, damaged_logs, jsonl_forms, wire_forms
from dsh_session.testing.logs import (
    Interleaving,
    candidates,
    crash_prefixes,
    interleavings,
    logs,
    replaced_logs,
    turns,
)
from dsh_session.testing.moves import Move, irregular_moves, log_moves, message_moves, replacement_moves, turn_moves
from dsh_session.testing.oracles import (
    check_fold,
    check_lossless,
    check_refuses_foreign,
    check_repair,
    check_surface,
    is_same_json,
    naive_attempts,
    naive_chains,
    naive_classes,
    naive_rebase,
    naive_refusals,
    naive_surface,
)
from dsh_session.testing.show import show_log
from dsh_session.testing.store_laws import (
    check_conflict_loses_nothing,
    check_export_comes_back,
    check_fork_is_the_prefix,
    check_import_is_whole_or_nothing,
    check_load_gives_what_was_saved,
    check_refusals_leave_everything,
    check_resume_settles,
    check_sessions_are_listed,
    check_store_laws,
    check_stream_tells_everything,
    store_test,
)
from dsh_session.testing.values import (
    contents,
    foreign_values,
    json_values,
    messages,
    surface_ops,
    texts,
    user_messages,
)

__all__ = [
    "Command",
    "DamagedLog",
    "Edit",
    "Given",
    "Interleaving",
    "LogBuilder",
    "Move",
    "Outcome",
    "When",
    "candidates",
    "check_conflict_loses_nothing",
    "check_export_comes_back",
    "check_fold",
    "check_fork_is_the_prefix",
    "check_import_is_whole_or_nothing",
    "check_load_gives_what_was_saved",
    "check_lossless",
    "check_refusals_leave_everything",
    "check_refuses_foreign",
    "check_repair",
    "check_resume_settles",
    "check_sessions_are_listed",
    "check_store_laws",
    "check_stream_tells_everything",
    "check_surface",
    "contents",
    "crash_prefixes",
    "damaged_logs",
    "foreign_values",
    "given",
    "interleavings",
    "irregular_moves",
    "is_same_json",
    "json_values",
    "jsonl_forms",
    "log_moves",
    "logs",
    "message_moves",
    "messages",
    "naive_attempts",
    "naive_chains",
    "naive_classes",
    "naive_rebase",
    "naive_refusals",
    "naive_surface",
    "replaced_logs",
    "replacement_moves",
    "session_of",
    "show_log",
    "store_test",
    "surface_ops",
    "texts",
    "turn_moves",
    "turns",
    "user_messages",
    "wire_forms",
]

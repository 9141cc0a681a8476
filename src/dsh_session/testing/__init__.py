"""What a user's own tests import: strategies for JSON values, events and logs, naive oracles, and laws.

Start from `logs`, whose every log a reader must take, and from `LogBuilder`, which writes one by hand. An oracle's name
begins with ``naive_``. A law's begins with ``check_``: it raises `AssertionError` for an implementation that breaks it.
All of it needs the ``testing`` extra.
"""

from dsh_session.testing.builder import LogBuilder
from dsh_session.testing.logs import Move, candidates, log_moves, logs
from dsh_session.testing.oracles import (
    check_fold,
    check_lossless,
    check_repair,
    is_same_json,
    naive_chains,
    naive_classes,
    naive_refusals,
    naive_surface,
)
from dsh_session.testing.values import contents, json_values, surface_ops, texts, user_messages

__all__ = [
    "LogBuilder",
    "Move",
    "candidates",
    "check_fold",
    "check_lossless",
    "check_repair",
    "contents",
    "is_same_json",
    "json_values",
    "log_moves",
    "logs",
    "naive_chains",
    "naive_classes",
    "naive_refusals",
    "naive_surface",
    "surface_ops",
    "texts",
    "user_messages",
]

"""The errors of a session: one base, and leaves that a caller can act on.

Every leaf is also the builtin that its kind of failure naturally is, and carries the values that it speaks of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SessionError(Exception):
    """Base of every error that ``dsh_session`` raises on purpose."""


class NotJSONError(SessionError, ValueError):
    """A value is not lossless JSON, or a text is not JSON.

    Attributes:
        path: where in the value, as keys and indexes from its root; empty for the root itself.
        reason: what was found there and what would be right.
    """

    def __init__(self, reason: str, path: Sequence[str | int] = ()) -> None:
        self.reason = reason
        self.path = tuple(path)
        super().__init__(f"{format_path(self.path)}: {reason}")


class InvalidEventError(SessionError, ValueError):
    """An event, or a candidate for one, has a shape that no log may hold.

    Attributes:
        seq: the event's position in its log, or None where it has none yet.
        rule: a short stable name of the rule that was broken, such as ``"envelope"`` or ``"message-shape"``.
        reason: what was found and what would be right.
    """

    def __init__(self, reason: str, *, rule: str, seq: int | None = None) -> None:
        self.reason = reason
        self.rule = rule
        self.seq = seq
        where = "event" if seq is None else f"event at seq {seq}"
        super().__init__(f"{where}: {reason}")


class InvalidSurfaceError(InvalidEventError):
    """An event does not fit the surface that it arrives at, or breaks a rule of markers and provenance.

    ``rule`` is one of ``seq``, ``marker-missing``, ``marker-on-log-only``, ``sources-on-log-only``,
    ``start-not-on-surface``, ``end-not-on-surface``, ``range-reversed``, ``sources-empty``, ``sources-duplicate``,
    ``sources-not-earlier``, ``sources-missing-shadowed``, ``result-span``, ``result-target``, ``result-fields``;
    or, for a marker or provenance of a wrong shape, ``marker-invalid``, ``replace-invalid``, ``sources-not-array``,
    ``sources-type``.
    """


class InvalidHeaderError(SessionError, ValueError):
    """A session header lacks something, or holds what no header may."""


class StalePlanError(SessionError, RuntimeError):
    """A surface plan was applied to a surface that has moved on since it was made."""


def format_path(path: Sequence[str | int]) -> str:
    """Write a path into a JSON value the way it is usually read, such as ``$.content[0].text``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)

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


class SessionNotFoundError(SessionError, LookupError):
    """No session of this id is in the store.

    Attributes:
        session_id: the id that was asked for.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"no session {session_id!r} in this store")


class EventNotFoundError(SessionError, IndexError):
    """A log has no event at a seq.

    Attributes:
        seq: what was asked for; the seq of an event is an int >= 0.
        length: how many events the log has, or None where it was not read to say so.
    """

    def __init__(self, seq: object, length: int | None) -> None:
        self.seq = seq
        self.length = length
        has = "a seq is an int >= 0" if length is None else f"this log has {length} events"
        super().__init__(f"no event at seq {seq!r}; {has}")


class InvalidOptionError(SessionError, ValueError):
    """An option is none of those that there are.

    Attributes:
        option: its name.
        value: what was given.
    """

    def __init__(self, option: str, value: object, right: str) -> None:
        self.option = option
        self.value = value
        super().__init__(f"{option} is {value!r}; it is {right}")


class SessionExistsError(SessionError, ValueError):
    """A session of this id is already there; a new one needs another id.

    Attributes:
        session_id: the id that is taken.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r} is already there")


class ConflictError(SessionError, RuntimeError):
    """Another writer appended to the session since it was loaded; nothing was saved, and nothing is lost.

    Attributes:
        session_id: the session.
        expected: the length of the log that the pending events were to follow.
        actual: its length in the store.
    """

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        self.session_id = session_id
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"session {session_id!r} was to go on from seq {expected}, but another writer has brought it to {actual};"
            " the pending events are kept"
        )


class RebaseError(ConflictError):
    """A pending event no longer fits behind what another writer appended; nothing was changed.

    Attributes:
        seq: the seq that the first such event has among the pending ones.
        reason: why it does not fit.
    """

    def __init__(self, session_id: str, *, expected: int, actual: int, seq: int, reason: str) -> None:
        super().__init__(session_id, expected=expected, actual=actual)
        self.seq = seq
        self.reason = reason
        text = (
            f"session {session_id!r}: the pending event at seq {seq} does not fit behind the {actual - expected} events"
            f" of another writer: {reason}"
        )
        self.args = (text,)


class OpenTurnError(SessionError, ValueError):
    """A fork would cut a turn in two.

    Attributes:
        seq: the last event of the prefix.
    """

    def __init__(self, reason: str, *, seq: int) -> None:
        self.seq = seq
        super().__init__(reason)


class StoreError(SessionError, OSError):
    """The database could not do what was asked: it is locked, full, read-only, out of reach, or no database.

    Nothing was changed. The database library's own error is the ``__cause__``.
    """


class StoreUnavailableError(StoreError):
    """The database cannot do it at this time: it is out of reach, locked, full or the like. Later it may."""


class StoreFormatError(StoreError):
    """A file is not a store of this library, or one that a newer version of it wrote."""


class DamagedStoreError(StoreError):
    """A stored record is missing or cannot be read: it is damaged, or enciphered with another key.

    Attributes:
        session_id: the session that it belongs to.
        seq: the event's seq, or None where it is no single event.
    """

    def __init__(self, reason: str, *, session_id: str, seq: int | None) -> None:
        self.session_id = session_id
        self.seq = seq
        record = "" if seq is None else f", event at seq {seq}"
        super().__init__(f"session {session_id!r}{record}: {reason}")


def format_path(path: Sequence[str | int]) -> str:
    """Write a path into a JSON value the way it is usually read, such as ``$.content[0].text``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)

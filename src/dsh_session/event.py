"""One event of a session's log, its marker, and the two predicates that split every reader's world.

A surface event's marker says how it entered the surface: appended at the tail, or in place of a range of nodes.
Append-origin events are what was said, and belong to the human's transcript for ever. Replacements are copies for
the model. Which of the two an event is follows from the event alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import attrs
import msgspec

from dsh_session import lossless_json
from dsh_session.errors import InvalidEventError, InvalidSurfaceError, NotJSONError
from dsh_session.vocabulary import SURFACE_EVENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen
class Append:
    """The marker of an event that enters the surface at its tail."""


APPEND: Final = Append()
"""The one append marker."""


def _check_end(_: Replace, attribute: attrs.Attribute[int], value: Any) -> None:
    if type(value) is not int or not 0 <= value <= lossless_json.INT_MAX:
        raise InvalidSurfaceError(
            f"the {attribute.name} of a replacement is {value!r}; it is the seq of a node, an int >= 0",
            rule="replace-invalid",
        )


@attrs.frozen
class Replace:
    """The marker of an event that takes the place of the nodes from ``start`` to ``end``, both included.

    Both are named by node, and the range lies between them by surface position. So ``start`` may be the larger number:
    a checkpoint has a high seq at an old position.

    Raises:
        InvalidSurfaceError: an end is not an int >= 0.
    """

    start: int = attrs.field(validator=_check_end)
    end: int = attrs.field(validator=_check_end)


SurfaceOp: TypeAlias = Append | Replace


class SessionEvent(msgspec.Struct, frozen=True, gc=False):
    """One immutable entry of a log.

    Make one with `Session.append` or `SessionEvent.from_wire`; the constructor trusts its arguments.
    Two events are equal when all their parts are, and their data is written with the same bytes.

    Attributes:
        session_id: the session that the event belongs to, or ``""`` where that is not known.
        seq: the event's position in its log, from 0 without a gap.
        time: Unix milliseconds. It is data and orders nothing: clocks step back.
        type: a non-empty name out of an open vocabulary.
        encoded_data: the data as the JSON bytes that are stored.
        surface_op: the marker, or None for a log-only event.
        source_event_seqs: provenance, the earlier events that this one was made from, or None where it says nothing.
        ignorable: whether a reader that does not know the type may skip the event.
    """

    session_id: str
    seq: int
    time: int
    type: str
    encoded_data: bytes
    surface_op: SurfaceOp | None = None
    source_event_seqs: tuple[int, ...] | None = None
    ignorable: bool = False

    @property
    def data(self) -> Any:
        """The data, decoded anew at every access; the value is the caller's to change.

        Cost: O(size of the data).
        """
        return lossless_json.decode(self.encoded_data)

    @classmethod
    def from_wire(cls, obj: Any, session_id: str = "") -> SessionEvent:
        """Make an event from the JSON shape of a log line.

        The envelope is checked: its keys, and the shape of each value by itself. Whether the event fits a surface is
        the fold's question, and whether it holds a proper message is `dsh_session.check_data`'s.

        Args:
            obj: a dict with ``type``, ``seq``, ``time`` and ``data``, and optionally ``surfaceOp``,
                ``sourceEventSeqs`` and ``ignorable: true``.
            session_id: the session that the event belongs to.

        Raises:
            InvalidEventError: the envelope is malformed. `InvalidSurfaceError` where it is the marker or provenance.
            NotJSONError: the data is not lossless JSON.
        """
        if not isinstance(obj, dict):
            raise InvalidEventError(f"{type(obj).__name__} found; an event is an object", rule="envelope")
        seq = obj.get("seq")
        if type(seq) is not int or not 0 <= seq < lossless_json.INT_MAX:
            raise InvalidSurfaceError(f"seq is {seq!r}; it is an int >= 0", rule="seq")
        unknown = obj.keys() - _WIRE_KEYS
        if unknown:
            raise InvalidEventError(f"unknown key {min(unknown, key=repr)!r}", rule="envelope", seq=seq)
        if "data" not in obj:
            raise InvalidEventError("no data; every event has a data value", rule="envelope", seq=seq)
        if obj.get("ignorable", True) is not True:
            raise InvalidEventError(
                f"ignorable is {obj['ignorable']!r}; it is true or absent", rule="envelope", seq=seq
            )
        kind = checked_type(obj.get("type"), seq)
        time = checked_time(obj.get("time"), seq)
        marker = marker_from_wire(obj["surfaceOp"], kind, seq) if "surfaceOp" in obj else None
        sources = checked_sources(obj["sourceEventSeqs"], kind, seq) if "sourceEventSeqs" in obj else None
        encoded = encoded_under(obj["data"], "data")
        return cls(session_id, seq, time, kind, encoded, marker, sources, "ignorable" in obj)

    def to_wire(self) -> dict[str, Any]:
        """Write the event in the JSON shape of a log line; `from_wire` makes an equal event of it."""
        wire: dict[str, Any] = {"type": self.type, "seq": self.seq, "time": self.time, "data": self.data}
        match self.surface_op:
            case Append():
                wire["surfaceOp"] = "append"
            case Replace(start, end):
                wire["surfaceOp"] = {"op": "replace", "start": start, "end": end}
            case None:
                pass
            case _:
                assert_never(self.surface_op)
        if self.source_event_seqs is not None:
            wire["sourceEventSeqs"] = list(self.source_event_seqs)
        if self.ignorable:
            wire["ignorable"] = True
        return wire


def is_surface_event(event: SessionEvent) -> bool:
    """Tell whether an event is or was a node of the surface: a surface type that carries a marker. Cost: O(1)."""
    return event.surface_op is not None and event.type in SURFACE_EVENT_TYPES


def is_append_surface_event(event: SessionEvent) -> bool:
    """Tell whether an event is append-origin: part of the conversation, and of the transcript for ever. Cost: O(1)."""
    return type(event.surface_op) is Append and event.type in SURFACE_EVENT_TYPES


def is_replacement_surface_event(event: SessionEvent) -> bool:
    """Tell whether an event is a model-only copy that took the place of other nodes. Cost: O(1)."""
    return type(event.surface_op) is Replace and event.type in SURFACE_EVENT_TYPES


def topic_of(event: SessionEvent) -> str:
    """Name what kind of reader an event is for: its marker and its type, such as ``append:user/message``.

    ``append:`` and ``replace:`` stand before surface types, ``log:`` before every log-only event. It is what a store
    keeps beside the payload, so that a reader can pass over events without decoding them (ADR-0003). Cost: O(1).
    """
    return f"{_MARKER_NAMES[type(event.surface_op)]}:{event.type}"


_MARKER_NAMES: Final[Mapping[type, str]] = {Append: "append", Replace: "replace", type(None): "log"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WIRE_KEYS = frozenset({"type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable"})
_RANGE_SPELLINGS = (("start", "end"), ("startSeq", "endSeq"))


def checked_type(value: Any, seq: int | None = None) -> str:
    """Return an event type, or raise `InvalidEventError` when it is not a non-empty str.

    It stands in a column of its own, so it holds no NUL and no surrogate, which no database keeps as text.
    """
    if type(value) is not str or not value:
        raise InvalidEventError(f"type is {value!r}; it is a non-empty str", rule="envelope", seq=seq)
    if "\0" in value or (not value.isascii() and _SURROGATE.search(value)):
        raise InvalidEventError(f"type is {value!r}; it holds no NUL and no surrogate", rule="envelope", seq=seq)
    return value


def checked_time(value: Any, seq: int | None = None) -> int:
    """Return a time, or raise `InvalidEventError` when it is not an int of Unix milliseconds."""
    if type(value) is not int or not lossless_json.INT_MIN <= value <= lossless_json.INT_MAX:
        raise InvalidEventError(f"time is {value!r}; it is an int of Unix milliseconds", rule="envelope", seq=seq)
    return value


def marker_from_wire(value: Any, kind: str, seq: int | None = None) -> SurfaceOp:
    """Read a marker's JSON shape; a marker that is there and is no marker is an error, ``null`` included."""
    if kind not in SURFACE_EVENT_TYPES:
        raise InvalidSurfaceError(
            f"{kind} is log-only and cannot carry a marker, not even {value!r}",
            rule="marker-on-log-only",
            seq=seq,
        )
    if value == "append" and type(value) is str:
        return APPEND
    if type(value) is not dict:
        raise InvalidSurfaceError(
            f'the marker is {value!r}; it is "append" or {{"op": "replace", "start": seq, "end": seq}}',
            rule="marker-invalid",
            seq=seq,
        )
    for start, end in _RANGE_SPELLINGS:
        if value.keys() == {"op", start, end} and value["op"] == "replace":
            try:
                return Replace(value[start], value[end])
            except InvalidSurfaceError as error:
                raise InvalidSurfaceError(error.reason, rule=error.rule, seq=seq) from None
    raise InvalidSurfaceError(
        f'the marker is {value!r}; a replacement is {{"op": "replace", "start": seq, "end": seq}} and nothing else',
        rule="replace-invalid",
        seq=seq,
    )


def checked_sources(value: Any, kind: str, seq: int | None = None) -> tuple[int, ...]:
    """Return provenance as a tuple, or raise `InvalidSurfaceError` when it is not a list of ints >= 0."""
    if kind not in SURFACE_EVENT_TYPES:
        raise InvalidSurfaceError(
            f"{kind} is log-only and cannot carry provenance, not even {value!r}", rule="sources-on-log-only", seq=seq
        )
    if type(value) is not list and type(value) is not tuple:
        raise InvalidSurfaceError(f"provenance is {value!r}; it is a list of seqs", rule="sources-not-array", seq=seq)
    for source in value:
        if type(source) is not int or not 0 <= source <= lossless_json.INT_MAX:
            raise InvalidSurfaceError(
                f"provenance holds {source!r}; each source is the seq of an earlier event, an int >= 0",
                rule="sources-type",
                seq=seq,
            )
    return tuple(value)


def encoded_under(value: Any, key: str) -> bytes:
    """Encode a value that stands under a key of a larger one, so that an error's path starts there."""
    try:
        return lossless_json.encode(value)
    except NotJSONError as error:
        raise NotJSONError(error.reason, (key, *error.path)) from None

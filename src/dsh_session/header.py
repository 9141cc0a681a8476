"""The header of a session: what is known of it before its first event, written once."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

import attrs

from dsh_session import lossless_json
from dsh_session.errors import InvalidHeaderError, NotJSONError
from dsh_session.event import encoded_under

FORMAT_VERSION: Final = 0
"""The version of the log format that this library reads and writes."""


class _Encoded(bytes):
    """A JSON value as text, out of reach of references. `attrs.evolve` passes it from one header to the next."""


def _encoded(key: str, value: Any) -> _Encoded:
    if type(value) is _Encoded:
        return value
    try:
        return _Encoded(encoded_under(value, key))
    except NotJSONError as error:
        raise InvalidHeaderError(f"session header: {error}") from None


def _encoded_origin(value: Any) -> _Encoded:
    return _encoded("origin", value)


def _encoded_agent_preset(value: Any) -> _Encoded:
    return _encoded("agentPreset", value)


def _shown(value: _Encoded) -> str:
    return repr(lossless_json.decode(value))


@attrs.frozen(kw_only=True)
class SessionHeader:
    """The header of a session.

    Attributes:
        id: any non-empty str; it is opaque, and never part of a path or of SQL.
        created_at: Unix milliseconds, an int >= 0.
        cwd: the absolute path that the agent works in.
        parent_session: the id of the session that this one was forked from.
        seed_length: how many events it has from there, an int >= 0.
        delegation_depth: how many agents stand above this one, an int >= 0.

    Raises:
        InvalidHeaderError: an attribute is something else.
    """

    id: str
    created_at: int
    cwd: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None
    _origin: Any = attrs.field(
        default=None, alias="origin", converter=_encoded_origin, eq=lossless_json.decode, repr=_shown
    )
    delegation_depth: int | None = None
    _agent_preset: Any = attrs.field(
        default=None, alias="agent_preset", converter=_encoded_agent_preset, eq=lossless_json.decode, repr=_shown
    )

    def __attrs_post_init__(self) -> None:
        _require(_is_name(self.id), "id", self.id, "a non-empty str")
        _require(_is_count(self.created_at), "createdAt", self.created_at, "Unix milliseconds, an int >= 0")
        _require(self.cwd is None or _is_absolute(self.cwd), "cwd", self.cwd, "an absolute path")
        _require(
            self.parent_session is None or _is_name(self.parent_session),
            "parentSession",
            self.parent_session,
            "a non-empty str",
        )
        for key, count in (("seedLength", self.seed_length), ("delegationDepth", self.delegation_depth)):
            _require(count is None or _is_count(count), key, count, "an int >= 0")
        try:
            lossless_json.encode(self.to_wire())
        except NotJSONError as error:
            raise InvalidHeaderError(f"session header: {error}") from None

    @property
    def origin(self) -> Any:
        """What made the session, a JSON value of the caller's own, or None."""
        return lossless_json.decode(self._origin)

    @property
    def agent_preset(self) -> Any:
        """What the agent was set up as, a JSON value of the caller's own, or None."""
        return lossless_json.decode(self._agent_preset)

    @classmethod
    def from_wire(cls, obj: Any) -> SessionHeader:
        """Make a header from the JSON shape of a log's first line.

        Args:
            obj: a dict with ``type: "session"``, ``id`` and ``createdAt``. A missing ``version`` is that of the oldest
                logs, which are read the same.

        Raises:
            InvalidHeaderError: a key is missing, unknown or of the wrong shape, or the version is another one.
        """
        if type(obj) is not dict or obj.get("type") != "session":
            raise InvalidHeaderError('session header: an object with "type": "session" is the first line of a log')
        version = obj.get("version", FORMAT_VERSION)
        if type(version) is not int or version != FORMAT_VERSION:
            raise InvalidHeaderError(
                f"session header: format version {version!r}; this library reads version {FORMAT_VERSION}"
            )
        unknown = obj.keys() - {"type", "version", *_WIRE_KEYS}
        if unknown:
            raise InvalidHeaderError(f"session header: unknown key {min(unknown, key=repr)!r}")
        for key in ("id", "createdAt"):
            _require(key in obj, key, "missing", "always there")
        return cls(**{name: obj[key] for key, name in _WIRE_KEYS.items() if key in obj})

    def to_wire(self) -> dict[str, Any]:
        """Write the header in the JSON shape of a log's first line; what is not known is left out."""
        wire: dict[str, Any] = {"type": "session", "version": FORMAT_VERSION}
        for key, name in _WIRE_KEYS.items():
            value = getattr(self, name)
            if value is not None:
                wire[key] = value
        return wire


_WIRE_KEYS: Final = {
    "id": "id",
    "createdAt": "created_at",
    "cwd": "cwd",
    "parentSession": "parent_session",
    "seedLength": "seed_length",
    "origin": "origin",
    "delegationDepth": "delegation_depth",
    "agentPreset": "agent_preset",
}


def _require(is_right: bool, key: str, value: Any, right: str) -> None:
    if not is_right:
        raise InvalidHeaderError(f"session header: {key} is {value!r}; it is {right}")


def _is_name(value: Any) -> bool:
    return type(value) is str and bool(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= lossless_json.INT_MAX


def _is_absolute(value: Any) -> bool:
    return type(value) is str and (PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute())

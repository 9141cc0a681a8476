"""Lossless JSON: what goes in is what comes out, equal in value and type.

A value is ``None``, ``bool``, ``int`` within signed 64 bits, finite ``float``, ``str``, ``list``, or ``dict`` with
``str`` keys, nested at most `MAX_DEPTH` containers deep. The types are exact: a subclass would not come back as
itself. A ``str`` may hold lone surrogates. Everything else is refused with the path to it.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, NoReturn

import msgspec

from dsh_session.errors import NotJSONError

MAX_DEPTH = 256
"""How many containers may stand inside one another."""

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_HAS_SURROGATE = re.compile(rb"\\ud").search
_SURROGATE_ESCAPE = re.compile(r"(\\\\)|\\u([dD][89a-fA-F][0-9a-fA-F]{2})")


def encode(value: Any) -> bytes:
    """Check a value and write it as compact UTF-8 JSON.

    Args:
        value: any object; it is read once and never kept.

    Returns:
        Bytes from which `decode` makes an equal value of equal types. A surrogate is written as an escape.

    Raises:
        NotJSONError: something in the value is not lossless JSON; ``path`` says where.

    Cost: O(size of the value).
    """
    try:
        encoded = _encode(value)
    except Exception:  # noqa: BLE001 - a foreign object may raise anything; the walk below names it
        _refuse(value)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    _check(value)
    return encoded


def decode(encoded: bytes) -> Any:
    """Read back what `encode` wrote: a fresh value at every call.

    Args:
        encoded: bytes from `encode`. They are trusted: nothing is checked again.

    Returns:
        The value. Two surrogates that were apart stay apart, since `encode` escapes no others.

    Raises:
        NotJSONError: the bytes are no JSON at all, so they did not come from `encode`.
    """
    if _HAS_SURROGATE(encoded):
        # A JSON reader would join two escapes that stand together, so surrogates are put in before it reads.
        return _load(_SURROGATE_ESCAPE.sub(_unescape, encoded.decode("utf-8")))
    try:
        return _decode(encoded)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotJSONError(_said_by(error)) from None


def parse(text: str | bytes) -> Any:
    """Read JSON text that came from outside, and check it.

    Args:
        text: one JSON value, white space around it allowed; bytes are UTF-8.

    Returns:
        A value that `encode` accepts. Of a repeated key the last value is kept.

    Raises:
        NotJSONError: the text is not JSON (NaN and Infinity are not), or its value is not lossless.
    """
    value = read(text)
    _check(value)
    return value


def read(text: str | bytes) -> Any:
    """Read JSON text that came from outside, as `parse` does, and leave the check to whoever encodes the value.

    Raises:
        NotJSONError: the text is not JSON.
    """
    try:
        return _decode(text)
    except UnicodeEncodeError:
        return _load(text)
    except (msgspec.DecodeError, RecursionError) as error:
        # msgspec refuses the escape of a lone surrogate, which JSON allows.
        if not _has_escape(text):
            raise NotJSONError(_said_by(error)) from None
        return _load(text)


def validate(value: Any) -> None:
    """Refuse a value that is not lossless JSON.

    Raises:
        NotJSONError: as `encode` would.
    """
    encode(value)


def _check(value: Any) -> None:
    """Check every type and number of a value that is known to have no cycle, since it was just written or read.

    The two loops are one rule written twice: this runs at every append, and a call an item would double its cost.
    """
    if type(value) is not dict and type(value) is not list:
        _check_leaf(value, value)
        return
    containers = [value]
    for container in containers:
        if type(container) is dict:
            for key, item in container.items():
                kind = type(item)
                if type(key) is not str:
                    _refuse(value)
                if kind is str:
                    continue
                if kind is dict or kind is list:
                    containers.append(item)
                elif kind is int:
                    if not INT_MIN <= item <= INT_MAX:
                        _refuse(value)
                elif kind is not bool and item is not None:
                    _check_leaf(item, value)
        else:
            for item in container:
                kind = type(item)
                if kind is dict or kind is list:
                    containers.append(item)
                elif kind is int:
                    if not INT_MIN <= item <= INT_MAX:
                        _refuse(value)
                elif kind is not str:
                    _check_leaf(item, value)
    if len(containers) > MAX_DEPTH:
        _check_depth(value)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return
    _refuse(value)


def _check_leaf(leaf: Any, root: Any) -> None:
    kind = type(leaf)
    if kind is float:
        if isfinite(leaf):
            return
    elif kind is int:
        if INT_MIN <= leaf <= INT_MAX:
            return
    elif kind is str or kind is bool or leaf is None:
        return
    _refuse(root)


def _refuse(root: Any) -> None:
    """Raise for the first place, in reading order, that is not lossless JSON: the slow walk that knows the path.

    It comes to an end on a cycle too, as that is nested without end. It returns only for a sound value.
    """
    walk: list[tuple[Any, tuple[str | int, ...]]] = [(root, ())]
    while walk:
        value, path = walk.pop()
        kind = type(value)
        if kind is not dict and kind is not list:
            _refuse_leaf(value, path)
            continue
        if len(path) >= MAX_DEPTH:
            raise NotJSONError(f"nested deeper than {MAX_DEPTH} levels, or a cycle", path[:8])
        for key in value if kind is dict else ():
            if type(key) is not str:
                raise NotJSONError(f"key {_shorten(key)} is of type {type(key).__name__}; keys are str", path)
        items = value.items() if kind is dict else enumerate(value)
        walk.extend(reversed([(item, (*path, key)) for key, item in items]))


def _refuse_leaf(value: Any, path: tuple[str | int, ...]) -> None:
    kind = type(value)
    if kind is int:
        if not INT_MIN <= value <= INT_MAX:
            raise NotJSONError(f"an int of {value.bit_length()} bits; ints lie within signed 64 bits", path)
    elif kind is float:
        if not isfinite(value):
            raise NotJSONError(f"{value!r}; a float must be finite", path)
    elif kind is not str and kind is not bool and value is not None:
        raise NotJSONError(
            f"{_shorten(value)} is of type {kind.__name__}; only None, bool, int, float, str, list and dict are JSON",
            path,
        )


def _shorten(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign object may raise anything
        return "an object whose repr fails"
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - one line of an error


def _has_escape(text: str | bytes) -> bool:
    return b"\\u" in text if isinstance(text, bytes) else "\\u" in text


def _load(text: str | bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8") if isinstance(text, bytes) else text, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise NotJSONError("not UTF-8") from None
    except RecursionError:
        raise NotJSONError(f"nested deeper than {MAX_DEPTH} levels") from None
    except NotJSONError:
        raise
    except ValueError as error:
        raise NotJSONError(str(error)) from None


def _refuse_constant(name: str) -> NoReturn:
    raise NotJSONError(f"{name} is not JSON")


def _unescape(match: re.Match[str]) -> str:
    return match[1] or chr(int(match[2], 16))


def _said_by(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"nested deeper than {MAX_DEPTH} levels"
    return str(error)

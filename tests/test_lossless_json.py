"""Lossless JSON: what goes in is what comes out, and everything else is refused with the path to it."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict, namedtuple
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given

from dsh_session import NotJSONError
from dsh_session.lossless_json import INT_MAX, INT_MIN, MAX_DEPTH, decode, encode, parse, validate
from dsh_session.testing import check_lossless, is_same_json, json_values

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = json.loads((Path(__file__).parent / "vectors" / "lossless_json.json").read_text("utf-8"))

AS_PYTHON_READS_IT = "a number with a fraction or an exponent is a float, with a sign of zero, and no other is"
EXACT = "ints are exact within signed 64 bits and refused beyond"
IN_ORDER = "object keys keep their order"
DEEP = "nesting is limited"
DIFFERENT = {
    "negative zero is refused": AS_PYTHON_READS_IT,
    "negative zero inside a container": AS_PYTHON_READS_IT,
    "negative zero by exponent": AS_PYTHON_READS_IT,
    "underflows to negative zero, refused": AS_PYTHON_READS_IT,
    "underflows to zero, kept as 0": AS_PYTHON_READS_IT,
    "the surviving value is refused": AS_PYTHON_READS_IT,
    "refused value under a proto key": AS_PYTHON_READS_IT,
    "stored without the fraction": AS_PYTHON_READS_IT,
    "stored as an integer": AS_PYTHON_READS_IT,
    "zero with exponent": AS_PYTHON_READS_IT,
    "positive zero": AS_PYTHON_READS_IT,
    "integer beyond 2^53 is accepted but rounded": EXACT,
    "negative beyond 2^53": EXACT,
    "long integer, rounded and possibly in exponent form": EXACT,
    "power of ten": EXACT,
    "stored with an exponent from 1e21 on": EXACT,
    "digit-like keys are stored first, ascending": IN_ORDER,
    "only canonical array indexes move": IN_ORDER,
    "index limit at 2^32-2": IN_ORDER,
    "nesting depth is not limited": DEEP,
    "mixed deep nesting": DEEP,
}


class Colour(IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Nowhere(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        raise KeyError


class Struct(msgspec.Struct):
    a: int = 1


Point = namedtuple("Point", "x y")  # noqa: PYI024 - a tuple in disguise is the point


def nested(depth: int, leaf: Any = None) -> Any:
    """Return dicts and lists by turns, ``depth`` of them inside one another."""
    value = leaf
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


def refusal(call: Callable[[Any], Any], value: Any) -> NotJSONError:
    """Return the error that a call refuses a value with."""
    with pytest.raises(NotJSONError) as caught:
        call(value)
    return caught.value


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case.get("note", case["json"])[:40])
def test_a_text_is_taken_or_refused_and_stored_as_recorded(case: dict[str, Any]) -> None:
    """Outside text is read, checked and stored as the original did, but for the listed differences."""
    # given
    was_taken = case["parse"] and case["ok"]
    # when
    try:
        actual = decode(encode(parse(case["json"])))
    except NotJSONError:
        is_as_recorded = not was_taken
    else:
        is_as_recorded = was_taken and is_same_json(json.loads(case.get("stored", case["json"])), actual)
    # then
    assert is_as_recorded == (case.get("note") not in DIFFERENT)


@given(json_values())
@example("\ud83d\ude00")
@example({"\ud83d\ude00": ["\\ud83d\\ude00", "\ud83d\\ude00", "\\\\ud83d"]})
@example([0.0, -0.0, 0, False, 1, 1.0, True, INT_MIN, INT_MAX, 5e-324, 1e16])
def test_what_is_encoded_is_what_is_decoded(value: Any) -> None:
    """Decoding what was encoded gives an equal value of equal types, in the same order of keys."""
    check_lossless(lambda given: decode(encode(given)), value)


@given(json_values())
def test_encoded_text_is_json(value: Any) -> None:
    """What is stored is UTF-8 JSON that any reader takes, to whom two lone surrogates in a row are one character."""
    # given
    as_others_write_it = json.dumps(value)
    # when
    encoded = encode(value)
    # then
    assert is_same_json(json.loads(as_others_write_it), json.loads(encoded.decode("utf-8")))


@given(json_values())
def test_what_others_write_is_parsed_as_it_was(value: Any) -> None:
    """JSON text is parsed to the value that was written, from a str with raw surrogates as well."""
    check_lossless(lambda given: parse(json.dumps(given, ensure_ascii=False)), value)


def test_changing_the_value_afterwards_changes_nothing() -> None:
    """What was encoded is a copy, and so is every value that is decoded from it."""
    # given
    value = {"list": [1], "dict": {"k": "v"}}
    encoded = encode(value)
    # when
    value["list"].append(2)
    decode(encoded)["dict"].clear()
    # then
    assert decode(encoded) == {"list": [1], "dict": {"k": "v"}}


@pytest.mark.parametrize("depth", [1, 200, MAX_DEPTH])
@pytest.mark.parametrize("leaf", ["plain", "\ud83d"])
def test_deep_values_are_taken(depth: int, leaf: str) -> None:
    """Values nested up to the limit go in and come out."""
    # given
    value = nested(depth, leaf)
    # when, then
    check_lossless(lambda given: decode(encode(given)), value)
    check_lossless(lambda given: parse(json.dumps(given)), value)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
@pytest.mark.parametrize("leaf", ["plain", "\ud83d"])
def test_values_nested_too_deep_are_refused(depth: int, leaf: str) -> None:
    """A value nested beyond the limit is an error that says so, and no crash, however deep it is."""
    # given
    value = nested(depth, leaf)
    # when
    error = refusal(encode, value)
    # then
    assert "nested deeper than 256 levels" in error.reason
    assert 0 < len(error.path) < MAX_DEPTH


@pytest.mark.parametrize(
    "text", ["[" * 257 + "]" * 257, "[" * 100_000, '["\\ud83d",' * 100_000, b"[" * 100_000], ids=len
)
def test_text_nested_too_deep_is_refused(text: Any) -> None:
    """Text nested beyond the limit is an error that says so, and no crash, however deep it is."""
    assert "nested deeper than 256 levels" in refusal(parse, text).reason


def test_bytes_nested_too_deep_are_refused() -> None:
    """Bytes that nobody encoded here are an error and no crash."""
    assert "nested deeper than 256 levels" in refusal(decode, b"[" * 100_000).reason


@pytest.mark.parametrize("also", [[], ["\ud83d"]], ids=["plain", "with a surrogate"])
def test_a_cycle_is_refused(also: list[str]) -> None:
    """A value that holds itself is an error that names the way round."""
    # given
    value = {"again": [*also]}
    value["again"].append(value)
    # when
    error = refusal(encode, value)
    # then
    assert ("again", len(also), "again") == error.path[:3]
    assert "a cycle" in error.reason


def test_a_value_that_stands_in_two_places_is_no_cycle() -> None:
    """One list at two places is written twice."""
    # given
    shared = [1]
    # when, then
    assert decode(encode([shared, shared])) == [[1], [1]]


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ((1, 2), "(1, 2) is of type tuple"),
        ({1}, "{1} is of type set"),
        (frozenset(), "frozenset() is of type frozenset"),
        (b"ab", "b'ab' is of type bytes"),
        (bytearray(), "bytearray(b'') is of type bytearray"),
        (datetime(2026, 7, 29, tzinfo=UTC), "is of type datetime"),
        (Decimal(1), "Decimal('1') is of type Decimal"),
        (UUID(int=0), "is of type UUID"),
        (Path("p"), "is of type PosixPath"),
        (1j, "1j is of type complex"),
        (object(), "is of type object"),
        (Struct(), "Struct(a=1) is of type Struct"),
        (Colour.RED, "<Colour.RED: 1> is of type Colour"),
        (Text("x"), "'x' is of type Text"),
        (OrderedDict(), "OrderedDict() is of type OrderedDict"),
        (Point(1, 2), "Point(x=1, y=2) is of type Point"),
        (Text("x" * 100), "xx... is of type Text"),
        (float("nan"), "nan; a float must be finite"),
        (float("inf"), "inf; a float must be finite"),
        (float("-inf"), "-inf; a float must be finite"),
        (INT_MAX + 1, "an int of 64 bits"),
        (INT_MIN - 1, "an int of 64 bits"),
        (2**64, "an int of 65 bits"),
        (10**5000, "ints lie within signed 64 bits"),
        ({1: "a"}, "key 1 is of type int"),
        ({None: "a"}, "key None is of type NoneType"),
        ({Text("k"): "a"}, "key 'k' is of type Text"),
        ({Colour.RED: "a"}, "key <Colour.RED: 1> is of type Colour"),
    ],
    ids=lambda odd: type(odd).__name__,
)
@pytest.mark.parametrize(
    ("around", "path"),
    [
        (lambda odd: odd, ()),
        (lambda odd: {"sound": [1], "a": odd}, ("a",)),
        (lambda odd: ["\ud83d", {"a": [None, odd]}, object()], (1, "a", 1)),
    ],
    ids=["alone", "in a dict", "beside a surrogate"],
)
def test_what_is_no_lossless_json_is_refused_with_its_path(
    odd: Any, said: str, around: Callable[[Any], Any], path: tuple[str | int, ...]
) -> None:
    """Everything that would not come back equal in value and type is an error that names the value and its place."""
    # when
    error = refusal(encode, around(odd))
    # then
    assert path == error.path
    assert said in error.reason
    assert error.reason in str(error)


class Mute:
    """A value that nobody can look at."""

    def __repr__(self) -> str:
        raise AttributeError


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (Mute(), "an object whose repr fails is of type Mute"),
        ({10**5000: 1}, "key an object whose repr fails is of type int"),
        (datetime(2026, 7, 29, tzinfo=Nowhere()), "is of type datetime"),
    ],
    ids=["no repr", "key of 5000 digits", "no time zone"],
)
def test_a_value_that_fails_when_it_is_read_is_refused_like_any_other(odd: Any, said: str) -> None:
    """Whatever a foreign object raises when it is looked at, the error is this library's and names the place."""
    # when
    error = refusal(encode, [odd])
    # then
    assert error.path == (0,)
    assert said in error.reason


def test_a_wide_value_is_not_a_deep_one() -> None:
    """However many containers stand beside one another, only those inside one another count as depth."""
    check_lossless(lambda given: decode(encode(given)), [[{}] for _ in range(MAX_DEPTH)])


def test_a_sound_value_is_valid() -> None:
    """Validating says nothing of a value that can be encoded."""
    assert validate({"a": [1, 2.5, None, True, "\ud83d"]}) is None


def test_an_unsound_value_is_not_valid() -> None:
    """Validating refuses what encoding refuses, and at the same place."""
    assert refusal(validate, [b"x"]).path == (0,)


def test_a_path_is_written_as_it_is_read() -> None:
    """The error's text starts with the path, keys after dots and indexes in brackets."""
    assert str(refusal(encode, {"content": [{"text": b"x"}]})).startswith("$.content[0].text: b'x' is of type bytes")


def test_surrogates_that_stand_together_stay_two() -> None:
    """Two surrogates that the caller kept apart are not joined into one character."""
    # given
    apart = "\ud83d\ude00"
    # when
    actual = decode(encode([apart, {apart: apart}]))
    # then
    assert [apart, {apart: apart}] == actual
    assert len(actual[0]) == 2


@pytest.mark.parametrize(
    "text", ['["\\ud83d\\ude00"]', '["\\ud83d\\ude00","\\ud83d"]', b'["\\ud83d\\ude00","\\ud83d"]'], ids=ascii
)
def test_parsing_joins_an_escaped_pair(text: Any) -> None:
    """In JSON text an escaped surrogate pair is one character, beside lone ones too."""
    assert parse(text)[0] == "\U0001f600"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NaN",
        "-Infinity",
        '["\\ud83d",NaN]',
        '["\\ud83d",-Infinity]',
        '["\\ud83d",1',
        '["\ud83d",1',
        b'"\xff"',
        b'["\\ud83d","\xff"]',
        "1" * 5000,
        '["\\ud83d",' + "1" * 5000 + "]",
        "9223372036854775808",
        '["\\ud83d",9223372036854775808]',
        "1e400",
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_text_that_holds_no_lossless_json_is_refused(text: Any) -> None:
    """Text that is no JSON, and JSON whose value could not be kept, are the same kind of error."""
    assert isinstance(refusal(parse, text), ValueError)


def test_of_a_repeated_key_the_last_value_is_kept() -> None:
    """A repeated key keeps its first place and its last value."""
    assert list(parse('{"a":1,"b":2,"a":3}')) == ["a", "b"]
    assert parse('{"a":1,"b":2,"a":3}') == {"a": 3, "b": 2}


def test_bytes_that_are_no_json_are_not_decoded() -> None:
    """Bytes that did not come from encoding are an error of this library."""
    assert refusal(decode, b"{").path == ()
    assert refusal(decode, b'"\\ud83d').path == ()


def test_the_edge_of_the_stack_blames_no_sound_value() -> None:
    """Where Python's own stack ends first, the error is Python's and not this library's, since the value is sound."""

    # given
    def encoded_below(frames: int) -> bytes:
        return encoded_below(frames - 1) if frames else encode(value)

    value = nested(200)
    expected = encode(value)
    # when
    outcomes = []
    for frames in range(0, sys.getrecursionlimit(), 20):
        with suppress(RecursionError):
            outcomes.append(encoded_below(frames))
    # then
    assert {expected} == set(outcomes)

"""The header of a session."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_session import InvalidHeaderError, SessionError, SessionHeader
from dsh_session.lossless_json import INT_MAX, MAX_DEPTH
from dsh_session.testing import is_same_json, json_values, texts

LEAST = {"type": "session", "version": 0, "id": "s1", "createdAt": 0}
names = texts().filter(bool)
counts = st.integers(0, INT_MAX)
headers = st.builds(
    SessionHeader,
    id=names,
    created_at=counts,
    cwd=st.none() | st.sampled_from(["/", "/repo/\ud83d", "C:\\repo", r"\\host\share\repo"]),
    parent_session=st.none() | names,
    seed_length=st.none() | counts,
    origin=json_values(),
    delegation_depth=st.none() | counts,
    agent_preset=json_values(),
)


@given(headers)
def test_a_header_that_was_written_reads_back_equal(header: SessionHeader) -> None:
    """`from_wire` makes of `to_wire` an equal header, whose values have their types."""
    # when
    actual = SessionHeader.from_wire(header.to_wire())
    # then
    assert header == actual
    assert is_same_json(header.to_wire(), actual.to_wire())


def test_what_is_not_known_is_not_written() -> None:
    """A header of the two things that are always known is a line of four keys."""
    assert SessionHeader(id="s1", created_at=0).to_wire() == LEAST


def test_a_header_is_written_with_its_keys_in_their_fixed_order() -> None:
    """Everything that is known is written, always in the same order."""
    # given
    header = SessionHeader(
        agent_preset="p",
        delegation_depth=0,
        origin={"kind": "cli"},
        seed_length=0,
        parent_session="s0",
        cwd="/repo",
        created_at=5,
        id="s1",
    )
    # when
    actual = header.to_wire()
    # then
    expected = {
        "type": "session",
        "version": 0,
        "id": "s1",
        "createdAt": 5,
        "cwd": "/repo",
        "parentSession": "s0",
        "seedLength": 0,
        "origin": {"kind": "cli"},
        "delegationDepth": 0,
        "agentPreset": "p",
    }
    assert is_same_json(expected, actual)


def test_the_oldest_headers_have_no_version() -> None:
    """A header without a version is one of the first version."""
    # given
    oldest = {key: value for key, value in LEAST.items() if key != "version"}
    # then
    assert SessionHeader(id="s1", created_at=0) == SessionHeader.from_wire(oldest)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ([], "is the first line of a log"),
        (None, "is the first line of a log"),
        ({**LEAST, "type": "turn/start"}, "is the first line of a log"),
        ({"id": "s1", "createdAt": 0}, "is the first line of a log"),
        ({**LEAST, "version": 1}, "format version 1; this library reads version 0"),
        ({**LEAST, "version": False}, "format version False"),
        ({**LEAST, "version": 0.0}, "format version 0.0"),
        ({**LEAST, "version": None}, "format version None"),
        ({**LEAST, "colour": "red"}, "unknown key 'colour'"),
        ({**LEAST, "colour": "red", 7: 1}, "unknown key 'colour'"),
        ({**LEAST, "created_at": 1}, "unknown key 'created_at'"),
        ({"type": "session", "version": 0, "createdAt": 0}, "id is 'missing'"),
        ({"type": "session", "version": 0, "id": "s1"}, "createdAt is 'missing'"),
        ({**LEAST, "id": ""}, "id is ''; it is a non-empty str"),
        ({**LEAST, "id": 7}, "id is 7"),
        ({**LEAST, "createdAt": -1}, "createdAt is -1"),
        ({**LEAST, "createdAt": True}, "createdAt is True"),
        ({**LEAST, "createdAt": 1.0}, "createdAt is 1.0"),
        ({**LEAST, "createdAt": INT_MAX + 1}, f"createdAt is {INT_MAX + 1}"),
        ({**LEAST, "cwd": "repo"}, "cwd is 'repo'; it is an absolute path"),
        ({**LEAST, "cwd": ""}, "cwd is ''"),
        ({**LEAST, "cwd": 5}, "cwd is 5"),
        ({**LEAST, "parentSession": ""}, "parentSession is ''"),
        ({**LEAST, "seedLength": -1}, "seedLength is -1; it is an int >= 0"),
        ({**LEAST, "seedLength": False}, "seedLength is False"),
        ({**LEAST, "delegationDepth": 0.5}, "delegationDepth is 0.5"),
        ({**LEAST, "origin": [b"x"]}, "$.origin[0]: b'x' is of type bytes"),
        ({**LEAST, "agentPreset": {"a": {1}}}, "$.agentPreset.a: {1} is of type set"),
    ],
)
def test_a_malformed_header_is_refused_by_name(line: Any, said: str) -> None:
    """A header that lacks something, or holds what no header may, is an error that names it."""
    # when
    with pytest.raises(InvalidHeaderError) as caught:
        SessionHeader.from_wire(line)
    # then
    assert said in str(caught.value)
    assert isinstance(caught.value, SessionError)
    assert isinstance(caught.value, ValueError)


def test_a_header_made_in_python_is_checked_alike() -> None:
    """The attributes have the same rules, whoever gives them."""
    with pytest.raises(InvalidHeaderError, match="cwd is 'repo'"):
        SessionHeader(id="s1", created_at=0, cwd="repo")


def test_a_header_never_changes() -> None:
    """No attribute of a header can be set."""
    # given
    header: Any = SessionHeader(id="s1", created_at=0)
    # when, then
    with pytest.raises(AttributeError):
        header.id = "s2"


def test_a_header_is_a_copy() -> None:
    """Changing what a header was made from, or what it shows, changes no header."""
    origin = {"by": ["somebody"]}
    header = SessionHeader(id="s", created_at=0, origin=origin)

    origin["by"].append("somebody else")
    header.origin["by"].append("a third")
    header.to_wire()["origin"].clear()

    assert header.origin == {"by": ["somebody"]}


def test_a_header_evolves() -> None:
    """A header that is made from another by `attrs.evolve` has everything else of it, and shows it."""
    header = SessionHeader(id="s", created_at=0, origin={"by": ["somebody"]}, agent_preset="p")

    evolved = attrs.evolve(header, id="t")

    assert evolved == SessionHeader(id="t", created_at=0, origin={"by": ["somebody"]}, agent_preset="p")
    assert "origin={'by': ['somebody']}" in repr(evolved)


def test_a_header_too_deep_for_its_line_is_refused() -> None:
    """A value that could stand alone but not inside a header's line is refused when the header is made."""
    origin: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        origin = [origin]

    with pytest.raises(InvalidHeaderError, match="nested deeper"):
        SessionHeader(id="s", created_at=0, origin=origin)

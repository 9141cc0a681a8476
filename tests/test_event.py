"""One event: its envelope, its marker, the predicates that read the marker, and its form on the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from dsh_session import (
    APPEND,
    SURFACE_EVENT_TYPES,
    Append,
    InvalidEventError,
    InvalidSurfaceError,
    NotJSONError,
    Replace,
    SessionError,
    SessionEvent,
    is_append_surface_event,
    is_replacement_surface_event,
    is_surface_event,
    topic_of,
)
from dsh_session.event import checked_sources
from dsh_session.lossless_json import INT_MAX, INT_MIN
from dsh_session.testing import LogBuilder, candidates, is_same_json, logs

CLASSIFY = json.loads((Path(__file__).parent / "vectors" / "classify.json").read_text("utf-8"))
TURN = {"type": "turn/start", "seq": 3, "time": 10, "data": {"turn": 1}}
MESSAGE = {"type": "user/message", "seq": 3, "time": 10, "data": {}, "surfaceOp": "append"}


def refusal(wire: Any) -> InvalidEventError:
    """Return the error that a line of a log is refused with."""
    with pytest.raises(InvalidEventError) as caught:
        SessionEvent.from_wire(wire)
    return caught.value


@given(logs())
@settings(max_examples=40)
def test_an_event_that_was_written_reads_back_equal(events: list[SessionEvent]) -> None:
    """Whatever stands in a log, `from_wire` makes of `to_wire` an equal event."""
    # when
    actual = [SessionEvent.from_wire(event.to_wire()) for event in events]
    # then
    assert events == actual
    assert [topic_of(event) for event in events] == [topic_of(event) for event in actual]


@given(logs())
@settings(max_examples=40)
def test_a_line_that_was_read_is_written_alike(events: list[SessionEvent]) -> None:
    """Whatever line a log has, `to_wire` makes of `from_wire` the same line, with its keys in their fixed order."""
    for event in events:
        # given
        line = event.to_wire()
        # when
        actual = SessionEvent.from_wire(line).to_wire()
        # then
        assert is_same_json(line, actual)
        assert list(line)[:4] == ["type", "seq", "time", "data"]


@pytest.mark.parametrize(
    ("op", "sources", "is_ignorable", "expected"),
    [
        (None, None, False, {}),
        (None, None, True, {"ignorable": True}),
        (APPEND, None, False, {"surfaceOp": "append"}),
        (APPEND, (), False, {"surfaceOp": "append", "sourceEventSeqs": []}),
        (
            Replace(2, 1),
            (1, 2),
            False,
            {"surfaceOp": {"op": "replace", "start": 2, "end": 1}, "sourceEventSeqs": [1, 2]},
        ),
    ],
)
def test_an_event_is_written_with_what_applies_to_it(
    op: Any, sources: Any, is_ignorable: Any, expected: dict[str, Any]
) -> None:
    """The envelope's four keys are always there; marker, provenance and the flag only where they say something."""
    # given
    event = SessionEvent("s", 3, -1, "assistant/message", b'{"a":1}', op, sources, is_ignorable)
    # when
    actual = event.to_wire()
    # then
    assert {"type": "assistant/message", "seq": 3, "time": -1, "data": {"a": 1}, **expected} == actual


def test_the_later_spelling_of_a_range_is_read_and_not_written() -> None:
    """``startSeq`` and ``endSeq`` are read as ``start`` and ``end``."""
    # given
    line = {**MESSAGE, "surfaceOp": {"op": "replace", "startSeq": 2, "endSeq": 1}}
    # when
    event = SessionEvent.from_wire(line)
    # then
    assert Replace(2, 1) == event.surface_op
    assert event.to_wire()["surfaceOp"] == {"op": "replace", "start": 2, "end": 1}


def test_an_event_belongs_to_the_session_that_it_is_read_for() -> None:
    """The session's id is no part of a line, and is given beside it."""
    assert SessionEvent.from_wire(TURN, "s1").session_id == "s1"
    assert not SessionEvent.from_wire(TURN).session_id


@pytest.mark.parametrize(
    ("wire", "rule", "said"),
    [
        ([], "envelope", "list found"),
        ("x", "envelope", "str found"),
        (None, "envelope", "NoneType found"),
        ({**TURN, "seq": -1}, "seq", "seq is -1"),
        ({**TURN, "seq": True}, "seq", "seq is True"),
        ({**TURN, "seq": 3.0}, "seq", "seq is 3.0"),
        ({**TURN, "seq": None}, "seq", "seq is None"),
        ({**TURN, "seq": INT_MAX}, "seq", f"seq is {INT_MAX}"),
        ({key: TURN[key] for key in ("type", "time", "data")}, "seq", "seq is None"),
        ({**TURN, "extra": 1}, "envelope", "unknown key 'extra'"),
        ({**TURN, 7: 1, "extra": 1}, "envelope", "unknown key 'extra'"),
        ({key: TURN[key] for key in ("type", "seq", "time")}, "envelope", "no data"),
        ({**TURN, "ignorable": False}, "envelope", "ignorable is False"),
        ({**TURN, "ignorable": 1}, "envelope", "ignorable is 1"),
        ({**TURN, "ignorable": None}, "envelope", "ignorable is None"),
        ({**TURN, "type": ""}, "envelope", "type is ''"),
        ({**TURN, "type": 5}, "envelope", "type is 5"),
        ({key: TURN[key] for key in ("seq", "time", "data")}, "envelope", "type is None"),
        ({**TURN, "time": 1.5}, "envelope", "time is 1.5"),
        ({**TURN, "time": True}, "envelope", "time is True"),
        ({**TURN, "time": "now"}, "envelope", "time is 'now'"),
        ({**TURN, "time": INT_MAX + 1}, "envelope", f"time is {INT_MAX + 1}"),
        ({**TURN, "time": INT_MIN - 1}, "envelope", f"time is {INT_MIN - 1}"),
        ({**TURN, "surfaceOp": "append"}, "marker-on-log-only", "turn/start is log-only"),
        ({**TURN, "surfaceOp": None}, "marker-on-log-only", "not even None"),
        ({**TURN, "surfaceOp": {"op": "bad"}}, "marker-on-log-only", "not even {'op': 'bad'}"),
        ({**TURN, "sourceEventSeqs": [0]}, "sources-on-log-only", "not even [0]"),
        ({**TURN, "sourceEventSeqs": None}, "sources-on-log-only", "not even None"),
        ({**MESSAGE, "surfaceOp": None}, "marker-invalid", "the marker is None"),
        ({**MESSAGE, "surfaceOp": "replace"}, "marker-invalid", "the marker is 'replace'"),
        ({**MESSAGE, "surfaceOp": ["append"]}, "marker-invalid", "the marker is ['append']"),
        ({**MESSAGE, "surfaceOp": {}}, "replace-invalid", "the marker is {}"),
        ({**MESSAGE, "surfaceOp": {"op": "append", "start": 0, "end": 0}}, "replace-invalid", "'op': 'append'"),
        ({**MESSAGE, "surfaceOp": {"op": "replace", "start": 0}}, "replace-invalid", "the marker is {'op'"),
        (
            {**MESSAGE, "surfaceOp": {"op": "replace", "start": 0, "endSeq": 0}},
            "replace-invalid",
            "'endSeq': 0",
        ),
        (
            {**MESSAGE, "surfaceOp": {"op": "replace", "start": 0, "end": 0, "by": 1}},
            "replace-invalid",
            "'by': 1",
        ),
        ({**MESSAGE, "surfaceOp": {"op": "replace", "start": True, "end": 1}}, "replace-invalid", "start"),
        ({**MESSAGE, "surfaceOp": {"op": "replace", "start": 0, "end": 1.0}}, "replace-invalid", "end"),
        ({**MESSAGE, "surfaceOp": {"op": "replace", "start": -1, "end": 1}}, "replace-invalid", "is -1"),
        ({**MESSAGE, "surfaceOp": {"op": "replace", "startSeq": 0, "endSeq": "1"}}, "replace-invalid", "is '1'"),
        ({**MESSAGE, "sourceEventSeqs": None}, "sources-not-array", "provenance is None"),
        ({**MESSAGE, "sourceEventSeqs": {"0": 1}}, "sources-not-array", "provenance is {'0': 1}"),
        ({**MESSAGE, "sourceEventSeqs": "01"}, "sources-not-array", "provenance is '01'"),
        ({**MESSAGE, "sourceEventSeqs": [0, True]}, "sources-type", "provenance holds True"),
        ({**MESSAGE, "sourceEventSeqs": [0.0]}, "sources-type", "provenance holds 0.0"),
        ({**MESSAGE, "sourceEventSeqs": [-1]}, "sources-type", "provenance holds -1"),
        ({**MESSAGE, "sourceEventSeqs": [INT_MAX + 1]}, "sources-type", f"provenance holds {INT_MAX + 1}"),
    ],
)
def test_a_malformed_line_is_refused_by_name(wire: Any, rule: str, said: str) -> None:
    """An envelope, a marker or provenance of another shape is an error that names its rule and what was found."""
    # when
    error = refusal(wire)
    # then
    assert rule == error.rule
    assert said in error.reason
    assert isinstance(error, SessionError)
    assert isinstance(error, ValueError)


def test_a_refused_line_says_where_it_stands() -> None:
    """Once its seq is known, the error of a line carries it."""
    # when
    error = refusal({**MESSAGE, "surfaceOp": {"op": "replace", "start": 0, "end": -2}})
    # then
    assert error.seq == 3
    assert isinstance(error, InvalidSurfaceError)
    assert str(error).startswith("event at seq 3: the end of a replacement is -2")


def test_data_that_is_no_json_is_refused_under_its_key() -> None:
    """The path to what cannot be kept starts at the event's data."""
    # when
    with pytest.raises(NotJSONError) as caught:
        SessionEvent.from_wire({**TURN, "data": {"turn": [b"x"]}})
    # then
    assert caught.value.path == ("data", "turn", 0)


@pytest.mark.parametrize("data", [None, False, 0, -0.0, "", [], {}, "\ud83d"], ids=ascii)
def test_data_is_any_json_value(data: Any) -> None:
    """Null and every other JSON value is data, and is there."""
    assert is_same_json(data, SessionEvent.from_wire({**TURN, "data": data}).data)


@pytest.mark.parametrize("time", [INT_MIN, -1, 0, INT_MAX])
def test_a_time_is_any_int(time: int) -> None:
    """Times before 1970 are times."""
    assert time == SessionEvent.from_wire({**TURN, "time": time}).time


def test_a_type_may_be_any_name() -> None:
    """The vocabulary is open: an unknown type is kept as it is, and is log-only."""
    # when
    event = SessionEvent.from_wire({**TURN, "type": "unheard of \u2028 🐋"})
    # then
    assert event.type == "unheard of \u2028 🐋"
    assert not is_surface_event(event)


@pytest.mark.parametrize("kind", ["nul\0", "half \ud83d"])
def test_a_type_that_no_database_keeps_is_refused(kind: str) -> None:
    """A type stands in a column of text, where a NUL or a surrogate cannot be."""
    with pytest.raises(InvalidEventError, match="no NUL and no surrogate"):
        SessionEvent.from_wire({**TURN, "type": kind})


@pytest.mark.parametrize("end", [True, 1.0, -1, "1", None, INT_MAX + 1])
def test_a_replacement_is_named_by_two_seqs(end: Any) -> None:
    """The ends of a replacement are ints >= 0, and a bool or a float is not one."""
    with pytest.raises(InvalidSurfaceError, match="the end of a replacement is") as caught:
        Replace(0, end)
    assert caught.value.rule == "replace-invalid"
    with pytest.raises(InvalidSurfaceError, match="the start of a replacement is"):
        Replace(end, 0)


def test_provenance_may_be_given_as_a_tuple() -> None:
    """Who appends an event may hold its sources in a list or in a tuple."""
    assert checked_sources((1, 0), "user/message") == checked_sources([1, 0], "user/message") == (1, 0)


@pytest.mark.parametrize("name", ["seq", "time", "type", "encoded_data", "surface_op", "data"])
def test_an_event_never_changes(name: str) -> None:
    """No part of an event can be set."""
    # given
    event = SessionEvent.from_wire(TURN)
    # when, then
    with pytest.raises(AttributeError):
        setattr(event, name, None)


@pytest.mark.parametrize("marker", [APPEND, Replace(0, 1)])
def test_a_marker_never_changes(marker: Any) -> None:
    """No part of a marker can be set."""
    with pytest.raises(AttributeError):
        marker.start = 5


def test_data_is_the_readers_to_change() -> None:
    """Every access gives a fresh value, so nobody changes history through it."""
    # given
    line = {**TURN, "data": {"turn": [1]}}
    event = SessionEvent.from_wire(line)
    # when
    line["data"]["turn"].append(2)
    event.data["turn"].append(3)
    # then
    assert event.data == {"turn": [1]}


def test_markers_are_equal_by_value() -> None:
    """Markers are values: any append is `APPEND`, and a replacement is the range that it names."""
    assert Append() == APPEND
    assert Replace(1, 2) == Replace(1, 2)
    assert Replace(1, 2) != Replace(2, 1)


@given(logs())
@settings(max_examples=40)
def test_the_marker_splits_every_log_in_three(events: list[SessionEvent]) -> None:
    """Every event of a log is append-origin, a replacement or log-only, and is one of them alone."""
    for event in events:
        # when
        is_append, is_replacement = is_append_surface_event(event), is_replacement_surface_event(event)
        # then
        assert is_surface_event(event) == (is_append or is_replacement) == (event.type in SURFACE_EVENT_TYPES)
        assert not (is_append and is_replacement)
        assert is_append == (event.to_wire().get("surfaceOp") == "append")


@pytest.mark.parametrize("case", CLASSIFY, ids=lambda case: case["name"])
def test_a_recorded_log_is_split_as_recorded(case: dict[str, Any]) -> None:
    """The predicates find the append-origin events and the replacements that the original found."""
    # given
    events = [SessionEvent.from_wire(line) for line in case["events"]]
    # when
    append_origin = [event.seq for event in events if is_append_surface_event(event)]
    replacement = [event.seq for event in events if is_replacement_surface_event(event)]
    log_only = [event.seq for event in events if not is_surface_event(event)]
    # then
    assert case["expect"]["appendOrigin"] == append_origin
    assert case["expect"]["replacement"] == replacement
    assert case["expect"]["logOnly"] == log_only


@given(logs().flatmap(candidates))
@settings(max_examples=40)
def test_the_predicates_speak_of_surface_events_alone(event: SessionEvent) -> None:
    """Whatever an event carries, a log-only type is no surface event, nor is a surface type without a marker."""
    # given
    expected = event.type in SURFACE_EVENT_TYPES and event.surface_op is not None
    # then
    assert expected == is_surface_event(event)
    assert (expected and event.surface_op == APPEND) == is_append_surface_event(event)
    assert (expected and event.surface_op != APPEND) == is_replacement_surface_event(event)


@pytest.mark.parametrize("op", [None, APPEND, Replace(0, 0)])
@pytest.mark.parametrize("event_type", ["turn/start", "compact/summary", "unheard-of"])
def test_a_log_only_type_is_no_surface_event(event_type: str, op: Any) -> None:
    """A marker on a log-only event, which no log of ours holds, makes it no part of the surface."""
    # given
    event = SessionEvent("", 1, 0, event_type, b"{}", op)
    # then
    assert not is_surface_event(event)
    assert not is_append_surface_event(event)
    assert not is_replacement_surface_event(event)


def test_the_predicates_look_at_the_event_alone() -> None:
    """An event is classified without its data being read, and whatever happens after it."""
    # given
    event = SessionEvent("", 0, 0, "user/message", b"never decoded", APPEND)
    # then
    assert is_append_surface_event(event)
    assert not is_replacement_surface_event(event)


def test_a_topic_names_the_marker_and_the_type() -> None:
    """A topic tells the reader of an event, before the event is decoded."""
    # given
    log = LogBuilder()
    # when
    log.append("turn/start", {"turn": 1})
    log.append("steering/message", {}, APPEND)
    log.replace("tool/result", {}, 1, 1)
    # then
    assert [topic_of(event) for event in log.events] == [
        "log:turn/start",
        "append:steering/message",
        "replace:tool/result",
    ]

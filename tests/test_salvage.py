"""Lenient reading: what can be trusted of a damaged log goes on, and what was lost is reported line by line."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings

from dsh_session import (
    APPEND,
    Replace,
    Session,
    SessionEvent,
    SessionHeader,
    assistant_message,
    fold_surface,
    lossless_json,
    user_message,
)
from dsh_session.interchange.jsonl import read_jsonl, to_jsonl_line, write_jsonl
from dsh_session.interchange.jsonl_reader import DamagedLogError
from dsh_session.interchange.salvage import SALVAGED_EVENT_TYPE, Damage
from dsh_session.testing import DamagedLog, damaged_logs, logs

HEADER = SessionHeader(id="s1", created_at=17)
HEADER_LINE = lossless_json.encode(HEADER.to_wire())
MESSAGE = user_message("hello", message_id="m")
ANSWER = assistant_message("hi", turn=1, step=1, provider="p", model="m", message_id="a")


def note(seq: int, data: Any = None) -> SessionEvent:
    return SessionEvent("s1", seq, 100 + seq, "note", lossless_json.encode(data))


def said(seq: int, *sources: int, op: Any = APPEND, data: Any = MESSAGE) -> SessionEvent:
    return SessionEvent("s1", seq, 100 + seq, "user/message", lossless_json.encode(data), op, sources or None)


def answered(seq: int, *sources: int) -> SessionEvent:
    return SessionEvent("s1", seq, 100 + seq, "assistant/message", lossless_json.encode(ANSWER), APPEND, sources)


def kept(seq: int, wire: Any, time: int) -> SessionEvent:
    return SessionEvent("s1", seq, time, SALVAGED_EVENT_TYPE, lossless_json.encode(wire), ignorable=True)


def at(seq: int, event: SessionEvent, **rest: Any) -> SessionEvent:
    return msgspec.structs.replace(event, seq=seq, **rest)


def salvaged(*lines: SessionEvent | bytes) -> tuple[list[SessionEvent], list[Damage]]:
    """Read a log of these lines, the first of them line 2 of the file."""
    texts = [HEADER_LINE, *(line if isinstance(line, bytes) else to_jsonl_line(line) for line in lines), b""]
    reader = read_jsonl([b"\n".join(texts)], lenient=True)
    return list(reader), reader.damage


def found(damage: list[Damage]) -> list[tuple[str, int]]:
    return [(one.kind, one.line) for one in damage]


@settings(max_examples=150, deadline=None)
@given(damaged_logs())
def test_a_damaged_log_is_always_salvaged(damaged: DamagedLog) -> None:
    """Whatever happens to a file with a header, lenient reading gives a log that every reader can take.

    Its seqs have no gap, it folds, a session receives it, and up to the first damaged line it is the original.
    """
    try:
        reader = read_jsonl([damaged.data], lenient=True)
    except DamagedLogError:
        assert damaged.sound == b""
        return
    log = list(reader)

    assert list(range(len(log))) == [event.seq for event in log]
    fold_surface(log)
    session = Session(reader.header)
    for event in log:
        session.append_event(event)
    if damaged.sound:
        untouched = list(read_jsonl([damaged.sound]))
        assert untouched == log[: len(untouched)]


@settings(max_examples=40, deadline=None)
@given(damaged_logs(logs=logs(max_moves=8), compress="zstd"))
def test_a_damaged_compressed_log_is_always_salvaged(damaged: DamagedLog) -> None:
    """Damage to compressed bytes is reported, and what was decompressed before it makes a log."""
    try:
        reader = read_jsonl([damaged.data], lenient=True)
    except DamagedLogError:
        return
    log = list(reader)

    assert list(range(len(log))) == [event.seq for event in log]
    fold_surface(log)


@settings(max_examples=40, deadline=None)
@given(logs(max_moves=12))
def test_a_sound_log_is_read_as_it_is(events: list[SessionEvent]) -> None:
    """Lenient reading changes nothing that strict reading takes and that folds, and reports nothing."""
    file = io.BytesIO()
    write_jsonl(file, HEADER, events)
    data = file.getvalue()
    reader = read_jsonl([data], lenient=True)

    assert list(read_jsonl([data])) == list(reader)
    assert reader.damage == []


def test_events_close_up_over_a_lost_line() -> None:
    """After a lost line the seqs go on without a gap, and markers and provenance name what they named before."""
    log, damage = salvaged(
        said(0), b"garbage", said(2), note(3), said(4, 0, 2, op=Replace(0, 2)), answered(5, 3), answered(6)
    )

    assert log == [
        said(0),
        at(1, said(2)),
        at(2, note(3)),
        at(3, said(4, 0, 1, op=Replace(0, 1))),
        at(4, answered(5, 2)),
        at(5, answered(6)),
    ]
    assert damage == [
        Damage(3, "malformed-line", damage[0].reason, lost_bytes=7),
        Damage(
            4,
            "missing-seqs",
            "seq 2 where 1 is next; 1 event is missing, and what follows moves up",
            lost_seqs=range(1, 2),
        ),
    ]


def test_a_log_whose_beginning_is_lost_begins_at_0() -> None:
    """Events close up at the beginning of a log as anywhere else."""
    log, damage = salvaged(note(4), said(5, 4))

    assert log == [at(0, note(4)), at(1, said(5, 0))]
    assert [one.lost_seqs for one in damage] == [range(4)]
    assert damage[0].reason == "seq 4 where 0 is next; 4 events are missing, and what follows moves up"


def test_lost_sources_are_dropped_and_reported() -> None:
    """Provenance keeps what is left of it; an event whose sources are all lost has none, which is not an empty one."""
    log, damage = salvaged(note(0), note(2), answered(3, 0, 1, 2), answered(4, 1))

    assert [one.source_event_seqs for one in log] == [None, None, (0, 1), None]
    assert found(damage) == [("missing-seqs", 3), ("lost-sources", 4), ("lost-sources", 5)]
    assert "[1]" in damage[1].reason


@pytest.mark.parametrize(("start", "end"), [(1, 2), (2, 1)])
def test_a_replacement_of_what_is_lost_is_kept_as_data(start: int, end: int) -> None:
    """A replacement whose range cannot be found is no replacement any more, and changes no surface."""
    replacement = said(3, 1, 2, op=Replace(start, end))

    log, damage = salvaged(said(0), said(2), replacement)

    assert log == [said(0), at(1, said(2)), kept(2, replacement.to_wire(), 103)]
    assert found(damage) == [("missing-seqs", 3), ("unfit-event", 4)]
    assert "seq 1, which is lost" in damage[1].reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (said(1, data={"content": []}), "user/message data"),
        (said(1, op=None), "must carry a marker"),
        (said(1, 0, op=Replace(5, 5)), "no node"),
        (said(1, 7), "no earlier event"),
    ],
)
def test_an_event_that_does_not_fit_is_kept_as_data(line: SessionEvent, reason: str) -> None:
    """It is kept whole, in its place and at its time, and nothing that comes after it moves."""
    log, damage = salvaged(said(0), line, said(2))

    assert log == [said(0), kept(1, line.to_wire(), 101), said(2)]
    assert found(damage) == [("unfit-event", 3)]
    assert reason in damage[0].reason


def test_provenance_that_names_later_events_is_not_mended_by_damage() -> None:
    """An event that was wrong before the damage is kept as data after it too."""
    log, damage = salvaged(note(1), said(2, 2))

    assert [event.type for event in log] == ["note", SALVAGED_EVENT_TYPE]
    assert found(damage) == [("missing-seqs", 2), ("unfit-event", 3)]


def test_a_repeated_event_is_dropped_when_it_is_the_same() -> None:
    """The same event twice is one event, also behind a gap, and a different one under its seq is kept as data."""
    log, damage = salvaged(note(0), note(2), note(0), note(2), note(2, "other"), note(1), note(3), note(3))

    assert log == [
        note(0),
        at(1, note(2)),
        kept(2, note(2, "other").to_wire(), 102),
        kept(3, note(1).to_wire(), 101),
        at(4, note(3)),
    ]
    assert found(damage) == [("missing-seqs", 3), *(("repeated-seq", line) for line in (4, 5, 6, 7, 9))]


def test_an_event_with_a_damaged_seq_does_not_drag_the_rest_along() -> None:
    """A seq beyond that of the next event is what is wrong; what comes after it is in order."""
    log, damage = salvaged(note(0), note(91), note(2), note(3))

    assert log == [note(0), kept(1, note(91).to_wire(), 191), note(2), note(3)]
    assert found(damage) == [("misplaced-seq", 3), ("missing-seqs", 4)]


def test_a_record_that_is_no_event_is_kept_as_data() -> None:
    """An object with a damaged envelope takes a place of its own, at the time of the event before it."""
    broken = {"type": "note", "sfq": 1, "time": 5, "data": {"x": [1.0, "\ud83d"]}}

    log, damage = salvaged(lossless_json.encode(broken), note(0), lossless_json.encode(broken), note(2))

    assert log == [kept(0, broken, 17), at(1, note(0)), kept(2, broken, 100), at(3, note(2))]
    assert found(damage) == [("malformed-record", 2), ("malformed-record", 4), ("missing-seqs", 5)]


def test_a_record_that_is_no_event_is_not_taken_for_the_missing_one() -> None:
    """Nobody knows that what stands in the place of a lost event was this event, so its seq stays lost."""
    log, damage = salvaged(note(0), b'{"type":"note"}', note(2), answered(3, 0, 1, 2))

    assert log[2:] == [note(2), answered(3, 0, 2)]
    assert found(damage) == [("malformed-record", 3), ("missing-seqs", 4), ("lost-sources", 5)]


def test_a_malformed_row_is_kept_as_data_and_its_events_are_missing() -> None:
    """A row is read whole or not at all: none of its pieces comes into the log, and their seqs are reported."""
    row = {"type": "text-chunks", "seq0": 1, "time0": 1, "data": {"texts": ["a", "b"]}}

    log, damage = salvaged(note(0), lossless_json.encode(row), note(3))

    assert log == [note(0), kept(1, row, 100), at(2, note(3))]
    assert found(damage) == [("malformed-record", 3), ("missing-seqs", 4)]
    assert damage[1].lost_seqs == range(1, 3)


def test_a_repeated_row_is_dropped_piece_by_piece() -> None:
    """The pieces of a row are events: those that are there already are dropped, the others are kept as data."""
    texts = ["a", "b", "c"]
    data = {"turn": 1, "step": 1, "index": 0, "dt": [0, 0], "texts": texts}
    row = {"type": "text-chunks", "seq0": 0, "time0": 1, "data": data}
    other = row | {"data": data | {"texts": ["a", "x", "c"]}}

    log, damage = salvaged(lossless_json.encode(row), lossless_json.encode(other))

    assert [event.type for event in log] == ["assistant/chunk"] * 3 + [SALVAGED_EVENT_TYPE]
    assert log[3].data["data"]["chunk"]["text"] == "x"
    assert found(damage) == [("repeated-seq", 3)] * 3


def test_what_is_nested_too_deep_to_be_kept_is_lost() -> None:
    """Data as deep as any may be cannot be kept inside of more data; then its seq is lost, and the rest goes on."""
    deep: list[Any] = []
    for _ in range(lossless_json.MAX_DEPTH - 1):
        deep = [deep]
    log, damage = salvaged(note(0), said(1, data=deep), said(2, 0, 1))

    assert log == [note(0), at(1, said(2, 0))]
    assert found(damage) == [("unfit-event", 3), ("lost-sources", 4)]
    assert damage[0].reason.endswith("; lost, since it is nested too deep to be kept as data")


def test_a_malformed_record_that_is_nested_too_deep_is_lost() -> None:
    """A record that is no event, and that no event can hold, is reported as lost."""
    deep = b"[" * lossless_json.MAX_DEPTH + b"]" * lossless_json.MAX_DEPTH
    line = to_jsonl_line(note(1)).removesuffix(b"}") + b',"x":' + deep + b"}"
    log, damage = salvaged(note(0), line, note(2))

    assert log == [note(0), at(1, note(2))]
    assert found(damage) == [("malformed-record", 3), ("malformed-record", 3), ("missing-seqs", 4)]
    assert damage[1].reason == "lost, since it is nested too deep to be kept as data"


@pytest.mark.parametrize(
    ("line", "kind", "lost_bytes", "seqs", "missing"),
    [
        (to_jsonl_line(note(1)) + to_jsonl_line(note(2)), "glued-records", 0, [1, 2], []),
        (to_jsonl_line(note(1)) + b" \t\r" + to_jsonl_line(note(2)) + b"\r", "glued-records", 0, [1, 2], []),
        (b"\0\0" + to_jsonl_line(note(1)) + b"\0\0\0" + to_jsonl_line(note(2)), "nul-run", 5, [1, 2], []),
        (to_jsonl_line(note(1))[:9] + b"\0" + to_jsonl_line(note(2)), "nul-run", 10, [2], [range(1, 2)]),
        (to_jsonl_line(note(1)) + to_jsonl_line(note(2))[:9], "malformed-line", 9, [1], [range(2, 3)]),
        (to_jsonl_line(note(1)) + b"{\xff", "malformed-line", 2, [1], [range(2, 3)]),
        (to_jsonl_line(note(1)) + b',"x"', "malformed-line", len(to_jsonl_line(note(1))) + 4, [], [range(1, 3)]),
        (b'{"type":"note","seq":1,"time":1,"data":NaN}{}', "malformed-line", 45, [], [range(1, 3)]),
        (b"[" * 5000, "malformed-line", 5000, [], [range(1, 3)]),
        (b'{"a":' * 5000, "malformed-line", 25_000, [], [range(1, 3)]),
    ],
)
def test_the_whole_records_of_a_damaged_line_are_read(
    line: bytes, kind: str, lost_bytes: int, seqs: list[int], missing: list[range]
) -> None:
    """Records stand between NUL bytes and next to one another; one that something else follows is not trusted."""
    log, damage = salvaged(note(0), line, note(3))

    assert [event.time - 100 for event in log] == [0, *seqs, 3]
    assert (damage[0].kind, damage[0].line, damage[0].lost_bytes) == (kind, 3, lost_bytes)
    assert [one.lost_seqs for one in damage[1:]] == missing


def test_the_header_once_more_is_dropped() -> None:
    """A header that a writer repeated says nothing new."""
    log, damage = salvaged(note(0), HEADER_LINE, note(1))

    assert log == [note(0), note(1)]
    assert found(damage) == [("second-header", 3)]
    assert damage[0].reason == "the session's header once more; dropped"


def test_another_session_s_header_ends_the_log() -> None:
    """What follows the header of another session is that session's, and is not taken for this one's."""
    log, damage = salvaged(note(0), HEADER_LINE.replace(b'"s1"', b'"s2"'), note(1))

    assert log == [note(0)]
    assert found(damage) == [("second-header", 3)]
    assert "another session" in damage[0].reason


def test_damage_before_the_header_is_passed_over() -> None:
    """The header is the first whole record, whatever stands before it."""
    reader = read_jsonl([b"\0\0\n" + HEADER_LINE + to_jsonl_line(note(0)) + b"\n"], lenient=True)

    assert (reader.header, list(reader)) == (HEADER, [note(0)])
    assert found(reader.damage) == [("nul-run", 1), ("glued-records", 2)]


def test_what_cannot_be_decompressed_is_reported() -> None:
    """The events before damage to compressed bytes are read, and the damage is in the report."""
    frame = zstandard.compress(HEADER_LINE + b"\n" + to_jsonl_line(note(0)) + b"\n")
    reader = read_jsonl([frame + b"no frame"], lenient=True)

    assert list(reader) == [note(0)]
    assert found(reader.damage) == [("compression", 3)]


def test_damage_is_reported_in_the_order_of_the_lines() -> None:
    """A report reads from the top of the file to its end, however far ahead the reader looks."""
    _, damage = salvaged(note(0), note(2), b"garbage", said(3, 1), b"more garbage")

    assert found(damage) == [
        ("missing-seqs", 3),
        ("malformed-line", 4),
        ("lost-sources", 5),
        ("malformed-line", 6),
    ]

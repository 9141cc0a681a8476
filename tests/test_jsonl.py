"""Interchange: what is written is what is read, in constant memory, and strict reading stops at damage."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_session import (
    APPEND,
    InvalidSurfaceError,
    Replace,
    SessionError,
    SessionEvent,
    SessionHeader,
    lossless_json,
    user_message,
)
from dsh_session.interchange.compression import MissingZstandardError
from dsh_session.interchange.jsonl import read_jsonl, to_jsonl_line, write_jsonl
from dsh_session.interchange.jsonl_reader import DamagedLogError
from dsh_session.testing import json_values, logs, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = SessionHeader(id="s1", created_at=1_700_000_000_000, cwd="/repo", origin={"kind": "fork \u2028"})
MESSAGE = user_message("hello", message_id="m")
LAW = settings(max_examples=40, deadline=None)
NOT_READ_STRICTLY = {
    "packages-support-acp-snapshot-fixtures-suite-authored-error.jsonl": "written by hand, it begins at seq 1",
}
SKIPPABLE = b"\x5f\x2a\x4d\x18\x03\x00\x00\x00any"


def event(seq: int, data: Any = None, kind: str = "note", **rest: Any) -> SessionEvent:
    return SessionEvent("s1", seq, 0, kind, lossless_json.encode(data), **rest)


def written(events: list[SessionEvent], header: SessionHeader = HEADER, **options: Any) -> bytes:
    file = io.BytesIO()
    write_jsonl(file, header, events, **options)
    return file.getvalue()


def as_read(event: SessionEvent) -> SessionEvent:
    """Return an event as a file can hold it: in its session, and without two halves of a character apart."""
    data = lossless_json.encode(lossless_json.parse(event.encoded_data))
    return msgspec.structs.replace(event, session_id="s1", encoded_data=data)


def read(data: bytes) -> list[SessionEvent]:
    return list(read_jsonl(io.BytesIO(data)))


def refusal(data: bytes) -> DamagedLogError:
    with pytest.raises(DamagedLogError) as caught:
        read(data)
    return caught.value


@LAW
@given(logs(max_moves=12), st.booleans(), st.sampled_from([None, "zstd"]), st.integers(1, 400))
def test_what_is_written_is_what_is_read(
    events: list[SessionEvent], pack: bool, compress: Any, block_size: int
) -> None:
    """A written log reads as its header and its events, packed or not, compressed or not, in blocks of any size."""
    data = written(events, pack=pack, compress=compress)
    reader = read_jsonl(data[at : at + block_size] for at in range(0, len(data), block_size))

    assert reader.header == HEADER
    assert list(map(as_read, events)) == list(reader)
    assert reader.damage == []
    assert reader.bytes_read == len(data)


@LAW
@given(texts().filter(bool), json_values())
def test_any_type_and_any_data_come_back(kind: str, data: Any) -> None:
    """Types and data are open: whatever an event may be called and hold, it is read as it was written."""
    kind = re.sub("[\0\ud800-\udfff]", "?", kind)  # what no type holds
    expected = [as_read(event(seq, data, kind, ignorable=True)) for seq in range(3)]

    assert expected == read(written(expected))


@LAW
@given(logs(max_moves=12), st.data())
def test_a_log_cut_anywhere_reads_as_its_whole_records(events: list[SessionEvent], draw: st.DataObject) -> None:
    """A log that ends early is no error: the records before the cut are read, and the torn one is reported."""
    data = written(events, pack=False)
    header_length = data.index(b"\n")
    cut = draw.draw(st.integers(header_length, len(data)))
    whole_lines, torn = data[:cut].count(b"\n"), data[:cut].rpartition(b"\n")[2]
    is_whole = data[cut : cut + 1] == b"\n"
    expected = events[: max(whole_lines - 1 + is_whole, 0)]

    reader = read_jsonl(io.BytesIO(data[:cut]))

    assert list(map(as_read, expected)) == list(reader)
    lost = [] if is_whole or not torn else [("torn-tail", whole_lines + 1, len(torn))]
    assert lost == [(damage.kind, damage.line, damage.lost_bytes) for damage in reader.damage]


@LAW
@given(logs(max_moves=12).filter(lambda events: len(events) > 1), st.booleans(), st.data())
def test_a_line_dropped_or_repeated_is_an_error(
    events: list[SessionEvent], is_dropped: bool, draw: st.DataObject
) -> None:
    """Strict reading gives the events up to the first line whose seq is not the next one, and names that line."""
    lines = written(events, pack=False).splitlines(keepends=True)
    at = draw.draw(st.integers(1, len(lines) - 2))
    lines[at : at + 1] = [] if is_dropped else [lines[at]] * 2
    wrong = at if is_dropped else at + 1
    reader = iter(read_jsonl([b"".join(lines)]))

    assert list(map(as_read, events[: wrong - 1])) == list(islice(reader, wrong - 1))
    with pytest.raises(DamagedLogError) as caught:
        next(reader)
    assert caught.value.line == wrong + 1


def test_a_torn_tail_keeps_the_records_before_the_tear() -> None:
    """Whole records that stand glued before a torn one on the last line are read, and only the rest is reported."""
    data = written([event(0), event(1), event(2)])
    lines = data.splitlines()
    reader = read_jsonl([lines[0] + b"\n" + lines[1] + lines[2] + b" " + lines[3][:-1]])

    assert list(reader) == [event(0), event(1)]
    assert [(damage.kind, damage.line, damage.lost_bytes) for damage in reader.damage] == [
        ("torn-tail", 2, len(lines[3]) - 1)
    ]


def test_nul_bytes_after_the_last_record_are_a_torn_tail() -> None:
    """A file system that crashed leaves NUL bytes where data was to be: they are reported, and no error."""
    reader = read_jsonl([written([event(0)])[:-1] + b"\0" * 5000])

    assert list(reader) == [event(0)]
    assert [(damage.kind, damage.lost_bytes) for damage in reader.damage] == [("torn-tail", 5000)]


def test_only_a_newline_parts_lines() -> None:
    """U+2028, U+0085 and carriage returns are text; a carriage return before a newline is white space."""
    text = "one\u2028two\x85three\x0cfour\rfive"
    data = written([event(0, text)])
    raw = b'{"type":"note","seq":0,"time":0,"data":"%b"}\r\n' % "one\u2028two\x85three".encode()

    assert read(data)[0].data == text
    assert read(data.replace(b"\n", b"\r\n"))[0].data == text
    assert read(data.partition(b"\n")[0] + b"\n" + raw)[0].data == "one\u2028two\x85three"


def test_a_byte_order_mark_and_blank_lines_are_passed_over() -> None:
    """What editors and scripts leave around the records is no damage."""
    header, line = written([event(0)]).splitlines()
    reader = read_jsonl([b"\xef\xbb\xbf" + header + b"\r\n\n  \n" + line + b"\n\n\t\n"])

    assert list(reader) == [event(0)]
    assert reader.damage == []


def test_escaped_surrogates_read_as_the_character_that_they_make() -> None:
    """A file from elsewhere may escape every character: two halves make one, and a lone half stays."""
    line = b'{"type":"note","seq":0,"time":0,"data":["\\ud83d\\ude00","\\ud83d"]}'

    assert read(written([]) + line)[0].data == ["😀", "\ud83d"]


def test_data_nested_as_deep_as_any_may_be_comes_back() -> None:
    """The line of an event is deeper than its data, and that counts against nobody."""
    deep: list[Any] = []
    for _ in range(lossless_json.MAX_DEPTH - 1):
        deep = [deep]

    assert read(written([event(0, deep)])) == [event(0, deep)]


def test_a_header_alone_is_a_log() -> None:
    """A session without events has a log of one line, and the line needs no end."""
    assert read(written([])) == read(written([]).rstrip()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n \n",
        b"\0\0\0",
        b'{"type":"session"',
        b'{"type":"note","seq":0,"time":0,"data":null}',
        b"[]",
        b"\x28\xb5",
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_a_file_without_a_header_is_no_log(data: bytes, lenient: bool) -> None:
    """Without a header there is no session, so that even lenient reading refuses the file on opening."""
    with pytest.raises(DamagedLogError, match=r"^<stream>:1: .*session header"):
        read_jsonl([data], lenient=lenient)


@pytest.mark.parametrize("lenient", [False, True])
def test_the_damage_that_took_the_header_is_named(lenient: bool) -> None:
    """A file whose header is lost in damage is refused with the damage, and one that is sound without any."""
    frame = zstandard.compress(written([event(0)]))
    damaged = frame[:10] + bytes(byte ^ 0xFF for byte in frame[10:])

    for data, reason in [
        (frame[:20], r"no session header; .* \(the compressed data ends inside a frame\)$"),
        (damaged, r"zstd .*error"),
        (b'{"type":"session"', r"no session header; .* \(the last record is incomplete: .*\)$"),
        (b"", r"no session header; the first record of a log is one$"),
    ]:
        with pytest.raises(DamagedLogError, match=reason):
            read_jsonl([data], lenient=lenient)


def test_a_strict_refusal_tells_of_nothing_that_was_not_done() -> None:
    """What lenient reading does with a second header is no part of strict reading's refusal of it."""
    header = written([])

    assert refusal(header * 2).reason == "the session's header once more"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"not JSON", "JSON"),
        (b"[1]", "list found; a record is one JSON object"),
        (b'{"type":"note","seq":0,"time":0,"data":NaN}', "JSON"),
        (b'{"type":"note","seq":0,"time":0,"data":18446744073709551616}', "64 bits"),
        (b'{"type":"note","seq":0,"time":0,"data":"\xff"}', "UTF-8"),
        (b'{"type":"note","seq":0,"time":0,"data":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested deeper"),
        (b'{"type":"note","seq":0,"time":0}', "no data"),
        (b'{"type":"note","seq":0,"time":0,"data":1,"x":1}', "unknown key 'x'"),
        (b'{"type":"note","seq":1,"time":0,"data":1}', "seq 1 found; seq 0 is next"),
        (b'{"type":"text-chunks","seq0":0,"time0":0,"data":{}}', "malformed text-chunks row"),
        (b'{"type":"session","version":0,"id":"s1","createdAt":1}', "header once more"),
        (b'{"type":"session","version":0,"id":"s2","createdAt":1}', "another session's log begins here"),
        (to_jsonl_line(event(0)) + to_jsonl_line(event(1)), "2 records stand on one line"),
        (to_jsonl_line(event(0)) + b"\0\0", "2 NUL bytes"),
    ],
)
def test_strict_reading_stops_at_damage(line: bytes, reason: str, tmp_path: Path) -> None:
    """Damage that is not the tail is an error with the file's name, the line and the reason."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(written([]) + line + b"\n" + to_jsonl_line(event(0)))

    with pytest.raises(DamagedLogError) as caught:
        list(read_jsonl(path))

    error = caught.value
    assert (error.source, error.line) == (str(path), 2)
    assert reason in error.reason
    assert str(error) == f"{path}:2: {error.reason}"
    assert isinstance(error, SessionError)
    assert isinstance(error, ValueError)


def test_a_reader_closes_the_file_that_it_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed at the end, on leaving the reader, and when it is no log; a file of the caller's stays open."""
    path, other = tmp_path / "log.jsonl", tmp_path / "other.jsonl"
    path.write_bytes(written([event(0), event(1)]))
    other.write_bytes(b"[]")
    opened: list[Any] = []
    monkeypatch.setattr(Path, "open", lambda self, mode: opened.append(io.FileIO(self, mode)) or opened[-1])

    assert len(list(read_jsonl(path))) == 2
    with read_jsonl(path) as reader:
        next(iter(reader))
    with pytest.raises(DamagedLogError):
        read_jsonl(os.fspath(other))

    assert [file.closed for file in opened] == [True, True, True]
    with io.BytesIO(written([])) as file:
        list(read_jsonl(file))
        assert not file.closed


def test_concatenated_and_skippable_frames_are_one_log() -> None:
    """Frames may be appended one by one, with skippable ones around them."""
    lines = written([event(0), event(1)]).splitlines(keepends=True)
    data = SKIPPABLE + b"".join(zstandard.compress(line) for line in lines) + SKIPPABLE

    assert read(data) == [event(0), event(1)]


def test_a_compressed_log_that_is_cut_short_has_a_torn_tail() -> None:
    """What can be decompressed of it is read, and that its end is missing is reported."""
    lines = written([event(0), event(1)]).splitlines(keepends=True)
    frames = [zstandard.compress(line) for line in lines]
    reader = read_jsonl([b"".join(frames)[:-1]])

    found = list(reader)

    assert found[:1] == [event(0)]
    assert [damage.kind for damage in reader.damage][-1] == "torn-tail"
    assert "inside a frame" in reader.damage[-1].reason


def test_compressed_bytes_that_are_damaged_are_an_error() -> None:
    """A frame that cannot be decompressed ends strict reading, with the line that it would have gone on with."""
    data = zstandard.compress(written([event(0)])) + b"no frame"
    reader = read_jsonl([data])
    events = iter(reader)

    assert next(events) == event(0)
    with pytest.raises(DamagedLogError) as caught:
        next(events)
    assert caught.value.line == 3


def test_without_the_package_a_compressed_log_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says which extra to install, and nothing is left where the log was to be written."""
    data = written([], compress="zstd")
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(MissingZstandardError, match=r"dsh-session\[zstd\]"):
        read_jsonl([data])
    with pytest.raises(ImportError):
        write_jsonl(tmp_path / "log.jsonl.zst", HEADER, [])
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_written_to_a_path_as_a_whole(tmp_path: Path) -> None:
    """The file at a path, or behind a link, is replaced when everything is written; its ending says to compress it."""
    path = tmp_path / "log.jsonl.zst"
    link = tmp_path / "link.jsonl.zst"
    path.write_bytes(b"what was there before")
    link.symlink_to(path)

    assert write_jsonl(link, HEADER, [event(0), event(1)]) == 2

    assert path.read_bytes().startswith(b"\x28\xb5\x2f\xfd")
    assert list(read_jsonl(str(path))) == [event(0), event(1)]
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_a_log_that_fails_to_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    """A seq that is not the next one is refused, as nobody could read it, and the old file stays."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"what was there before")

    with pytest.raises(InvalidSurfaceError, match="seq 1") as caught:
        write_jsonl(path, HEADER, [event(0), event(2)])

    assert (caught.value.rule, caught.value.seq) == ("seq", 2)
    assert path.read_bytes() == b"what was there before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """What is at a path and is no regular file is where the bytes are to go."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received: list[bytes] = []
    reading = threading.Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    reading.start()

    write_jsonl(path, HEADER, [event(0)])
    reading.join(timeout=5)

    assert received == [written([event(0)])]
    assert path.is_fifo()


@LAW
@given(logs(max_moves=12))
def test_a_line_is_the_event_s_wire_form(events: list[SessionEvent]) -> None:
    """Written without decoding its data, a line is the JSON text of the event's wire form, key by key."""
    for one in events:
        assert list(one.to_wire().items()) == list(lossless_json.decode(to_jsonl_line(one)).items())


def test_a_line_is_compact_and_readable() -> None:
    """A line holds raw UTF-8 and no white space."""
    one = event(7, MESSAGE | {"x": "größe\u2028"}, "user/message", surface_op=Replace(3, 2), source_event_seqs=(2, 3))
    appended = event(8, None, "assistant/message", surface_op=APPEND, source_event_seqs=())

    assert to_jsonl_line(one).decode() == (
        '{"type":"user/message","seq":7,"time":0,"data":{"id":"m","role":"user","source":{"kind":"user"},"content":'
        '[{"type":"text","text":"hello"}],"x":"größe\u2028"},"surfaceOp":{"op":"replace","start":3,"end":2},'
        '"sourceEventSeqs":[2,3]}'
    )
    assert to_jsonl_line(appended).endswith(b'"data":null,"surfaceOp":"append","sourceEventSeqs":[]}')


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_memory_does_not_grow_with_the_log(compress: Any) -> None:
    """A log of some megabytes is written and read in a fraction of its size."""

    def many() -> Iterator[SessionEvent]:
        return (event(seq, "x" * 1000) for seq in range(5000))

    class Discard(io.RawIOBase):
        size = 0

        def write(self, data: Any, /) -> int:
            self.size += len(data)
            return len(data)

    data = b"".join([written([]), *(to_jsonl_line(one) + b"\n" for one in many())])
    compressed = zstandard.compress(data) if compress else data
    out: Any = Discard()

    tracemalloc.start()
    write_jsonl(out, HEADER, many(), compress=compress)
    count = sum(1 for _ in read_jsonl(io.BytesIO(compressed)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 5000
    assert out.size == len(data) or compress
    assert peak < len(data) / 4


def test_real_logs_are_read_and_written(corpus: list[Path], tmp_path: Path) -> None:
    """Every real log reads strictly, and what is written of it has the same records and reads as the same log."""
    again = tmp_path / "again.jsonl"
    for path in corpus:
        if path.name in NOT_READ_STRICTLY:
            with pytest.raises(DamagedLogError):
                list(read_jsonl(path))
            continue
        reader = read_jsonl(path)
        events = list(reader)
        write_jsonl(again, reader.header, events)
        records, written_records = (list(map(json.loads, file.read_bytes().splitlines())) for file in (path, again))

        assert reader.damage == [], path
        assert events == list(read_jsonl(again)), path
        assert records[1:] == written_records[1:], path

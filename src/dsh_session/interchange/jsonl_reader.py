"""Reading a session's JSONL line by line: what is whole on each, and a report of what is not."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from dsh_session import lossless_json
from dsh_session.errors import InvalidEventError, InvalidHeaderError, NotJSONError, SessionError
from dsh_session.header import SessionHeader
from dsh_session.interchange.chunk_rows import decode_storage_record
from dsh_session.interchange.compression import BrokenStreamError, decompressed
from dsh_session.interchange.salvage import Damage, Record, salvage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from dsh_session.event import SessionEvent
    from dsh_session.interchange.salvage import DamageKind

_BOM = b"\xef\xbb\xbf"
_NULS = re.compile(rb"\0+")

_scan = json.JSONDecoder().raw_decode


class DamagedLogError(SessionError, ValueError):
    """A file holds no log that can be read as it stands.

    Attributes:
        source: the file's name.
        line: where it is damaged, counted from 1.
        reason: what was found and what would be right.
    """

    def __init__(self, source: str, line: int, reason: str) -> None:
        self.source = source
        self.line = line
        self.reason = reason
        super().__init__(f"{source}:{line}: {reason}")


class JsonlReader:
    """A log that is being read: the iterator over its events that `read_jsonl` returns.

    It goes through the log once. The file that it opened is closed at the end of the log, at an error, and on leaving
    the reader as a context manager.

    Attributes:
        source: the file's name, or ``"<stream>"``.
        header: the session's header, read on opening.
        bytes_read: how much of the source was read, as it is stored there.
        line: where the newest record stands, counted from 1.
        close: closes the file that was opened, if one was.
    """

    def __init__(self, source: str, blocks: Iterable[bytes], close: Callable[[], object], *, is_lenient: bool) -> None:
        self.source = source
        self.bytes_read = 0
        self.line = 1
        self.close = close
        self._is_lenient = is_lenient
        self._damage: list[Damage] = []
        objects = self._objects(self._lines(decompressed(self._counted(blocks))))
        self.header = self._first_header(objects)
        decoded = self._decoded(objects)
        self._events = self._closing(
            salvage(_records(decoded), self._damage, session_id=self.header.id, time=self.header.created_at)
            if is_lenient
            else self._in_order(decoded)
        )

    @property
    def damage(self) -> list[Damage]:
        """What was found wrong so far, by line."""
        return sorted(self._damage, key=lambda damage: damage.line)

    def __iter__(self) -> Iterator[SessionEvent]:
        return self._events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _closing(self, events: Iterator[SessionEvent]) -> Iterator[SessionEvent]:
        try:
            yield from events
        finally:
            self.close()

    def _note(self, line: int, kind: DamageKind, reason: str, lost_bytes: int = 0, *, outcome: str = "") -> None:
        """Report damage, and what lenient reading makes of it.

        Strict reading ends here, except for what a crash leaves of the last record.
        """
        if not self._is_lenient and kind != "torn-tail":
            raise DamagedLogError(self.source, line, reason)
        self._damage.append(Damage(line, kind, f"{reason}; {outcome}" if outcome else reason, lost_bytes))

    def _counted(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.bytes_read += len(block)
            yield block

    def _lines(self, blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
        """Give each line with its number, and whether it is the last one and has no end."""
        number, parts, broken = 1, list[bytes](), None
        try:
            for block in blocks:
                head, *following = block.split(b"\n")
                parts.append(head)
                for part in following:
                    line = b"".join(parts)
                    yield number, line.removeprefix(_BOM) if number == 1 else line, False
                    number += 1
                    parts = [part]
        except BrokenStreamError as error:
            broken = error
        line = b"".join(parts)
        yield number, line.removeprefix(_BOM) if number == 1 else line, True
        if broken is not None:
            self._note(number, "torn-tail" if broken.is_cut else "compression", str(broken))

    def _objects(self, lines: Iterable[tuple[int, bytes, bool]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Give each JSON object with the number of its line, and report what is none. Blank lines are passed over."""
        for number, line, is_last in lines:
            try:
                value = lossless_json.read(line)
            except NotJSONError as error:
                reason = str(error)
            else:
                if type(value) is dict:
                    yield number, value
                    continue
                reason = f"{type(value).__name__} found"
            if not line.strip():
                continue
            objects, lost_bytes = _whole_objects(line)
            if is_last:
                self._note(number, "torn-tail", f"the last record is incomplete: {reason}", lost_bytes)
            elif b"\0" in line:
                self._note(number, "nul-run", f"{line.count(0)} NUL bytes", lost_bytes)
            elif objects and not lost_bytes:
                self._note(number, "glued-records", f"{len(objects)} records stand on one line")
            else:
                self._note(number, "malformed-line", f"{reason}; a record is one JSON object", lost_bytes)
            yield from ((number, whole) for whole in objects)

    def _first_header(self, objects: Iterator[tuple[int, dict[str, Any]]]) -> SessionHeader:
        for number, obj in objects:
            try:
                return SessionHeader.from_wire(obj)
            except InvalidHeaderError as error:
                raise DamagedLogError(self.source, number, str(error)) from None
        cause = f" ({self._damage[-1].reason})" if self._damage else ""
        raise DamagedLogError(self.source, 1, f"no session header; the first record of a log is one{cause}")

    def _decoded(
        self, objects: Iterable[tuple[int, dict[str, Any]]]
    ) -> Iterator[tuple[int, dict[str, Any], list[SessionEvent]]]:
        """Give each object with its line and the events that it stands for, none when it is malformed."""
        for number, obj in objects:
            self.line = number
            if obj.get("type") == "session" and "seq" not in obj:
                if obj.get("id") == self.header.id:
                    self._note(number, "second-header", "the session's header once more", outcome="dropped")
                    continue
                self._note(number, "second-header", "another session's log begins here", outcome="not read")
                return
            try:
                events = decode_storage_record(obj, self.header.id)
            except (InvalidEventError, NotJSONError) as error:
                self._note(number, "malformed-record", str(error))
                events = []
            yield number, obj, events

    def _in_order(self, decoded: Iterable[tuple[int, dict[str, Any], list[SessionEvent]]]) -> Iterator[SessionEvent]:
        next_seq = 0
        for number, _, events in decoded:
            for event in events:
                if event.seq != next_seq:
                    raise DamagedLogError(self.source, number, f"seq {event.seq} found; seq {next_seq} is next")
                next_seq += 1
                yield event


def _records(decoded: Iterable[tuple[int, dict[str, Any], list[SessionEvent]]]) -> Iterator[Record]:
    for number, obj, events in decoded:
        if not events:
            yield Record(number, None, obj)
        wire = obj if "seq" in obj else None
        for event in events:
            yield Record(number, event, wire)


def _whole_objects(line: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the whole JSON objects on a damaged line, and how many of its bytes are no part of one.

    NUL bytes part them, since JSON holds none. An object counts when the line, a NUL byte or another object follows:
    else it is not certain that it ends where it seems to.
    """
    objects, lost_bytes = [], line.count(0)
    for piece in _NULS.split(line):
        text = piece.decode("utf-8", "surrogateescape")
        start = _past_space(text, 0)
        while start < len(text):
            found = _object_at(text, start)
            if found is None:
                lost_bytes += len(text[start:].encode("utf-8", "surrogateescape"))
                break
            value, start = found
            objects.append(value)
    return objects, lost_bytes


def _object_at(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """Return the whole object that begins at a place, and where what follows it begins."""
    if text[start] != "{":
        return None
    try:
        _, end = _scan(text, start)
        value = lossless_json.read(text[start:end].encode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):  # NotJSONError is a ValueError
        return None
    following = _past_space(text, end)
    return (value, following) if text[following : following + 1] in ("", "{") else None


def _past_space(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t\n\r":
        start += 1
    return start

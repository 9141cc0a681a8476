r"""Interchange: a session as JSONL, plain or compressed with Zstandard.

The first line is the header; each further one is an event, or a packed row of stream chunks. Lines part at ``\n``
only. A log is read and written as a stream: memory grows with its longest line and its surface, not with its length.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Protocol, runtime_checkable
from uuid import uuid4

from dsh_session import lossless_json
from dsh_session.errors import InvalidSurfaceError
from dsh_session.event import Replace, SessionEvent
from dsh_session.interchange.chunk_rows import packed, row_to_wire
from dsh_session.interchange.compression import compressing
from dsh_session.interchange.jsonl_reader import JsonlReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsh_session.header import SessionHeader

_BLOCK_SIZE = 1 << 16


@runtime_checkable
class BinaryReader(Protocol):
    """A file open for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, and none at the end."""
        ...


def read_jsonl(
    source: str | os.PathLike[str] | BinaryReader | Iterable[bytes], *, lenient: bool = False
) -> JsonlReader:
    """Read a log, plain or compressed with Zstandard; its first bytes say which.

    Events are checked by themselves, and that their seqs are 0, 1, 2 ... . Whether they fit a surface and hold proper
    messages is checked by the session that receives them. An incomplete last line is what a crash leaves: its whole
    records are read, the rest is reported in ``damage``, and it is no error.

    Args:
        source: a path, a file open for reading bytes, or the bytes in pieces of any size.
        lenient: go on past damage. Then the events fold, whatever the file holds; those of the lines before the first
            damage are the originals; and ``damage`` says what was lost.

    Returns:
        The reader, with the header; iterate over it for the events.

    Raises:
        DamagedLogError: no header, on opening; or, when reading strictly, the first damage, on iterating.
        MissingZstandardError: the log is compressed and the package zstandard is not installed.

    Cost: O(size of the log), in memory for its longest line; lenient reading holds the surface and 8 bytes an event.
    """
    if isinstance(source, (str, os.PathLike)):
        file = Path(source).open("rb")  # noqa: SIM115 - the reader closes it
        try:
            return JsonlReader(str(source), _blocks(file), file.close, is_lenient=lenient)
        except BaseException:
            file.close()
            raise
    name = getattr(source, "name", None)
    blocks = _blocks(source) if isinstance(source, BinaryReader) else source
    return JsonlReader(name if isinstance(name, str) else "<stream>", blocks, lambda: None, is_lenient=lenient)


def write_jsonl(
    target: str | os.PathLike[str] | IO[bytes],
    header: SessionHeader,
    events: Iterable[SessionEvent],
    *,
    pack: bool = True,
    compress: Literal["zstd"] | None = None,
) -> int:
    """Write a log; `read_jsonl` gives back an equal header and equal events.

    One thing JSON text cannot hold: a high surrogate with a low one right behind it, both alone, are read back as the
    one character that they make.

    Args:
        target: a path, or a file open for writing bytes, which is left open. What is at a path is replaced when all is
            written and durable, and until then stays as it was; only a device or a pipe is written to directly.
        header: the session's header.
        events: the whole log, in seq order from 0.
        pack: write runs of stream chunks as packed rows.
        compress: compress with Zstandard; a path that ends in ``.zst`` says so too.

    Returns:
        How many events were written.

    Raises:
        InvalidSurfaceError: a seq is not the next one (``rule`` is ``"seq"``).
        MissingZstandardError: it is to be compressed and the package zstandard is not installed.

    Cost: O(size of the events), in memory for one run of chunks.
    """
    if not isinstance(target, (str, os.PathLike)):
        return _write(target, header, events, pack=pack, compress=compress)
    path = Path(target)
    opened = path.open("wb") if path.exists() and not path.is_file() else _replacing(path.resolve())
    with opened as file:
        return _write(file, header, events, pack=pack, compress="zstd" if path.suffix == ".zst" else compress)


def to_jsonl_line(event: SessionEvent) -> bytes:
    """Write an event as a line of JSONL, without the line's end. Its data is not decoded for that."""
    parts = [b'{"type":%b,"seq":%d,"time":%d,"data":' % (_encoded_type(event.type), event.seq, event.time)]
    parts.append(event.encoded_data)
    marker = event.surface_op
    if isinstance(marker, Replace):
        parts.append(b',"surfaceOp":{"op":"replace","start":%d,"end":%d}' % (marker.start, marker.end))
    elif marker is not None:
        parts.append(b',"surfaceOp":"append"')
    if event.source_event_seqs is not None:
        parts.append(b',"sourceEventSeqs":%b' % lossless_json.encode(list(event.source_event_seqs)))
    parts.append(b',"ignorable":true}' if event.ignorable else b"}")
    return b"".join(parts)


@lru_cache(maxsize=256)
def _encoded_type(event_type: str) -> bytes:
    return lossless_json.encode(event_type)


def _blocks(file: BinaryReader) -> Iterator[bytes]:
    while block := file.read(_BLOCK_SIZE):
        yield block


def _write(
    file: IO[bytes],
    header: SessionHeader,
    events: Iterable[SessionEvent],
    *,
    pack: bool,
    compress: Literal["zstd"] | None,
) -> int:
    count = 0

    def in_order() -> Iterator[SessionEvent]:
        nonlocal count
        for event in events:
            if event.seq != count:
                raise InvalidSurfaceError(f"the next event of this log has seq {count}", rule="seq", seq=event.seq)
            count += 1
            yield event

    with nullcontext(file) if compress is None else compressing(file) as out:
        out.write(lossless_json.encode(header.to_wire()) + b"\n")
        for record in packed(in_order()) if pack else in_order():
            line = (
                to_jsonl_line(record) if isinstance(record, SessionEvent) else lossless_json.encode(row_to_wire(record))
            )
            out.write(line + b"\n")
    return count


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file beside a path, and put it in its place once it is written and durable."""
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every system lets a directory be opened or synced
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

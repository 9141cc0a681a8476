"""Zstandard, as a log's interchange needs it: a stream in, a stream out, and the package imported when it is used."""

from __future__ import annotations

from itertools import chain
from typing import IO, TYPE_CHECKING

from dsh_session.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = frozenset(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
_STEP = 1 << 8  # bytes decompressed at a time, since every four of them may unfold into 128 KiB


class MissingZstandardError(SessionError, ImportError):
    """A log is compressed with Zstandard, or is to be, and the package that does it is not installed."""

    def __init__(self) -> None:
        super().__init__("a log compressed with Zstandard needs the package zstandard: install dsh-session[zstd]")


class BrokenStreamError(SessionError, ValueError):
    """Compressed bytes end too soon, or cannot be decompressed from some point on.

    Attributes:
        is_cut: whether they are sound as far as they go.
    """

    def __init__(self, reason: str, *, is_cut: bool) -> None:
        self.is_cut = is_cut
        super().__init__(reason)


def decompressed(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Give the bytes of a stream, decompressed when its first four are those of a Zstandard frame.

    Frames may follow one another, and skippable ones may stand between them.

    Args:
        blocks: the stream in pieces of any size.

    Raises:
        BrokenStreamError: after all that could be decompressed was given.
        MissingZstandardError: the stream is compressed and the package is not installed.
    """
    start = b""
    blocks = iter(blocks)
    for block in blocks:
        start += block
        if len(start) >= len(_FRAME_MAGIC):
            break
    magic = start[: len(_FRAME_MAGIC)]
    blocks = chain((start,), blocks)
    return _unfolded(blocks) if magic == _FRAME_MAGIC or magic in _SKIPPABLE_MAGIC else blocks


def compressing(file: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """Return a writer that compresses into a file as one frame with a checksum, which ends when the writer is left.

    Raises:
        MissingZstandardError: the package is not installed.
    """
    writer: AbstractContextManager[IO[bytes]] = (
        _zstandard().ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False)
    )
    return writer


def _unfolded(blocks: Iterable[bytes]) -> Iterator[bytes]:
    zstandard = _zstandard()
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    for block in blocks:
        for start in range(0, len(block), _STEP):
            rest = block[start : start + _STEP]
            while rest:
                if frame.eof:
                    frame = decompressor.decompressobj()
                try:
                    yield frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise BrokenStreamError(str(error), is_cut=False) from None
                rest = frame.unused_data
    if not frame.eof:
        raise BrokenStreamError("the compressed data ends inside a frame", is_cut=True)


def _zstandard() -> ModuleType:
    try:
        import zstandard  # noqa: PLC0415 - an extra: only who compresses needs it
    except ImportError:
        raise MissingZstandardError from None
    return zstandard

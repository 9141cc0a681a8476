"""What the command prints: drawn text, JSON, and one line for what went wrong."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from shutil import which
from subprocess import PIPE, Popen
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    from rich.console import Console, RenderableType

    from dsh_session import Damage

_LINE_PADDING: Final = re.compile(r" +$", re.MULTILINE)
_CANNOT_RUN: Final = (126, 127)  # a shell's statuses for a command that it could not start


class CommandError(Exception):
    """What was asked for cannot be done; the text is the one line that says why."""


def complain(reason: str) -> None:
    """Say on stderr, in one line, what went wrong."""
    print(f"dsh-session: {one_line(reason)}", file=sys.stderr)


def terminal() -> ModuleType:
    """Return the room that draws, which needs the extra `terminal`."""
    try:
        from dsh_projections import terminal  # noqa: PLC0415 - only text needs the drawing library
    except ModuleNotFoundError as error:
        raise CommandError(f"drawing needs {error.name}; install dsh-session[terminal], or ask for --json") from None
    return terminal


def console(**options: Any) -> Console:
    """Make a console, which passes over a ``COLUMNS`` that is no number >= 1."""
    from rich.console import Console  # noqa: PLC0415 - as above

    columns = os.environ.get("COLUMNS", "")
    is_width = columns.isascii() and columns.isdigit() and int(columns) >= 1
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS" or is_width}
    return Console(**options, _environ=environ)


def print_drawn(renderables: Iterable[RenderableType], *, is_paged: bool = False) -> None:
    """Print drawn text: in colour on a terminal, and in a pipe plain and without padding.

    Args:
        renderables: what to print; each is printed as soon as it comes, and none is asked for that nobody reads.
        is_paged: whether a terminal gets it through its user's pager.

    Raises:
        CommandError: the pager cannot be run.
    """
    pager = _pager() if is_paged and sys.stdout.isatty() else ""
    with _paging(pager) if pager else nullcontext() as page:
        is_terminal = True if pager else None  # None: Rich looks for itself
        screen = console(file=page, force_terminal=is_terminal, highlight=False, markup=False, emoji=False)
        for renderable in renderables:
            if screen.is_terminal:
                screen.print(renderable)
                continue
            with screen.capture() as captured:
                screen.print(renderable)
            sys.stdout.write(_LINE_PADDING.sub("", captured.get()))


def _pager() -> str:
    """Return the pager that the user names, or else less, as a line for the shell; none where it is empty."""
    return os.environ.get("PAGER", "less" if which("less") else "")


@contextmanager
def _paging(pager: str) -> Iterator[IO[str]]:
    """Open a pager to write to, and wait for its end. Who leaves it has seen enough, which is no error."""
    environ = {"LESS": "FRX", **os.environ}  # as git has it: short text needs no key, and colours and screen are kept
    encoding = sys.stdout.encoding
    process = Popen(pager, shell=True, stdin=PIPE, encoding=encoding, errors="replace", env=environ)  # noqa: S602 - the user's own line
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    with suppress(BrokenPipeError):
        try:
            with process.stdin:
                yield process.stdin
        finally:
            while process.poll() is None:
                with suppress(KeyboardInterrupt):  # the pager had it too, and goes on
                    process.wait()
    if process.returncode in _CANNOT_RUN:
        raise CommandError(f"the pager {pager!r} cannot be run; set PAGER, or give --no-pager")


def print_heading(text: str) -> None:
    """Print a heading."""
    print(f"\n=== {text} ===")


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")


def print_damage(source: object, found: Iterable[Damage]) -> None:
    """Say on stderr what was found wrong in a file, in its order, each line once."""
    for line, damages in groupby(found, attrgetter("line")):
        complain(f"{source}:{line}: {'; '.join(damage.reason for damage in damages)}")


def one_line(text: str) -> str:
    """Make a message safe to print, whatever it quotes."""
    return "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))


def counted(count: int, noun: str) -> str:
    """Write how many there are of something."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def printable(text: str) -> str:
    """Make an id safe to print, with escapes where it needs them."""
    return text if text.isprintable() else ascii(text)


def date_of(unix_ms: int) -> str:
    """Write a time in UTC, to the minute; one that no calendar has is written as it is."""
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return str(unix_ms)

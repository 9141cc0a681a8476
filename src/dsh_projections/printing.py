"""What the command prints: drawn text, JSON, and one line for what went wrong."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from rich.console import RenderableType

    from dsh_session import Damage

_LINE_PADDING: Final = re.compile(r" +$", re.MULTILINE)


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


def print_drawn(renderables: Iterable[RenderableType]) -> None:
    """Print drawn text: in colour on a terminal, and in a pipe plain and without padding."""
    from rich.console import Console  # noqa: PLC0415 - as above

    console = Console(highlight=False, markup=False, emoji=False)
    for renderable in renderables:
        if console.is_terminal:
            console.print(renderable)
            continue
        with console.capture() as captured:
            console.print(renderable)
        sys.stdout.write(_LINE_PADDING.sub("", captured.get()))


def print_heading(text: str) -> None:
    """Print a heading."""
    print(f"\n=== {text} ===")


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")


def print_damage(source: object, found: Iterable[Damage]) -> None:
    """Say on stderr what was found wrong in a file, line by line."""
    for damage in found:
        complain(f"{source}:{damage.line}: {damage.reason}")


def one_line(text: str) -> str:
    """Make a message safe to print, whatever it quotes."""
    return "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))


def printable(text: str) -> str:
    """Make an id safe to print, with escapes where it needs them."""
    return text if text.isprintable() else ascii(text)


def date_of(unix_ms: int) -> str:
    """Write a time in UTC, to the minute; one that no calendar has is written as it is."""
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return str(unix_ms)

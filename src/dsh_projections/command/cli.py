"""The command ``dsh-session``: sessions in, sessions out, and the readers on a terminal.

Exit status 0; 1 when what was asked for failed, with one line on stderr; 2 when it was asked in the wrong way.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from dsh_projections.command import commands
from dsh_projections.command.commands import FAILED, failed
from dsh_projections.command.printing import CommandError, one_line
from dsh_projections.references.projector import MAX_REFERENCE_BYTES
from dsh_session import SessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MISUSED: Final = 2
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: the words after the command's name; those of this process when None.

    Returns:
        The exit status.
    """
    if sys.stdout is None:
        return failed("there is no standard output to write to")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser = _parser()
    options = parser.parse_args(arguments)
    if getattr(options, "follow", False) and (options.json or options.before_seq is not None):
        parser.error("--follow goes on as text from the newest entries: it takes no --json and no --before-seq")
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; what Python still holds for it is dropped quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (SessionError, CommandError, OSError) as error:
        return failed(str(error))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # What a store holds was checked when it came in, and is read without a check; a disk may have changed it since.
        return failed(f"a record is not what it was when it was kept ({error!r}); `dsh-session verify` says which")
    return status


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(MISUSED, f"{self.prog}: {one_line(message)} (--help says more)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dsh-session", description="Keep and read agent sessions.")
    parser.add_argument("--version", action="version", version=f"dsh-session {version('dsh-session')}")
    words = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        added = words.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        added.set_defaults(run=run)
        return added

    def add_store(added: argparse.ArgumentParser) -> None:
        added.add_argument(
            "--store", default=commands.DEFAULT_STORE, help=f"the store (default: {commands.DEFAULT_STORE})"
        )

    def add_json(added: argparse.ArgumentParser) -> None:
        added.add_argument("--json", action="store_true", help="print JSON for a program to read")

    def reader(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        added = command(name, run, summary)
        added.add_argument("source", metavar="ID|FILE", help="a session in the store, or a JSONL file")
        add_store(added)
        add_json(added)
        return added

    importing = command("import", commands.import_logs, "bring JSONL logs into the store")
    importing.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a log, plain or Zstandard")
    importing.add_argument("--lenient", action="store_true", help="keep what can be trusted of a damaged log")
    add_store(importing)

    exporting = command("export", commands.export, "write a session as JSONL")
    exporting.add_argument("session_id", metavar="ID")
    exporting.add_argument("--output", "-o", type=Path, help="a file, compressed if it ends in .zst (default: stdout)")
    add_store(exporting)

    listing = command("ls", commands.list_sessions, "list the sessions of the store")
    add_store(listing)
    add_json(listing)

    transcript = reader("transcript", commands.transcript, "show the human everything that was said")
    transcript.add_argument("--expand", action="store_true", help="show summaries and whole tool results")
    transcript.add_argument("--entries", type=_positive, metavar="N", help="only the newest N entries")
    transcript.add_argument(
        "--before-seq",
        type=int,
        metavar="SEQ",
        help=f"only entries before this seq, the newest {commands.WINDOW_ENTRIES} unless --entries says more or less",
    )
    transcript.add_argument(
        "--follow",
        action="store_true",
        help="go on as the session grows, until interrupted; each entry is printed once, as it stands when it comes: "
        "a call whose result is to come shows as open, and its result follows",
    )
    transcript.add_argument(
        "--no-pager", action="store_true", help="print to a terminal directly, and not through $PAGER (default: less)"
    )

    surface = reader("surface", commands.surface, "show what the model is sent")
    surface.add_argument("--as-of", type=int, metavar="SEQ", help="as it was when this event was the newest")

    explaining = reader("explain", commands.explain, "tell what became of one event")
    explaining.add_argument("seq", type=int, metavar="SEQ")

    referring = reader("reference", commands.reference, "show a session as another one would be shown it, as JSON")
    referring.add_argument("--label", help="what the reader calls the session")
    referring.add_argument("--max-bytes", type=_positive, default=MAX_REFERENCE_BYTES, metavar="N")

    searching = command("search", commands.search, "find what was said, in all sessions of the store")
    searching.add_argument("query", metavar="QUERY", help='words that must all be there; "words in a row"')
    searching.add_argument("--session", metavar="ID", help="only this session")
    searching.add_argument("--limit", type=_positive, default=20, metavar="N", help="hits at most (default: 20)")
    add_store(searching)
    add_json(searching)

    history = reader("history", commands.history, "show one page of raw events")
    history.add_argument("--before-seq", type=int, metavar="N", help="the page before this seq (default: the newest)")
    history.add_argument("--max-messages", type=int, default=50, metavar="M", help="messages a page (default: 50)")

    history.add_argument("--no-chunks", action="store_true", help="leave out the stream chunks of finished messages")

    reader("verify", commands.verify, "check a whole log")

    compacting = command("compact", commands.compact, "put a summary in the place of a range of the surface")
    compacting.add_argument("session_id", metavar="ID")
    compacting.add_argument(
        "--range",
        required=True,
        type=commands.range_of,
        metavar="START..END",
        help="the first and the last node, as `surface` shows",
    )
    compacting.add_argument("--summary-file", required=True, metavar="FILE", help="the summary's text (-: stdin)")
    add_store(compacting)

    command("demo", commands.demo, "show a small session with a compaction, as each reader sees it")
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} found; it is a number >= 1")
    return int(text)

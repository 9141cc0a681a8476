"""The command ``dsh-session``: sessions in, sessions out, and the readers on a terminal.

Exit status 0; 1 when what was asked for failed, with one line on stderr; 2 when it was asked in the wrong way.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import resources
from importlib.util import find_spec
from io import TextIOWrapper
from os.path import isfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs
import msgspec

from dsh_compact import begin_compaction
from dsh_projections.history_pager import HistoryPager
from dsh_projections.human_transcript import HumanTranscript
from dsh_projections.model_surface import ModelSurface
from dsh_projections.projection import replay
from dsh_projections.verify import verify_log
from dsh_session import SessionError, SessionLog, SessionStore, read_jsonl, write_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import ModuleType

    from rich.console import RenderableType

    from dsh_session import Damage, JsonlReader, SessionEvent, SessionHeader

DEFAULT_STORE: Final = "sessions.db"
PROGRESS_FROM_BYTES: Final = 4_000_000

FAILED: Final = 1
MISUSED: Final = 2

_DATABASE_URLS: Final = ("postgresql://", "postgres://")
_LINE_PADDING: Final = re.compile(r" +$", re.MULTILINE)


class CommandError(Exception):
    """What was asked for cannot be done; the text is the one line that says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: the words after the command's name; those of this process when None.

    Returns:
        The exit status.
    """
    if sys.stdout is None:
        return _fail("there is no standard output to write to")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; what Python still holds for it is dropped quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return 130
    except (SessionError, CommandError, OSError) as error:
        return _fail(str(error))
    return status


def _fail(reason: str) -> int:
    _complain(reason)
    return FAILED


def _complain(reason: str) -> None:
    print(f"dsh-session: {_one_line(reason)}", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(MISUSED, f"{self.prog}: {_one_line(message)} (--help says more)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dsh-session", description="Keep and read agent sessions.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=summary, description=summary.capitalize() + ".")
        added.set_defaults(run=run)
        return added

    def add_store(added: argparse.ArgumentParser) -> None:
        added.add_argument("--store", default=DEFAULT_STORE, help=f"the store (default: {DEFAULT_STORE})")

    def add_json(added: argparse.ArgumentParser) -> None:
        added.add_argument("--json", action="store_true", help="print JSON for a program to read")

    def reader(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        added = command(name, run, summary)
        added.add_argument("source", metavar="ID|FILE", help="a session in the store, or a JSONL file")
        add_store(added)
        add_json(added)
        return added

    importing = command("import", _import, "bring JSONL logs into the store")
    importing.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a log, plain or Zstandard")
    importing.add_argument("--lenient", action="store_true", help="keep what can be trusted of a damaged log")
    add_store(importing)

    exporting = command("export", _export, "write a session as JSONL")
    exporting.add_argument("session_id", metavar="ID")
    exporting.add_argument("--output", "-o", type=Path, help="a file, compressed if it ends in .zst (default: stdout)")
    add_store(exporting)

    listing = command("ls", _list, "list the sessions of the store")
    add_store(listing)
    add_json(listing)

    transcript = reader("transcript", _transcript, "show the human everything that was said")
    transcript.add_argument("--expand", action="store_true", help="show summaries and whole tool results")

    reader("surface", _surface, "show what the model is sent")

    history = reader("history", _history, "show one page of raw events")
    history.add_argument("--before-seq", type=int, metavar="N", help="the page before this seq (default: the newest)")
    history.add_argument("--max-messages", type=int, default=50, metavar="M", help="messages a page (default: 50)")

    reader("verify", _verify, "check a whole log")

    compacting = command("compact", _compact, "put a summary in the place of a range of the surface")
    compacting.add_argument("session_id", metavar="ID")
    compacting.add_argument(
        "--range",
        required=True,
        type=_range,
        metavar="START..END",
        help="the first and the last node, as `surface` shows",
    )
    compacting.add_argument("--summary-file", required=True, metavar="FILE", help="the summary's text (-: stdin)")
    add_store(compacting)

    command("demo", _demo, "show a small session with a compaction, as each reader sees it")
    return parser


def _import(options: argparse.Namespace) -> int:
    status = 0
    with SessionStore.open(options.store) as store:
        for path in options.files:
            try:
                _import_file(store, path, is_lenient=options.lenient)
            except (SessionError, OSError) as error:
                status = _fail(str(error))
    return status


def _import_file(store: SessionStore, path: Path, *, is_lenient: bool) -> str:
    with read_jsonl(path, lenient=is_lenient) as log, _progress(path, lambda: log.bytes_read) as tick:
        count = store.import_log(log.header, tick(log))
    print(f"imported {_printable(log.header.id)}: {count} events")
    _print_damage(path, log.damage)
    return log.header.id


@contextmanager
def _progress(
    path: Path, bytes_read: Callable[[], int]
) -> Iterator[Callable[[Iterable[SessionEvent]], Iterator[SessionEvent]]]:
    """Show how far a large file is read, on a terminal only."""
    size = path.stat().st_size
    if size < PROGRESS_FROM_BYTES or not sys.stderr.isatty() or find_spec("rich") is None:
        yield iter
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.markup import escape  # noqa: PLC0415 - as above
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(_one_line(path.name)), total=size)

        def ticking(events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
            for event in events:
                if event.seq % 1000 == 0:
                    progress.update(task, completed=bytes_read())
                yield event

        yield ticking


def _export(options: argparse.Namespace) -> int:
    with _existing_store(options.store) as store:
        write_jsonl(
            options.output or sys.stdout.buffer, store.header(options.session_id), store.log(options.session_id)
        )
    return 0


def _list(options: argparse.Namespace) -> int:
    with _existing_store(options.store) as store:
        found = sorted(
            ((header, len(store.log(header.id))) for header in store.sessions()),
            key=lambda row: row[0].created_at,
        )
    if options.json:
        _print_json([{**header.to_wire(), "events": count} for header, count in found])
        return 0
    rows = [(header.id, _date(header.created_at), str(count), header.cwd or "") for header, count in found]
    _print_drawn([_terminal().draw_rows(("session", "created", "events", "directory"), rows)])
    return 0


def _transcript(options: argparse.Namespace) -> int:
    with _opened(options) as (_, log):
        entries = replay(HumanTranscript(), log).entries
    if options.json:
        _print_json(msgspec.to_builtins(entries))
    else:
        _print_drawn(_terminal().draw_transcript(entries, is_expanded=options.expand))
    return 0


def _surface(options: argparse.Namespace) -> int:
    with _opened(options) as (_, log):
        surface = replay(ModelSurface(), log)
    if options.json:
        _print_json(surface.messages())
    else:
        _print_drawn(_terminal().draw_surface(surface.events()))
    return 0


def _history(options: argparse.Namespace) -> int:
    with _opened(options) as (_, log):
        pager = HistoryPager(log if isinstance(log, SessionLog) else list(log))
        page = pager.page(options.before_seq, options.max_messages)
    if options.json:
        _print_json(
            {
                "firstSeq": page.first_seq,
                "lastSeq": page.last_seq,
                "hasMore": page.has_more,
                "outside": {str(seq): list(outside) for seq, outside in page.outside.items()},
                "events": [event.to_wire() for event in page.events],
            }
        )
    else:
        _print_drawn(_terminal().draw_page(page))
    return 0


def _verify(options: argparse.Namespace) -> int:
    with _opened(options) as (header, log):
        report = verify_log(header, log)
    name = _printable(report.session_id)
    if options.json:
        _print_json(attrs.asdict(report))
    else:
        for warning in report.warnings:
            print(f"warning: {_one_line(warning)}")
    if report.problem is not None:
        return _fail(f"{name}: {report.events} events are sound, then: {report.problem}")
    if not options.json:
        print(f"{name}: sound, {report.events} events, {report.nodes} on the surface, {report.generation} replacements")
    return 0


def _compact(options: argparse.Namespace) -> int:
    source = options.summary_file
    try:
        summary = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        text = summary.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{source}: a summary is UTF-8 text: {error}") from None
    with _existing_store(options.store) as store:
        session = store.load(options.session_id)
        with begin_compaction(session, *options.range) as compaction:
            landed = compaction.commit(text)
        store.save(session)
    print(
        f"compacted {_printable(session.id)}: {len(landed.shadowed_seqs)} nodes of {landed.tokens_before} tokens became"
        f" the checkpoint at seq {landed.checkpoint_seq}, of {landed.tokens_after}"
    )
    return 0


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,18})\.\.([0-9]{1,18})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no range; one is START..END, two seqs")
    return int(found[1]), int(found[2])


def _demo(_: argparse.Namespace) -> int:
    terminal = _terminal()
    with (
        TemporaryDirectory() as folder,
        resources.as_file(resources.files("dsh_projections") / "demo.jsonl") as path,
        SessionStore.open(Path(folder) / DEFAULT_STORE) as store,
    ):
        session_id = _import_file(store, path, is_lenient=False)
        log = store.log(session_id)
        _print_heading("The human's transcript: everything that was said, and where earlier context was compacted")
        _print_drawn(terminal.draw_transcript(replay(HumanTranscript(), log).entries))
        _print_heading("The model's surface: what the next request sends")
        _print_drawn(terminal.draw_surface(replay(ModelSurface(), log).events()))
        _print_heading("One page of history: the raw events of the newest 2 messages")
        _print_drawn(terminal.draw_page(HistoryPager(log).page(max_messages=2)))
    return 0


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[tuple[SessionHeader, SessionLog | JsonlReader]]:
    """Open what a reader reads: a file of that name if there is one, or else a session in the store."""
    if isfile(options.source):  # noqa: PTH113 - this takes a name that no file can have for an id
        with read_jsonl(options.source) as reader:
            yield reader.header, reader
            _print_damage(options.source, reader.damage)
        return
    with _existing_store(options.store) as store:
        yield store.header(options.source), store.log(options.source)


def _existing_store(target: str) -> SessionStore:
    """Open a store to read it; reading makes no file."""
    if not target.startswith(_DATABASE_URLS) and not Path(target).exists():
        raise CommandError(f"no store at {target}; `dsh-session import FILE --store {target}` makes one")
    return SessionStore.open(target)


def _terminal() -> ModuleType:
    try:
        from dsh_projections import terminal  # noqa: PLC0415 - only text needs the drawing library
    except ModuleNotFoundError as error:
        raise CommandError(f"drawing needs {error.name}; install dsh-session[terminal], or ask for --json") from None
    return terminal


def _print_drawn(renderables: Iterable[RenderableType]) -> None:
    from rich.console import Console  # noqa: PLC0415 - as above

    console = Console(highlight=False, markup=False, emoji=False)
    for renderable in renderables:
        if console.is_terminal:
            console.print(renderable)
            continue
        with console.capture() as captured:
            console.print(renderable)
        sys.stdout.write(_LINE_PADDING.sub("", captured.get()))


def _print_heading(text: str) -> None:
    print(f"\n=== {text} ===")


def _print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")


def _print_damage(source: object, found: Iterable[Damage]) -> None:
    for damage in found:
        _complain(f"{source}:{damage.line}: {damage.reason}")


def _one_line(text: str) -> str:
    """Make a message safe to print, whatever it quotes."""
    return "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _date(unix_ms: int) -> str:
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return str(unix_ms)

"""What each word of the command does."""

from __future__ import annotations

import argparse
import re
import sys
from contextlib import ExitStack, contextmanager
from importlib import resources
from importlib.util import find_spec
from itertools import chain
from os.path import exists, isdir, isfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from dsh_compact import begin_compaction
from dsh_projections.classifier import EventClassifier
from dsh_projections.command.printing import (
    CommandError,
    complain,
    console,
    counted,
    date_of,
    one_line,
    print_damage,
    print_drawn,
    print_heading,
    print_json,
    printable,
    terminal,
)
from dsh_projections.history_pager import HistoryPager, PageCursorError
from dsh_projections.human_transcript import HumanTranscript
from dsh_projections.model_surface import ModelSurface
from dsh_projections.projection import replay
from dsh_projections.references.mention import encode_reference_uri
from dsh_projections.references.projector import ReferenceProjector
from dsh_projections.runner import follow
from dsh_projections.search.session_search import SessionSearch
from dsh_projections.session_counts import Counts
from dsh_projections.session_index import SessionIndex
from dsh_projections.transcript_entry import MessageEntry
from dsh_projections.transcript_pager import TranscriptPager
from dsh_projections.verify import verify_log
from dsh_session import (
    EventNotFoundError,
    InvalidEventError,
    SessionError,
    SessionLog,
    SessionStore,
    StoreError,
    read_jsonl,
    write_jsonl,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dsh_projections.transcript_entry import TranscriptEntry
    from dsh_session import JsonlReader, SessionEvent, SessionHeader

DEFAULT_STORE: Final = "sessions.db"
PROGRESS_FROM_BYTES: Final = 4_000_000
WINDOW_ENTRIES: Final = 50
FAILED: Final = 1

_SHOWN_TOPICS: Final = tuple(sorted(HumanTranscript.topics or ()))
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def failed(reason: str) -> int:
    """Say why, and return the exit status of what failed."""
    complain(reason)
    return FAILED


def import_logs(options: argparse.Namespace) -> int:
    """Bring files in, each in a transaction of its own; one that fails does not stop the next.

    The store is opened for the first file that has a header, so that none is made for nothing.
    """
    status, store = 0, None
    with ExitStack() as opened:
        for path in options.files:
            try:
                log = _read(path, is_lenient=options.lenient)
            except (SessionError, CommandError) as error:
                status = failed(str(error))
                continue
            with log:
                if store is None:
                    store = opened.enter_context(SessionStore.open(options.store))
                try:
                    _import_log(store, path, log)
                except (SessionError, CommandError, OSError) as error:
                    status = failed(str(error))
    return status


def _read(path: str | Path, *, is_lenient: bool = False) -> JsonlReader:
    try:
        return read_jsonl(path, lenient=is_lenient)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(name: object, error: OSError) -> CommandError:
    return CommandError(f"{name} cannot be read: {error.strerror or error}")


def _import_log(store: SessionStore, path: Path, log: JsonlReader) -> None:
    with _progress(path, lambda: log.bytes_read) as tick:
        try:
            count = store.import_log(log.header, tick(log))
        except InvalidEventError as error:
            raise CommandError(f"{path}:{log.line}: {error}") from None
    print(f"imported {printable(log.header.id)}: {counted(count, 'event')}")
    print_damage(path, log.damage)


@contextmanager
def _progress(
    path: Path, bytes_read: Callable[[], int]
) -> Iterator[Callable[[Iterable[SessionEvent]], Iterator[SessionEvent]]]:
    """Show how far a large file is read, on a terminal only."""
    size = path.stat().st_size
    if size < PROGRESS_FROM_BYTES or not sys.stderr.isatty() or find_spec("rich") is None:
        yield iter
        return
    from rich.markup import escape  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(one_line(path.name)), total=size)

        def ticking(events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
            for event in events:
                if event.seq % 1000 == 0:
                    progress.update(task, completed=bytes_read())
                yield event

        yield ticking


def export(options: argparse.Namespace) -> int:
    """Write a session as JSONL."""
    with _existing_store(options.store) as store:
        header, log = store.header(options.session_id), store.log(options.session_id)
        try:
            write_jsonl(options.output or sys.stdout.buffer, header, log)
        except OSError as error:
            if options.output is None or isinstance(error, SessionError):
                raise
            raise CommandError(f"{options.output} cannot be written: {error.strerror or error}") from None
    return 0


def list_sessions(options: argparse.Namespace) -> int:
    """List the sessions of a store, the oldest first, with what the index says of each.

    One whose header cannot be read is told of beside them.
    """
    damage: list[SessionError] = []
    with _existing_store(options.store) as store:
        index = SessionIndex(store)
        try:
            index.catch_up()
        except SessionError as error:  # a store that cannot be written, or a record that cannot be read, is listed too
            complain(f"the counts are not up to date: {error}")
        counts = dict(index.views())
        found = sorted(
            (
                (header, len(store.log(header.id)), counts.get(header.id, Counts()))
                for header in store.sessions(on_damage=damage.append)
            ),
            key=lambda row: row[0].created_at,
        )
    if options.json:
        print_json(
            [{**header.to_wire(), "events": length, "counts": attrs.asdict(said)} for header, length, said in found]
        )
    else:
        _print_sessions(found)
    for damaged in damage:
        complain(str(damaged))
    return FAILED if damage else 0


def _print_sessions(found: Iterable[tuple[SessionHeader, int, Counts]]) -> None:
    columns = ("session", "created", "events", "turns", "title", "directory")
    rows = [
        (header.id, date_of(header.created_at), str(length), str(said.turns), said.title or "", header.cwd or "")
        for header, length, said in found
    ]
    print_drawn([terminal().draw_rows(columns, rows)])


def transcript(options: argparse.Namespace) -> int:
    """Show the transcript, or a window of it, or go on showing it as it grows."""
    if options.follow:
        return _follow(options)
    is_window = options.entries is not None or options.before_seq is not None
    limit = options.entries or WINDOW_ENTRIES
    with _opened(options) as (_, log):
        entries: Iterable[TranscriptEntry]
        entries, older_before = _window(log, options.before_seq, limit) if is_window else (_entries(log), None)
        if options.json:
            print_json(msgspec.to_builtins(list(entries)))
            return 0
        drawing = terminal()
        drawn = drawing.draw_transcript(entries, is_expanded=options.expand)
        if is_window:
            drawn = chain(drawn, drawing.draw_window_end(older_before))
        print_drawn(drawn, is_paged=not options.no_pager)
    return 0


def _entries(log: SessionLog | JsonlReader) -> Iterator[TranscriptEntry]:
    """Give the entries of a whole log as it is read, each once no event to come can change it.

    A message is held back while a call of it may still get its result, and what comes after it waits for it.
    """
    transcript = HumanTranscript()
    entries, given = transcript.entries, 0
    for event in log.read(topics=_SHOWN_TOPICS) if isinstance(log, SessionLog) else log:
        transcript.apply(event)
        while given < len(entries) and not _is_waiting(entries[given]):
            yield entries[given]
            given += 1
    yield from entries[given:]


def _is_waiting(entry: TranscriptEntry) -> bool:
    return isinstance(entry, MessageEntry) and any(call.result_seq is None for call in entry.calls)


def _window(
    log: SessionLog | JsonlReader, before_seq: int | None, limit: int
) -> tuple[Sequence[TranscriptEntry], int | None]:
    """Return the newest entries before a seq, and the seq to go back from if there are older ones.

    Of a stored session no more is read than is asked for.
    """
    if isinstance(log, SessionLog):
        end = len(log) if before_seq is None else before_seq
        found = TranscriptPager(log).window(end, limit + 1).entries
    else:
        transcript, length = HumanTranscript(), 0
        for event in log:
            length = event.seq + 1
            if before_seq is None or event.seq < before_seq:
                transcript.apply(event)
        if before_seq is not None and not 0 <= before_seq <= length:
            raise PageCursorError(f"before_seq is {before_seq}; this log has seqs from 0 to {length}", before_seq)
        found = transcript.entries
    entries = found[-limit:]
    return entries, entries[0].seq if len(found) > limit else None


def _follow(options: argparse.Namespace) -> int:
    """Print each entry once, as it stands when it comes."""
    if isfile(options.source):  # noqa: PTH113 - this takes a name that no file can have for an id
        raise CommandError(f"{options.source} is a file; --follow needs a session in a store")
    drawing = terminal()
    with _existing_store(options.store) as store:
        transcript, seen = HumanTranscript(), 0
        if options.entries is not None:
            log = store.log(options.source)
            seen = len(log)
            transcript = TranscriptPager(log).window(seen, options.entries)
        printed = 0
        for followed in follow(store, transcript, options.source, start=seen):
            entries = followed.entries
            print_drawn(drawing.draw_transcript(entries[printed:], is_expanded=options.expand))
            sys.stdout.flush()
            printed = len(entries)
    return 0


def surface(options: argparse.Namespace) -> int:
    """Show the surface as it is, or as it was when an event was the newest."""
    with _opened(options) as (_, log):
        found = replay(ModelSurface(), log) if options.as_of is None else ModelSurface.as_of(log, options.as_of)
    if options.json:
        print_json(found.messages())
    else:
        print_drawn(terminal().draw_surface(found.events()))
    return 0


def explain(options: argparse.Namespace) -> int:
    """Tell what became of one event."""
    with _opened(options) as (_, log):
        classifier, length = EventClassifier(), 0
        for event in log:
            classifier.apply(event)
            length = event.seq + 1
    if not 0 <= options.seq < length:
        raise EventNotFoundError(options.seq, length)
    told = classifier.explain(options.seq)
    if options.json:
        print_json(attrs.asdict(told))
        return 0
    rows = [
        ("class", told.event_class),
        ("replaced by", _seqs(told.chain)),
        ("replaced", _seqs(told.replaced)),
        ("made from", _seqs(told.sources)),
        ("made into", _seqs(told.made_into)),
    ]
    print_drawn([terminal().draw_rows((f"seq {told.seq}", ""), rows)])
    return 0


def _seqs(seqs: Sequence[int]) -> str:
    return ", ".join(map(str, seqs)) or "-"


def reference(options: argparse.Namespace) -> int:
    """Print a session as another one would be shown it."""
    with _opened(options) as (header, log):
        projector = replay(ReferenceProjector(header, label=options.label, max_bytes=options.max_bytes), log)
    found = projector.view()
    print_json({"uri": encode_reference_uri(header.id), "data": found.data, "stats": found.stats})
    return 0


def search(options: argparse.Namespace) -> int:
    """Find what was said, in one session or in all."""
    with _existing_store(options.store) as store:
        found = SessionSearch(store)
        try:
            found.catch_up()
        except StoreError as error:  # what was indexed before is found all the same
            complain(f"the index is not up to date: {error}")
        hits = found.search(options.query, session_id=options.session, limit=options.limit)
    if options.json:
        print_json([attrs.asdict(hit) for hit in hits])
    else:
        print_drawn(terminal().draw_hits(hits))
    return 0


def history(options: argparse.Namespace) -> int:
    """Show one page of raw events."""
    with _opened(options) as (_, log):
        pager = HistoryPager(log if isinstance(log, SessionLog) else list(log))
        page = pager.page(options.before_seq, options.max_messages, chunks=not options.no_chunks)
    if options.json:
        print_json(
            {
                "firstSeq": page.first_seq,
                "lastSeq": page.last_seq,
                "hasMore": page.has_more,
                "leftOut": page.left_out,
                "missingSources": {str(seq): list(missing) for seq, missing in page.missing_sources.items()},
                "events": [event.to_wire() for event in page.events],
            }
        )
    else:
        print_drawn(terminal().draw_page(page))
    return 0


def verify(options: argparse.Namespace) -> int:
    """Check a whole log."""
    with _opened(options) as (header, log):
        report = verify_log(header, log)
    name = printable(report.session_id)
    if options.json:
        print_json(attrs.asdict(report))
    else:
        for warning in report.warnings:
            print(f"warning: {one_line(warning)}")
    if report.problem is not None:
        return failed(f"{name}: sound for {counted(report.events, 'event')}, then: {report.problem}")
    if not options.json:
        replacements = counted(report.generation, "replacement")
        print(f"{name}: sound, {counted(report.events, 'event')}, {report.nodes} on the surface, {replacements}")
    return 0


def compact(options: argparse.Namespace) -> int:
    """Put a summary in the place of a range of the surface, and save."""
    source = options.summary_file
    try:
        summary = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        text = summary.decode()
    except OSError as error:
        raise _unreadable(source, error) from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{source}: a summary is UTF-8 text: {error}") from None
    with _existing_store(options.store) as store:
        session = store.load(options.session_id)
        with begin_compaction(session, *options.range) as compaction:
            landed = compaction.commit(text)
        store.save(session)
    print(
        f"compacted {printable(session.id)}: {counted(len(landed.shadowed_seqs), 'node')} of"
        f" {counted(landed.tokens_before, 'token')} became the checkpoint at seq {landed.checkpoint_seq},"
        f" of {landed.tokens_after}"
    )
    return 0


def range_of(text: str) -> tuple[int, int]:
    """Read the range of an option."""
    found = re.fullmatch(r"([0-9]{1,18})\.\.([0-9]{1,18})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no range; one is START..END, two seqs")
    return int(found[1]), int(found[2])


def demo(_: argparse.Namespace) -> int:
    """Show a small session as each reader sees it."""
    drawing = terminal()
    with (
        TemporaryDirectory() as folder,
        resources.as_file(resources.files("dsh_projections") / "demo.jsonl") as path,
        SessionStore.open(Path(folder) / DEFAULT_STORE) as store,
        read_jsonl(path) as original,
    ):
        _import_log(store, path, original)
        log = store.log(original.header.id)
        print_heading("The human's transcript: everything that was said, and where earlier context was compacted")
        print_drawn(drawing.draw_transcript(replay(HumanTranscript(), log).entries))
        print_heading("The model's surface: what the next request sends")
        print_drawn(drawing.draw_surface(replay(ModelSurface(), log).events()))
        print_heading("One page of history: the raw events of the newest 2 messages")
        print_drawn(drawing.draw_page(HistoryPager(log).page(max_messages=2)))
    return 0


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[tuple[SessionHeader, SessionLog | JsonlReader]]:
    """Open what a reader reads: a file of that name if there is one, or else a session in the store."""
    if isdir(options.source):  # noqa: PTH112 - this takes a name that no file can have for an id
        raise CommandError(f"{options.source} is a directory; a log is a file")
    if exists(options.source):  # noqa: PTH110 - as above
        with _read(options.source) as reader:
            yield reader.header, reader
            print_damage(options.source, reader.damage)
        return
    with _existing_store(options.store) as store:
        yield store.header(options.source), store.log(options.source)


def _existing_store(target: str) -> SessionStore:
    """Open a store to read it; reading makes no file. A URL may hold a password, and is shown to nobody."""
    if not _URL.match(target) and not Path(target).exists():
        raise CommandError(f"no store at {target}; `dsh-session import FILE --store {target}` makes one")
    return SessionStore.open(target)

"""What the readers show, as terminal text: drawn by Rich, in colour on a terminal and plain in a pipe.

Text that was said is data. Control characters in it are shown and never sent, so that no log can drive the terminal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, assert_never

import attrs
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dsh_compact import is_compact_checkpoint
from dsh_projections.command.printing import counted
from dsh_projections.transcript_entry import CompactionEntry, ContextEntry, MessageEntry, ToolEntry
from dsh_session import Replace, derive_message, is_surface_event, topic_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType

    from dsh_projections.history_pager import HistoryPage
    from dsh_projections.search.session_search import SearchHit
    from dsh_projections.transcript_entry import TranscriptEntry
    from dsh_session import SessionEvent

RESULT_LINES: Final = 8
"""How many lines of a tool's output a card shows."""

RESULT_CHARS: Final = 500
"""How much a card shows of one line of a tool's output."""

COMPACTION_ROW: Final = "… earlier context was compacted …"

_GIST_CHARS: Final = 200
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_INDENT: Final = 2
_BAR: Final = "│ "


def shown(text: str) -> str:
    """Make a text safe to print: tabs become spaces, and what would control the terminal becomes U+FFFD."""
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n").expandtabs(4))


def draw_transcript(entries: Iterable[TranscriptEntry], *, is_expanded: bool = False) -> Iterator[RenderableType]:
    """Draw a transcript the way a chat reads.

    Args:
        entries: in log order.
        is_expanded: whether compaction rows show their summary, and cards the whole output.

    Yields:
        One renderable an entry, which depends on the entry alone.
    """
    for entry in entries:
        match entry:
            case MessageEntry():
                yield from _message(entry)
            case ToolEntry():
                yield from _tool(entry, is_expanded)
            case ContextEntry():
                yield _title(f"context · {_flat(entry.source)}", "dim")
                yield _body(_with_attachments(entry.text, entry.attachments), "dim")
            case CompactionEntry():
                yield from _compaction(entry, is_expanded)
            case _:
                assert_never(entry)


def draw_window_end(before_seq: int | None) -> Iterator[RenderableType]:
    """Draw how to go further back from a window of a transcript: older entries come before a seq, or there are none."""
    end = "the transcript begins here" if before_seq is None else f"older entries: --before-seq {before_seq}"
    yield Text(f"\n{end}", "dim")


def draw_surface(events: Sequence[SessionEvent]) -> Iterator[RenderableType]:
    """Draw the surface, a row a node: its seq, how it came there, what it is, and how its message begins."""
    table = _table("seq", "marker", "event", "message")
    for event in events:
        marker = event.surface_op
        entered = f"replaces {marker.start}..{marker.end}" if isinstance(marker, Replace) else "append"
        name = "checkpoint" if is_compact_checkpoint(event) else event.type
        table.add_row(str(event.seq), entered, name, _gist(event))
    yield table
    yield Text(counted(len(events), "node"), "dim")


def draw_page(page: HistoryPage) -> Iterator[RenderableType]:
    """Draw a page of history, a row an event."""
    table = _table("seq", "topic", "begins")
    for event in page.events:
        table.add_row(str(event.seq), _flat(topic_of(event)), _gist(event))
    yield table
    for checkpoint, seqs in page.missing_sources.items():
        yield Text(f"the checkpoint at seq {checkpoint} cites {counted(len(seqs), 'event')} before this page", "dim")
    if page.first_seq is None:
        yield Text("no events", "dim")
    elif page.has_more:
        yield Text(f"older events: --before-seq {page.first_seq}", "dim")
    else:
        yield Text("the log begins here", "dim")


def draw_hits(hits: Iterable[SearchHit]) -> Iterator[RenderableType]:
    """Draw what a search found: where it stands, who speaks, and the words that match in bold."""
    for hit in hits:
        heading = Text(f"{_flat(hit.session_id)}  {hit.seq}  {hit.kind}", "bold")
        if not hit.is_current:
            heading.append("  the model no longer sees it", "dim")
        yield heading
        said = Text(hit.snippet.text, overflow="fold")
        for start, end in hit.snippet.matches:
            said.stylize("bold yellow", start, end)
        yield _indented(said)


def draw_rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    """Draw a plain table."""
    table = _table(*columns)
    for row in rows:
        table.add_row(*map(_flat, row))
    return table


def _message(entry: MessageEntry) -> Iterator[RenderableType]:
    waiting = [call for call in entry.calls if call.result_seq is None]
    text = _with_attachments(entry.text, entry.attachments)
    if entry.reasoning:
        yield _title(f"{entry.role} · thought", "dim")
        yield _body(entry.reasoning, "dim italic")
    if not (text or waiting or entry.is_interrupted):
        return
    yield _title(entry.role, "bold cyan" if entry.role == "user" else "bold green")
    if text:
        yield _body(text)
    if entry.is_interrupted:
        yield _body("[cut off]", "yellow")
    for call in waiting:
        style = "yellow" if call.status == "interrupted" else "blue"
        yield _body(f"{call_title(call.name, call.arguments)}  [{call.status}]", style)


def _tool(entry: ToolEntry, is_expanded: bool) -> Iterator[RenderableType]:
    style = "red" if entry.is_error else "blue"
    title = _flat(entry.call_id) if entry.name is None else call_title(entry.name, entry.arguments or "")
    yield _title(f"tool · {title}" + ("  [failed]" if entry.is_error else ""), f"bold {style}")
    lines = shown(_with_attachments(entry.text, entry.attachments)).splitlines()
    if not is_expanded:
        hidden = len(lines) - RESULT_LINES
        if hidden > 1:  # the notice takes the room of one line
            lines[RESULT_LINES:] = [f"… {hidden} more lines"]
        lines = [_cut(line, RESULT_CHARS) for line in lines]
    if lines:
        yield _indented(_Barred(Text("\n".join(lines), overflow="fold")))


def _compaction(entry: CompactionEntry, is_expanded: bool) -> Iterator[RenderableType]:
    counts = []
    if entry.replaced_count is not None:
        counts.append(counted(entry.replaced_count, "message"))
    if entry.token_count is not None:
        counts.append(counted(entry.token_count, "token"))
    yield Text("")
    yield Text(COMPACTION_ROW + (f"  ({', '.join(counts)})" if counts else ""), "dim")
    if is_expanded and entry.summary is not None:
        yield _body(entry.summary, "dim")


def call_title(name: str, arguments: str) -> str:
    """Write a tool call on one line: the tool, and its arguments shortened."""
    return f"{_flat(name)} {_cut(_flat(arguments), _GIST_CHARS)}".rstrip()


def _title(text: str, style: str) -> Text:
    return Text(f"\n{text}", style, overflow="fold")


def _body(text: str, style: str = "") -> Padding:
    return _indented(Text(shown(text), style, overflow="fold"))


def _indented(renderable: RenderableType) -> Padding:
    return Padding(renderable, (0, 0, 0, _INDENT), expand=False)


@attrs.frozen
class _Barred:
    """A text with a bar before every line, those that a narrow screen makes of a long one too."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self.text.wrap(console, max(options.max_width - len(_BAR), 1)):
            yield Text(_BAR).append_text(line)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        narrow, wide = Measurement.get(console, options, self.text)
        return Measurement(narrow + len(_BAR), wide + len(_BAR))


def _with_attachments(text: str, attachments: tuple[Any, ...]) -> str:
    return "\n".join([*([text] if text else []), *(f"[{block['type']}]" for block in attachments)])


def _gist(event: SessionEvent) -> Text:
    return Text(_cut(_flat(_gist_of(event)), _GIST_CHARS), overflow="ellipsis", no_wrap=True)


def _gist_of(event: SessionEvent) -> str:
    if not is_surface_event(event):
        return event.encoded_data.decode()
    message = derive_message(event)
    if message is None:
        return "(no message)"
    blocks = message["content"]
    if event.type == "tool/result":
        blocks = blocks[0]["content"]
    said = [block for block in blocks if block["type"] != "reasoning"]
    return " ".join(map(_gist_of_block, said or blocks))


def _gist_of_block(block: Any) -> str:
    match block["type"]:
        case "text" | "reasoning":
            text: str = block["text"]
            return text
        case "tool-call":
            return call_title(block["name"], block["arguments"])
        case kind:
            return f"[{kind}]"


def _flat(text: str) -> str:
    """Make a text safe to print on one line: what names a speaker or a tool must not look like another's words."""
    return " ".join(shown(text).split())


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column == "seq" else "left", overflow="fold")
    return table

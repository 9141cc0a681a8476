"""What the readers show as text: screens at two widths, and that no log can drive the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from dsh_compact import begin_compaction
from dsh_projections import HistoryPager, HumanTranscript, ModelSurface, replay
from dsh_projections.command.printing import counted
from dsh_projections.terminal import (
    COMPACTION_ROW,
    RESULT_CHARS,
    RESULT_LINES,
    call_title,
    draw_page,
    draw_rows,
    draw_surface,
    draw_transcript,
    draw_window_end,
    shown,
)
from dsh_projections.testing import session_logs
from dsh_session import (
    APPEND,
    Session,
    SessionHeader,
    assistant_message,
    lossless_json,
    read_jsonl,
    tool_result_message,
    user_message,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from dsh_session import SessionEvent

PLACE: dict[str, Any] = {"turn": 1, "step": 1}
IMAGE: Any = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \ud83d \x9b31m \u2066x\u2069 \u061c\x00\x08\rover"


def printed(renderables: Iterable[RenderableType], width: int = 60, **options: Any) -> str:
    """What is drawn, without the spaces that fill lines up."""
    console = Console(width=width, highlight=False, markup=False, emoji=False, **options)
    with console.capture() as captured:
        for renderable in renderables:
            console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def screen(transcript: HumanTranscript) -> str:
    """All that a transcript sends to a terminal, to the byte, the colours and the spaces included."""
    console = Console(width=60, highlight=False, markup=False, emoji=False, force_terminal=True, color_system="256")
    with console.capture() as captured:
        for renderable in draw_transcript(transcript.entries):
            console.print(renderable)
    return captured.get()


def check_screens(events: Sequence[SessionEvent], cuts: Sequence[int]) -> None:
    """Compare the screens of the first so many events: live, replayed, and stopped and restored at every cut."""
    live, stopped = HumanTranscript(), HumanTranscript()
    for length, event in enumerate(events, 1):
        live.apply(event)
        stopped.apply(event)
        if length not in cuts:
            continue
        state = lossless_json.encode(stopped.state())
        stopped = HumanTranscript()
        stopped.restore(lossless_json.decode(state))
        expected = screen(replay(HumanTranscript(), events[:length]))
        assert expected == screen(live), f"live after {length} events"
        assert expected == screen(stopped), f"restored after {length} events"


def new_session() -> Session:
    return Session(SessionHeader(id="s", created_at=0), clock=lambda: 0)


def say(session: Session, *blocks: Any, source: Any = None) -> SessionEvent:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return session.append("user/message", user_message(content, source=source), APPEND)


def answer(session: Session, *blocks: Any, interrupted: bool = False) -> SessionEvent:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    data = assistant_message(content, provider="p", model="m", interrupted=interrupted, **PLACE)
    return session.append("assistant/message", data, APPEND)


def result(session: Session, call_id: str, *blocks: Any, is_error: bool = False) -> SessionEvent:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return session.append("tool/result", tool_result_message(call_id, content, is_error=is_error, **PLACE), APPEND)


def call(call_id: str, name: str = "run", arguments: str = '{"command": "ls"}') -> Any:
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": arguments}


def transcript_of(session: Session, width: int = 60, *, is_expanded: bool = False) -> str:
    entries = replay(HumanTranscript(), session.pending).entries
    return printed(draw_transcript(entries, is_expanded=is_expanded), width)


def surface_of(session: Session, width: int = 60) -> str:
    return printed(draw_surface(replay(ModelSurface(), session.pending).events()), width)


def conversation() -> Session:
    """Return a session with a little of everything, compacted."""
    session = new_session()
    say(session, "What is in this folder?", IMAGE)
    say(session, "Notes of the project.", source={"kind": "plugin", "plugin": "notes"})
    answer(session, {"type": "reasoning", "text": "I look."}, "Let me look.", call("a"), call("b", "read", "{}"))
    result(session, "a", "one.txt\ntwo.txt", IMAGE)
    result(session, "b", "no such file", is_error=True)
    answer(session, "Two files, and a question of a long sentence that no narrow window holds on one line.")
    with begin_compaction(session, 0, 5) as compaction:
        compaction.commit("The folder has two files.")
    say(session, "Thanks.")
    return session


def with_late_results() -> list[SessionEvent]:
    """Return a log in which a turn ends without a result that comes after all, and the next without one for good."""
    session = new_session()
    for turn in (1, 2):
        session.append("turn/start", {"turn": turn})
        answer(session, "I run it.", call(f"c{turn}"))
        session.append("turn/end", {"turn": turn})
    result(session, "c1", "late")
    return list(session.pending)


def test_a_transcript_reads_like_a_chat() -> None:
    """Speakers, context, tool cards with their call, failures and the compaction row, in log order."""
    assert (
        transcript_of(conversation())
        == """\

user
  What is in this folder?
  [image]

context · notes
  Notes of the project.

assistant · thought
  I look.

assistant
  Let me look.

tool · run {"command": "ls"}
  │ one.txt
  │ two.txt
  │ [image]

tool · read {}  [failed]
  │ no such file

assistant
  Two files, and a question of a long sentence that no
  narrow window holds on one line.

… earlier context was compacted …  (6 messages, 160 tokens)

user
  Thanks."""
    )


def test_a_narrow_transcript() -> None:
    """At 20 columns every line fits, and every word is there."""
    narrow = transcript_of(conversation(), 20)

    assert max(map(len, narrow.splitlines())) <= 20
    words = "\n".join(transcript_of(conversation(), 500).split())
    assert re.sub(r"\s", "", words) == re.sub(r"\s", "", narrow)


@pytest.mark.parametrize("width", [8, 20, 40])
def test_every_line_of_a_card_has_its_bar(width: int) -> None:
    """A line of output that the screen breaks keeps the bar on each piece, and loses nothing."""
    session = new_session()
    answer(session, call("a", "run", "{}"))
    text = f"{'x' * 50}\n{'word ' * 20}\n\n{'größe ' * 9}"
    result(session, "a", text)

    lines = transcript_of(session, width).partition("{}\n")[2].splitlines()

    assert len(lines) > 5
    assert [line for line in lines if not line.startswith("  │")] == []
    assert max(map(len, lines)) <= width
    assert re.sub(r"\s", "", text) == re.sub(r"\s", "", "".join(line[3:] for line in lines))


def test_a_thought_is_told_from_an_answer() -> None:
    """Reasoning stands under a title of its own, in plain text too; alone, or before a call, it is no answer."""
    thought = {"type": "reasoning", "text": "Which one?"}
    alone, calling = new_session(), new_session()
    answer(alone, thought)
    answer(calling, thought, call("a", "run", "{}"))

    assert transcript_of(alone) == "\nassistant · thought\n  Which one?"
    assert transcript_of(calling) == "\nassistant · thought\n  Which one?\n\nassistant\n  run {}  [open]"


def test_a_row_begins_with_what_was_said() -> None:
    """A node's row leaves out the reasoning of a message that holds anything else."""
    session = new_session()
    thought = {"type": "reasoning", "text": "Which one?"}
    answer(session, thought, "This one.")
    answer(session, thought)

    rows = surface_of(session).splitlines()

    assert [row.split("assistant/message")[1].strip() for row in rows[1:-1]] == ["This one.", "Which one?"]


def test_a_surface_is_a_row_a_node() -> None:
    """The surface shows each node's seq, how it came there, what it is and how it begins, the checkpoint first."""
    session = conversation()
    answer(session, {"type": "reasoning", "text": "Hm."}, call("c"))
    result(session, "c", "", IMAGE)
    answer(session)

    assert (
        surface_of(session, 80)
        == """\
seq  marker         event              message
  8  replaces 0..5  checkpoint         This is a checkpoint of the conversation…
 10  append         user/message       Thanks.
 11  append         assistant/message  run {"command": "ls"}
 12  append         tool/result        [image]
 13  append         assistant/message  (no message)
5 nodes"""
    )


def test_one_is_no_plural() -> None:
    """One of a thing is told in the singular, and thousands are told apart."""
    session = new_session()
    say(session, "x " * 800)
    with begin_compaction(session, 0, 0) as compaction:
        compaction.commit("x")
    page = printed(draw_page(HistoryPager([*session.pending[:4]]).page(max_messages=1)))

    assert "(1 message, 4" in transcript_of(session)
    assert surface_of(session).endswith("\n1 node")
    assert counted(1234, "token") == "1,234 tokens"
    assert "cites" not in page


def test_a_window_tells_how_to_go_on() -> None:
    """Below a window of a transcript stands where the one before it ends, or that there is none."""
    assert printed(draw_window_end(40)) == "\nolder entries: --before-seq 40"
    assert printed(draw_window_end(None)) == "\nthe transcript begins here"


def test_a_page_is_a_row_an_event() -> None:
    """A page shows raw events by topic, what its checkpoints cite outside it, and how to go on."""
    session = conversation()
    page = HistoryPager(session.pending).page(max_messages=1)
    older = HistoryPager(session.pending).page(6, max_messages=2)

    assert (
        printed(draw_page(page), 80)
        == """\
seq  topic                begins
 10  append:user/message  Thanks.
older events: --before-seq 10"""
    )
    assert printed(draw_page(older), 60).splitlines()[1:3] == [
        '  2  append:assistant/message  Let me look. run {"command":…',
        "  3  append:tool/result        one.txt two.txt [image]",
    ]


def test_the_ends_of_a_history() -> None:
    """The page that reaches event 0 says so, an empty page says that it is empty, and citations outside are counted."""
    log = conversation().pending

    whole = printed(draw_page(HistoryPager(log).page()))
    empty = printed(draw_page(HistoryPager(log).page(0)))
    cut = printed(draw_page(HistoryPager(log).page(max_messages=1)))
    from_checkpoint = printed(draw_page(HistoryPager([*log[:9]]).page(max_messages=1)))

    assert whole.endswith("the log begins here")
    assert empty.endswith("no events")
    assert "cites" not in cut
    assert "the checkpoint at seq 8 cites 5 events before this page" in from_checkpoint


def test_log_only_events_show_their_data() -> None:
    """On a page, an event that is no message shows how its JSON begins."""
    session = new_session()
    session.append("todo/write", {"items": ["größe"]})

    assert '{"items":["größe"]}' in printed(draw_page(HistoryPager(session.pending).page()))


def test_long_output_is_bounded() -> None:
    """A card shows so many lines of an output, and so much of each; expanded, it shows all of it."""
    session = new_session()
    answer(session, call("a"))
    result(session, "a", "\n".join(["x" * (RESULT_CHARS + 1), *(f"line {at}" for at in range(1, RESULT_LINES + 2))]))

    folded, expanded = transcript_of(session, 1000), transcript_of(session, 1000, is_expanded=True)

    assert folded.splitlines()[2:] == [
        f"  │ {'x' * (RESULT_CHARS - 1)}…",
        *(f"  │ line {at}" for at in range(1, RESULT_LINES)),
        "  │ … 2 more lines",
    ]
    assert expanded.splitlines()[2:] == [
        f"  │ {'x' * (RESULT_CHARS + 1)}",
        *(f"  │ line {at}" for at in range(1, RESULT_LINES + 2)),
    ]


def test_output_that_just_fits_is_whole() -> None:
    """An output is not cut where a notice would take as much room; one without a line is a title alone."""
    session = new_session()
    answer(session, call("a"), call("b"))
    result(session, "a", "\n".join(f"line {at}" for at in range(RESULT_LINES + 1)))
    result(session, "b", "")

    assert "more lines" not in transcript_of(session)
    assert transcript_of(session).endswith(f'line {RESULT_LINES}\n\ntool · run {{"command": "ls"}}')


def test_expanded_compactions_show_their_summary() -> None:
    """The summary shows on demand alone, and the framed checkpoint never."""
    session = conversation()

    assert "The folder has two files." not in transcript_of(session)
    assert "The folder has two files." in transcript_of(session, is_expanded=True)
    assert "<checkpoint>" not in transcript_of(session, is_expanded=True)


def test_a_compaction_whose_record_was_not_read() -> None:
    """Without the record that it cites, a compaction's row has no counts and nothing to expand."""
    log = [event for event in conversation().pending if event.type != "compact/summary"]

    drawn = printed(draw_transcript(replay(HumanTranscript(), log).entries, is_expanded=True))

    assert f"\n{COMPACTION_ROW}\n" in drawn


def test_calls_that_wait() -> None:
    """A call without a result shows under its message, and how it stands; one of an ended turn was interrupted."""
    session = new_session()
    session.append("turn/start", {"turn": 1})
    answer(session, "I run it.", call("a"))
    before = transcript_of(session)
    session.append("turn/end", {"turn": 1})

    assert before.splitlines()[-1] == '  run {"command": "ls"}  [open]'
    assert transcript_of(session).splitlines()[-1] == '  run {"command": "ls"}  [interrupted]'


def test_messages_that_were_cut_off() -> None:
    """A message whose stream was cut says so, even one without a text."""
    session = new_session()
    answer(session, interrupted=True)

    assert transcript_of(session) == "\nassistant\n  [cut off]"


def test_a_message_with_nothing_to_show_takes_no_room() -> None:
    """An empty message, and one that only made calls which have their cards, draw nothing of their own."""
    session = new_session()
    answer(session)
    answer(session, call("a"))
    result(session, "a", "done")

    assert transcript_of(session) == '\ntool · run {"command": "ls"}\n  │ done'


def test_a_result_of_nobody() -> None:
    """A result whose call was not read is a card that has its call's id for a title."""
    session = new_session()
    result(session, "call-9", "late")

    assert transcript_of(session) == "\ntool · call-9\n  │ late"


def test_call_titles_are_one_line() -> None:
    """A call's title is its tool and its arguments, flat and shortened."""
    assert call_title("run", '{\n  "command": "ls"\n}') == 'run { "command": "ls" }'
    assert call_title("ru\nn", "") == "ru n"
    assert call_title("run", "x" * 300) == f"run {'x' * 199}…"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb", "a   b"),
        ("a\r\nb\rc", "a\nb\ufffdc"),
        ("\x1b[31mred", "\ufffd[31mred"),
        ("größe 😀 \u2028", "größe 😀 \u2028"),
        ("\u202eabc\u202c", "\ufffdabc\ufffd"),
    ],
)
def test_what_would_control_a_terminal_is_shown(text: str, expected: str) -> None:
    """Control characters become U+FFFD, tabs spaces, and all other text stays as it is."""
    assert expected == shown(text)


def hostile_session() -> Session:
    session = new_session()
    say(session, HOSTILE, {"type": HOSTILE})
    say(session, "x", source={"kind": "plugin", "plugin": f"notes\n\nuser\n  {HOSTILE}"})
    answer(
        session, HOSTILE, {"type": "reasoning", "text": HOSTILE}, call(HOSTILE, HOSTILE, HOSTILE), call("b", HOSTILE)
    )
    result(session, HOSTILE, HOSTILE)
    result(session, f"nobody's\n{HOSTILE}", HOSTILE)
    storable = re.sub("[\0\ud83d]", "", HOSTILE)
    session.append(f"odd/{storable}\n", {"text": HOSTILE})
    return session


@pytest.mark.parametrize("width", [20, 60, 200])
def test_hostile_text_stays_text(width: int) -> None:
    """Escape sequences, bidi controls and lone surrogates reach no terminal, from whatever part of a log."""
    session = hostile_session()
    rows = draw_rows(("session", "directory"), [(HOSTILE, f"/\n{HOSTILE}")])
    page = printed(draw_page(HistoryPager(session.pending).page()), width)

    screens = [transcript_of(session, width), surface_of(session, width), page, printed([rows], width)]

    assert [screen for screen in screens if CONTROLS.search(screen)] == []
    assert "owned" in re.sub(r"\s", "", screens[0])
    "".join(screens).encode("utf-8")


def test_nobody_can_speak_for_another() -> None:
    """What a source or a call is named stays on its title's line, so that it cannot pass for a speaker of its own."""
    lines = transcript_of(hostile_session(), 500).splitlines()

    assert [line for line in lines if line in ("user", "assistant")] == ["user", "assistant"]


def test_markup_is_text() -> None:
    """Text that looks like the drawing library's markup, or like its names of emoji, is printed as it is."""
    session = new_session()
    say(session, "[bold]x[/bold] [/nothing] :smile:")

    assert "[bold]x[/bold] [/nothing] :smile:" in transcript_of(session)
    assert "[bold]" in surface_of(session)


def test_a_terminal_gets_colour() -> None:
    """On a terminal the speakers are in colour; what is said is not."""
    drawn = printed(
        draw_transcript(replay(HumanTranscript(), conversation().pending).entries),
        force_terminal=True,
        color_system="256",
    )

    assert "\x1b[1;36muser\x1b[0m" in drawn
    assert "\n  Thanks." in drawn
    assert f"\x1b[2m{COMPACTION_ROW}" in drawn


@settings(max_examples=25, deadline=None)
@given(session_logs(), st.sampled_from([20, 60]))
def test_every_log_can_be_drawn(events: list[SessionEvent], width: int) -> None:
    """Any transcript, surface and page fits its width, and sends no control character."""
    transcript = printed(draw_transcript(replay(HumanTranscript(), events).entries), width)
    surface = printed(draw_surface(replay(ModelSurface(), events).events()), width)
    page = printed(draw_page(HistoryPager(events).page()), width)

    for screen in (transcript, surface, page):
        assert not CONTROLS.search(screen)
        assert max(map(len, screen.splitlines()), default=0) <= width


def test_the_screen_of_a_real_log_is_the_same_however_it_comes(corpus: list[Path]) -> None:
    """Live, replayed and restored transcripts of real logs draw the same bytes at every prefix.

    Where a prefix ends in a stream chunk, which no transcript shows, every twentieth is drawn.
    """
    for path in corpus:
        with read_jsonl(path, lenient=True) as log:
            events = list(log)
        check_screens(
            events, [event.seq + 1 for event in events if event.type != "assistant/chunk" or event.seq % 20 == 0]
        )


@settings(max_examples=20, deadline=None)
@given(session_logs(max_moves=12))
@example(with_late_results())
def test_the_screen_of_any_log_is_the_same_however_it_comes(events: list[SessionEvent]) -> None:
    """Live, replayed and restored transcripts draw the same bytes at every prefix."""
    check_screens(events, range(1, len(events) + 1))


@pytest.mark.parametrize("width", [20, 60])
def test_an_empty_session_is_drawn(width: int) -> None:
    """A session in which nothing happened has an empty transcript and a surface of no nodes."""
    assert transcript_of(new_session(), width) == ""
    assert surface_of(new_session(), width).endswith("0 nodes")

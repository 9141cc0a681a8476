"""The command: what goes in comes out, each reader shows its view, and whatever goes wrong is one line on stderr."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version
from io import BytesIO, StringIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest
from hypothesis import example, given, settings

import dsh_projections
from dsh_compact import begin_compaction
from dsh_projections import (
    HumanTranscript,
    SessionIndex,
    SessionSearch,
    decode_reference_uri,
    follow,
    replay,
)
from dsh_projections.command import cli, commands
from dsh_projections.testing import session_logs
from dsh_session import (
    APPEND,
    SessionEvent,
    SessionHeader,
    SessionStore,
    StoreError,
    assistant_message,
    read_jsonl,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder
from stored import dump, fill, say, ticking_clock, work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsh_session import Session

DEMO = Path(dsh_projections.__file__).with_name("demo.jsonl")
DEMO_ID = "demo-date-filter"
READERS = ("transcript", "surface", "history", "verify")
COMMANDS = (*READERS, "import", "export", "ls", "explain", "search", "reference", "compact", "demo")
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202eexe \ud83d \x9b31m"


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """What a program reads from stdout."""
        return json.loads(self.out)


Run: TypeAlias = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, on a machine that has no opinion of terminals."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""

    def in_process(*words: object) -> Outcome:
        try:
            status = cli.main([str(word) for word in words])
        except SystemExit as left:
            status = left.code  # type: ignore[assignment] # argparse exits with a number
        return Outcome(status, *capsys.readouterr())

    return in_process


@pytest.fixture
def store() -> Iterator[SessionStore]:
    """The store that the command finds without being told."""
    with SessionStore.open("sessions.db", clock=ticking_clock()) as opened:
        yield opened


@pytest.fixture
def session(store: SessionStore) -> Session:
    """A stored session: a turn of work, and thanks; its nodes are the seqs 0, 3, 5 and 8."""
    session = store.create(id="s", cwd="/work")
    work(session)
    store.save(session)
    return session


def is_one_line(err: str) -> bool:
    return re.fullmatch(r"dsh-session[^\n]+\n", err) is not None


def in_shell(line: str) -> Outcome:
    """Run a shell line in which ./dsh is the command."""
    launcher = Path("dsh")
    program = "import sys; from dsh_projections.command.cli import main; sys.exit(main())"
    launcher.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -c {quote(program)} "$@"\n')
    launcher.chmod(0o700)
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    return Outcome(done.returncode, done.stdout, done.stderr)


def write_log(path: str, *lines: Any) -> Path:
    """Write a log of records, or of raw lines."""
    header = {"type": "session", "version": 0, "id": "f", "createdAt": 1}
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in (header, *lines))
    Path(path).write_text(text)
    return Path(path)


def said(seq: int, text: str) -> Any:
    data = user_message(text, message_id=f"m{seq}")
    return {"type": "user/message", "seq": seq, "time": seq, "data": data, "surfaceOp": "append"}


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_a_log_goes_in_and_comes_out(run: Run) -> None:
    """What is imported is listed, and exported as it came; a store that is named is the one that is used."""
    assert run("import", DEMO, "--store", "a.db") == (0, f"imported {DEMO_ID}: 71 events\n", "")

    listed = run("ls", "--store", "a.db", "--json").value
    exported = run("export", DEMO_ID, "--store", "a.db")

    header = json.loads(DEMO.read_text().splitlines()[0])
    del header["type"]
    (row,) = listed
    assert tuple(row["counts"][key] for key in ("turns", "compactions", "title")) == (
        2,
        1,
        "Date filter drops the last day",
    )
    del row["counts"]
    assert {**header, "type": "session", "events": 71} == row
    assert exported == (0, DEMO.read_text(), "")
    assert files() == ["a.db"]


def test_export_to_a_file(run: Run) -> None:
    """An export goes to a file, compressed when its name says so."""
    run("import", DEMO)

    for name in ("out.jsonl", "out.jsonl.zst"):
        assert run("export", DEMO_ID, "-o", name) == (0, "", "")
        with read_jsonl(name) as exported, read_jsonl(DEMO) as original:
            assert list(exported) == list(original)
    assert Path("out.jsonl").read_bytes() != Path("out.jsonl.zst").read_bytes()


@pytest.mark.parametrize("name", ["nowhere/out.jsonl", "folder", "file/out.jsonl"])
@pytest.mark.usefixtures("session")
def test_an_export_that_cannot_be_written(run: Run, folder: Path, name: str) -> None:
    """An export that fails names the file that was asked for, and none that nobody knows of."""
    (folder / "folder").mkdir()
    (folder / "file").touch()

    outcome = run("export", "s", "-o", name)

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith(f"dsh-session: {name} cannot be written: ")
    assert is_one_line(outcome.err)
    assert "tmp" not in outcome.err


@pytest.mark.usefixtures("session")
def test_an_export_that_cannot_be_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is the store that fails an export, the file that was to be written is not blamed."""

    def fail(*_: Any) -> Any:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(commands, "write_jsonl", fail)

    assert run("export", "s", "-o", "out.jsonl") == (1, "", "dsh-session: the disk is gone\n")


def test_an_import_that_is_there_already(run: Run) -> None:
    """Importing a log twice is refused by the session's name, and changes nothing."""
    run("import", DEMO)
    with SessionStore.open("sessions.db") as store:
        before = dump(store)

    again = run("import", DEMO)

    assert (again.status, again.out) == (1, "")
    assert is_one_line(again.err)
    assert f"'{DEMO_ID}' is already there" in again.err
    with SessionStore.open("sessions.db") as store:
        assert before == dump(store)


def test_an_import_goes_on_to_the_next_file(run: Run) -> None:
    """Of several files, each that can be imported is, and the status says that one was not."""
    log = write_log("f.jsonl", said(0, "first"))

    outcome = run("import", DEMO, "nowhere.jsonl", log)

    assert (outcome.status, outcome.out) == (1, f"imported {DEMO_ID}: 71 events\nimported f: 1 event\n")
    assert is_one_line(outcome.err)
    assert "nowhere.jsonl" in outcome.err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere.jsonl", " cannot be read: No such file or directory"),
        ("folder", " cannot be read: Is a directory"),
        ("notes.txt", ":1: no session header"),
    ],
)
def test_a_failed_import_makes_no_store(run: Run, folder: Path, name: str, reason: str) -> None:
    """Where no file has a header, no store is made; what cannot be read is named, with the reason."""
    (folder / "folder").mkdir()
    (folder / "notes.txt").write_text("hello")

    outcome = run("import", name, name)

    assert (outcome.status, outcome.out) == (1, "")
    assert files() == ["folder", "notes.txt"]
    first, second = outcome.err.splitlines()
    assert first == second
    assert first.startswith(f"dsh-session: {name}{reason}")


@pytest.mark.parametrize("target", ["mysql://u:SECRETPW@h/d", "postgresql+psycopg://u:SECRETPW@h/d", "sqlite:///a.db"])
def test_a_url_of_another_kind_is_no_store(run: Run, target: str) -> None:
    """A URL that no store has is refused by its scheme, without the password that it may hold, and makes no file."""
    for words in (("ls",), ("transcript", "s"), ("transcript", "s", "--follow"), ("import", DEMO)):
        outcome = run(*words, "--store", target)

        assert (outcome.status, outcome.out) == (1, "")
        assert is_one_line(outcome.err)
        assert repr(target.partition(":")[0]) in outcome.err
        assert "SECRETPW" not in outcome.err
    assert files() == []


def test_a_line_is_reported_once(run: Run) -> None:
    """All that is wrong with a line of a file stands in one report of it."""
    replacing = {**said(2, "x"), "surfaceOp": {"op": "replace", "start": 1, "end": 1}, "sourceEventSeqs": [1]}
    write_log("cut.jsonl", said(0, "first"), replacing)

    outcome = run("import", "cut.jsonl", "--lenient")

    assert is_one_line(outcome.err)
    assert outcome.err.startswith(
        "dsh-session: cut.jsonl:3: seq 2 where 1 is next; 1 event is missing, and what follows moves up; "
    )
    assert outcome.err.endswith("; kept as data\n")


def test_a_torn_tail_is_reported(run: Run) -> None:
    """What a crash left of the last record is no failure: the rest is read, and one line says what is missing."""
    write_log("torn.jsonl", said(0, "whole"), '{"type":"user/mess')

    for words in (("import",), ("transcript",), ("verify",)):
        outcome = run(*words, "torn.jsonl")
        assert outcome.status == 0
        assert is_one_line(outcome.err)
        assert "torn.jsonl:3: " in outcome.err
    assert len(run("history", "f", "--json").value["events"]) == 1


def test_damage_in_the_middle(run: Run) -> None:
    """A damaged log is refused with its file and line and nothing is kept; leniently it is read, line by line told."""
    write_log("cut.jsonl", said(0, "first"), "{oops\n", said(1, "second"))

    strict = run("import", "cut.jsonl")
    shown = run("surface", "cut.jsonl")
    lenient = run("import", "cut.jsonl", "--lenient")

    for refused in (strict, shown):
        assert (refused.status, refused.out) == (1, "")
        assert is_one_line(refused.err)
        assert "cut.jsonl:3: " in refused.err
    assert lenient.status == 0
    assert re.findall(r"cut.jsonl:(\d+)", lenient.err) == ["3"]
    assert [message["id"] for message in run("surface", "f", "--json").value] == ["m0", "m1"]


@pytest.mark.parametrize("command", READERS)
def test_readers_take_a_file_or_a_session(run: Run, command: str) -> None:
    """Each reader shows the same of a file as of the session that was imported from it, for people and programs."""
    run("import", DEMO)

    for options in ((), ("--json",)):
        of_file, of_session = run(command, DEMO, *options), run(command, DEMO_ID, *options)
        assert of_file == of_session
        assert (of_file.status, of_file.err) == (0, "")
        assert of_file.out


@pytest.mark.usefixtures("session")
def test_the_transcript(run: Run) -> None:
    """The transcript is what was said, and as JSON its entries."""
    assert run("transcript", "s").out == "\nuser\n  go\n\ntool · run {}\n  │ done\n\nuser\n  thanks\n"

    entries = run("transcript", "s", "--json").value

    assert [(entry["kind"], entry["seq"], entry["text"]) for entry in entries] == [
        ("message", 0, "go"),
        ("message", 3, ""),
        ("tool", 5, "done"),
        ("message", 8, "thanks"),
    ]
    assert entries[1]["calls"] == [
        {"call_id": "c", "name": "run", "arguments": "{}", "status": "done", "result_seq": 5}
    ]


def test_the_transcript_expands(run: Run) -> None:
    """Whole outputs and summaries show on demand."""
    folded, expanded = run("transcript", DEMO).out, run("transcript", DEMO, "--expand").out

    assert "more lines" in folded
    assert "more lines" not in expanded
    assert len(expanded.splitlines()) > 400


def test_the_surface(run: Run, session: Session) -> None:
    """The surface as JSON is the very messages that the model is sent."""
    assert session.messages() == run("surface", "s", "--json").value
    assert run("surface", "s").out.splitlines()[1:] == [
        "  0  append  user/message       go",
        "  3  append  assistant/message  run {}",
        "  5  append  tool/result        done",
        "  8  append  user/message       thanks",
        "4 nodes",
    ]


@pytest.mark.usefixtures("session")
def test_history_in_pages(run: Run) -> None:
    """Pages as JSON tile the log, whether it is stored or in a file."""
    run("export", "s", "-o", "s.jsonl")

    for source in ("s", "s.jsonl"):
        newest = run("history", source, "--max-messages", 1, "--json").value
        older = run("history", source, "--max-messages", 9, "--before-seq", newest["firstSeq"], "--json").value
        assert (newest["firstSeq"], newest["lastSeq"], newest["hasMore"]) == (8, 8, True)
        assert (older["firstSeq"], older["lastSeq"], older["hasMore"]) == (0, 7, False)
        assert [event["seq"] for event in older["events"] + newest["events"]] == list(range(9))
        assert newest["missingSources"] == {}
    assert "older events: --before-seq 8" in run("history", "s", "--max-messages", 1).out


def test_history_names_what_lies_outside(run: Run) -> None:
    """A page's checkpoints are told with the nodes that they cite before it."""
    page = run("history", DEMO, "--max-messages", 5, "--json").value

    assert list(page["missingSources"]) == ["45"]
    assert page["missingSources"]["45"][0] == 4


@pytest.mark.parametrize("source", ["s", "s.jsonl"])
@pytest.mark.parametrize("seq", [-1, 10])
@pytest.mark.usefixtures("session")
def test_windows_that_cannot_be(run: Run, source: str, seq: int) -> None:
    """A window outside the log is a failure, of a file as of a session."""
    run("export", "s", "-o", "s.jsonl")

    outcome = run("transcript", source, "--before-seq", seq)

    assert (outcome.status, outcome.out) == (1, "")
    assert is_one_line(outcome.err)
    assert f"before_seq is {seq}" in outcome.err


@pytest.mark.parametrize("options", [("--max-messages", 0), ("--before-seq", 10), ("--before-seq", -1)], ids=str)
@pytest.mark.usefixtures("session")
def test_pages_that_cannot_be(run: Run, options: tuple[object, ...]) -> None:
    """A page outside the log, or of no messages, is a failure and no empty page."""
    outcome = run("history", "s", *options)

    assert (outcome.status, outcome.out) == (1, "")
    assert is_one_line(outcome.err)


@pytest.mark.usefixtures("session")
def test_a_sound_log(run: Run) -> None:
    """Verify counts what it checked."""
    assert run("verify", "s") == (0, "s: sound, 9 events, 4 on the surface, 0 replacements\n", "")
    assert run("verify", "s", "--json").value == {
        "session_id": "s",
        "events": 9,
        "nodes": 4,
        "generation": 0,
        "problem": None,
        "warnings": [],
    }


def test_a_log_that_is_not_sound(run: Run) -> None:
    """Verify says how far a log is sound and what is wrong then; what is odd and harmless is a warning."""
    result = {"type": "tool-result", "toolCallId": "c", "content": [], "isError": False}
    message = {"id": "r", "role": "user", "source": {"kind": "tool", "callId": "c"}, "content": [result]}
    data = {"turn": 1, "step": 1, "message": message}
    orphan = {"type": "tool/result", "seq": 0, "time": 0, "data": data, "surfaceOp": "append"}
    beyond = {**said(1, "x"), "surfaceOp": {"op": "replace", "start": 7, "end": 7}, "sourceEventSeqs": [0]}
    write_log("odd.jsonl", orphan)
    write_log("bad.jsonl", orphan, beyond)

    odd, bad, for_programs = (
        run("verify", "odd.jsonl"),
        run("verify", "bad.jsonl"),
        run("verify", "bad.jsonl", "--json"),
    )

    assert odd.status == 0
    assert odd.out.splitlines()[0] == "warning: the result at seq 0 answers no call on the surface"
    assert (bad.status, for_programs.status) == (1, 1)
    assert is_one_line(bad.err)
    assert "sound for 1 event, then: event at seq 1: " in bad.err
    assert "seq 1" in for_programs.value["problem"]


def test_the_list(run: Run, store: SessionStore) -> None:
    """Sessions are listed by the time that they were made, with age, length, turns, title and directory."""
    younger = store.create(id="younger", cwd="/b")
    younger.append("turn/start", {"turn": 1})
    younger.append("session/title", {"title": "about b"})
    store.save(younger)
    store.import_log(SessionHeader(id="older", created_at=0), [])
    store.import_log(SessionHeader(id="of another age", created_at=2**62), [])

    listed = run("ls")

    assert [line.split() for line in listed.out.splitlines()] == [
        ["session", "created", "events", "turns", "title", "directory"],
        ["older", "1970-01-01", "00:00", "0", "0"],
        ["younger", "2023-11-14", "22:13", "2", "1", "about", "b", "/b"],
        ["of", "another", "age", str(2**62), "0", "0"],
    ]
    assert [row["id"] for row in run("ls", "--json").value] == ["older", "younger", "of another age"]


def test_the_list_without_new_counts(run: Run, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are listed as far as they are counted when the index cannot be brought up to date."""
    store.create(id="s")

    def refuse(_: Any) -> int:
        raise StoreError("read-only")

    monkeypatch.setattr(SessionIndex, "catch_up", refuse)

    listed = run("ls")

    assert listed.status == 0
    assert listed.err == "dsh-session: the counts are not up to date: read-only\n"
    assert listed.out.splitlines()[1].startswith("s ")


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"]])
def test_the_list_beside_a_damaged_header(run: Run, store: SessionStore, arguments: list[str]) -> None:
    """A session whose header is damaged is told of, and the others are listed."""
    for session_id in ("a", "b", "c"):
        store.create(id=session_id)
    with store._application.factory.datastore.transaction(commit=True) as cursor:  # type: ignore[attr-defined]
        cursor.execute("UPDATE stored_events SET state = 'x' WHERE originator_id = 'b'")

    listed = run(*arguments)

    assert listed.status == 1
    assert listed.err.startswith("dsh-session: session 'b': its header: ")
    assert listed.err.count("\n") == 1
    assert ["a" in listed.out, "c" in listed.out] == [True, True]


def test_the_surface_as_it_was(run: Run, session: Session) -> None:
    """The surface is shown as of any earlier event, and an event that is not there is an error."""
    assert len(session.messages()) == 4

    then = run("surface", "s", "--as-of", "0", "--json").value

    assert session.messages()[:1] == then
    missing = run("surface", "s", "--as-of", "99")
    assert missing.status == 1
    assert "no event at seq 99" in missing.err


def test_an_event_is_explained(run: Run, session: Session) -> None:
    """What became of an event is told, for a person and for a program."""
    told = run("explain", DEMO, "52", "--json").value
    read = run("explain", DEMO, "52")

    assert (told["event_class"], told["chain"]) == ("shadowed", [55])
    assert ["replaced", "by", "55"] in [line.split() for line in read.out.splitlines()]
    assert "this log has" in run("explain", "s", "999").err
    assert run("explain", "s", "-1").status == 1
    assert ["class", "current"] in [line.split() for line in run("explain", "s", "0").out.splitlines()]
    assert len(session.messages()) == 4


def test_a_reference_is_printed(run: Run, session: Session) -> None:
    """A session is shown as another one would be shown it, under a label and within a budget."""
    shown = run("reference", "s", "--label", "mine").value

    assert decode_reference_uri(shown["uri"]) == session.id
    assert shown["data"]["label"] == "mine"
    assert run("reference", "s", "--max-bytes", "3").status == 1
    assert run("reference", "s", "--max-bytes", "0").status == 2


@pytest.mark.parametrize("source", ["s", "s.jsonl"])
def test_a_window_of_the_transcript(run: Run, session: Session, source: str) -> None:
    """The newest entries before a seq are shown, of a session and of a file alike."""
    run("export", "s", "-o", "s.jsonl")
    whole = run("transcript", source, "--json").value
    assert [entry["seq"] for entry in whole] == [0, 3, 5, 8]

    def seqs(*words: object) -> list[int]:
        return [entry["seq"] for entry in run("transcript", source, "--json", *words).value]

    assert seqs("--entries", 2) == [5, 8]
    assert seqs("--before-seq", 5) == [0, 3]
    assert seqs("--before-seq", 5, "--entries", 1) == [3]
    assert seqs("--entries", 4) == [0, 3, 5, 8]
    assert run("transcript", source, "--entries", "none").status == 2
    assert len(session.messages()) == 4


@pytest.mark.parametrize("source", ["s", "s.jsonl"])
@pytest.mark.usefixtures("session")
def test_windows_lead_back(run: Run, source: str) -> None:
    """The last line of a window says how the window before it is asked for, until the transcript begins."""
    run("export", "s", "-o", "s.jsonl")

    newest, older = run("transcript", source, "--entries", 3).out, run("transcript", source, "--before-seq", 3).out

    assert newest.endswith("user\n  thanks\n\nolder entries: --before-seq 3\n")
    assert older == "\nuser\n  go\n\nthe transcript begins here\n"
    assert run("transcript", source, "--before-seq", 0).out == "\nthe transcript begins here\n"
    assert "begins here" not in run("transcript", source).out


def test_a_window_is_bounded(run: Run, session: Session, store: SessionStore) -> None:
    """A window that is asked for by its end alone holds fifty entries."""
    for at in range(60):
        say(session, f"{at}")
    store.save(session)

    assert len(run("transcript", "s", "--before-seq", 65, "--json").value) == 50


def test_what_was_said_is_found(run: Run) -> None:
    """A search tells where a text stands, who said it, and whether the model still sees it."""
    run("import", DEMO)

    hits = run("search", "changelog line", "--json").value
    read = run("search", '"last day"', "--session", DEMO_ID, "--limit", "1")

    assert sorted({hit["kind"] for hit in hits}) == ["assistant", "user"]
    assert all(hit["is_current"] or hit["seq"] == 67 for hit in hits)
    assert read.out.splitlines()[0].startswith(f"{DEMO_ID}  ")
    assert "the model no longer sees it" in read.out
    assert "no longer" not in run("search", '"Good. Add"').out
    assert run("search", "nowhere", "--json").value == []
    assert run("search", "").status == 1
    assert run("search", "x", "--limit", "0").status == 2


def test_a_page_without_chunks(run: Run) -> None:
    """A page leaves the chunks of finished messages out when it is told to, and says how many."""
    page = run("history", DEMO, "--max-messages", "1", "--no-chunks", "--json").value

    assert page["leftOut"] == 5
    assert "assistant/chunk" not in [event["type"] for event in page["events"]]


def following(
    monkeypatch: pytest.MonkeyPatch, store: SessionStore, session: Session, *pieces: Sequence[SessionEvent]
) -> None:
    """Make a transcript be followed while a session grows piece by piece, and then be interrupted."""

    def growing(*words: Any, **options: Any) -> Iterator[Any]:
        stream = follow(*words, **options, poll_seconds=0.01)
        yield next(stream)
        for piece in pieces:
            fill(session, piece)
            store.save(session)
            yield next(stream)
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "follow", growing)


def test_a_transcript_is_followed(run: Run, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A followed transcript prints the plain one, piece by piece, where what was printed does not change."""
    with read_jsonl(DEMO) as log:
        header, events = log.header, list(log)
    ends = [0, *(event.seq + 1 for event in events if event.type in ("turn/start", "step/end", "compact/end")), 71]
    session = store.create(id="growing", cwd=header.cwd)
    following(monkeypatch, store, session, *(events[start:end] for start, end in pairwise(ends)))

    followed = run("transcript", "growing", "--follow")

    assert len(ends) > 10
    assert (followed.status, followed.err) == (130, "")
    assert followed.out == run("transcript", "growing").out
    monkeypatch.setattr(commands, "follow", lambda *_, **__: iter(()))
    assert run("transcript", "growing", "--follow") == (0, "", "")


def test_a_call_is_followed_by_its_result(run: Run, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Followed, a call whose result is to come is printed as open, and then its result; the help says so."""
    donor = store.create(id="donor")
    work(donor)
    events = donor.pending
    following(monkeypatch, store, store.create(id="growing"), events[:5], events[5:])

    assert run("transcript", "growing", "--follow").out == (
        "\nuser\n  go\n\nassistant\n  run {}  [open]\n\ntool · run {}\n  │ done\n\nuser\n  thanks\n"
    )
    assert "a call whose result is to come shows as open" in " ".join(run("transcript", "--help").out.split())


def test_the_end_is_followed(run: Run, session: Session, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transcript may be followed from its newest entries on, and needs a session to follow."""
    donor = store.create(id="donor")
    said = say(donor, "one more thing")
    more = SessionEvent(session.id, 9, said.time, said.type, said.encoded_data, APPEND)
    following(monkeypatch, store, session, [more])

    outcome = run("transcript", "s", "--follow", "--entries", 1)

    assert outcome.out == "\nuser\n  thanks\n\nuser\n  one more thing\n"
    assert "no session 'x'" in run("transcript", "x", "--follow", "--entries", 1).err


@pytest.mark.parametrize("words", [("--json",), ("--before-seq", "0")])
def test_following_is_for_people_and_goes_forward(run: Run, words: tuple[str, ...]) -> None:
    """What cannot be followed is a wrong use, told before anything is opened."""
    outcome = run("transcript", "s", "--follow", *words)

    assert (outcome.status, outcome.out) == (2, "")
    assert is_one_line(outcome.err)


def test_a_file_is_not_followed(run: Run) -> None:
    """A file, which has a reader of its own, is refused by name, and not looked for in a store."""
    write_log("f.jsonl", said(0, "first"))

    reason = "dsh-session: f.jsonl is a file; --follow needs a session in a store\n"
    assert run("transcript", "f.jsonl", "--follow") == (1, "", reason)


def test_a_compaction_by_hand(run: Run, session: Session, store: SessionStore) -> None:
    """A summary out of a file takes the place of a range, at once and for good; the human loses nothing."""
    text = "word " * 80
    for _ in range(2):
        say(session, text)
    store.save(session)
    Path("summary.txt").write_text("They talked.\n")
    before = run("transcript", "s", "--json").value

    outcome = run("compact", "s", "--range", "0..9", "--summary-file", "summary.txt")

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("compacted s: 5 nodes of ")
    assert "the checkpoint at seq 13" in outcome.out
    first, second = run("surface", "s", "--json").value
    assert "They talked." in first["content"][0]["text"]
    assert second["content"][0]["text"] == text
    after = run("transcript", "s", "--json").value
    assert after[:-1] == before
    assert (after[-1]["kind"], after[-1]["summary"]) == ("compaction", "They talked.")
    assert run("verify", "s").status == 0


def test_a_summary_from_stdin(run: Run, session: Session, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary may come through a pipe."""
    say(session, "word " * 80)
    store.save(session)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO("größe".encode())))

    assert run("compact", "s", "--range", "9..9", "--summary-file", "-").status == 0
    assert "größe" in run("surface", "s", "--json").value[-1]["content"][0]["text"]


@pytest.mark.parametrize(
    ("seqs", "summary", "reason"),
    [
        ("0..3", b"x", "tool call"),
        ("8..0", b"x", "8..0"),
        ("0..99", b"x", "0..99"),
        ("0..8", b" \n", "no text"),
        ("0..8", b"long " * 500, "must cost less"),
        ("0..8", b"\xff", "UTF-8"),
        ("0..8", None, "summary.txt cannot be read: No such file"),
    ],
)
def test_a_compaction_that_cannot_be(run: Run, session: Session, seqs: str, summary: bytes | None, reason: str) -> None:
    """A range or a summary that will not do is a failure that says why, and leaves the store as it was."""
    if summary is not None:
        Path("summary.txt").write_bytes(summary)
    before = run("history", "s", "--json")

    outcome = run("compact", session.id, "--range", seqs, "--summary-file", "summary.txt")

    assert (outcome.status, outcome.out) == (1, "")
    assert is_one_line(outcome.err)
    assert reason in outcome.err
    assert before == run("history", "s", "--json")


def test_a_compaction_beside_another(run: Run, session: Session, store: SessionStore) -> None:
    """While a compaction of the session is live, another one is refused."""
    Path("summary.txt").write_text("They talked.")
    begin_compaction(session, 0, 5)
    store.save(session)

    outcome = run("compact", "s", "--range", "0..8", "--summary-file", "summary.txt")

    assert outcome.status == 1
    assert is_one_line(outcome.err)
    assert "live" in outcome.err


@pytest.mark.parametrize(
    "seqs", ["", "4", "4..", "..4", "4-5", "a..b", "-1..4", "1..2..3", "1.0..2", "٣..٤", "9" * 40 + "..1"]
)
def test_a_range_is_two_seqs(run: Run, seqs: str) -> None:
    """What is no range is a wrong use, told before anything is opened."""
    outcome = run("compact", "s", f"--range={seqs}", "--summary-file", "nowhere")

    assert (outcome.status, outcome.out) == (2, "")
    assert is_one_line(outcome.err)
    assert "START..END" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("fly",),
        ("import",),
        ("transcript",),
        ("history", "s", "--max-messages", "many"),
        ("ls", "--colour"),
        ("compact", "s"),
        ("ls", "--\x1b[2J"),
    ],
)
def test_wrong_use(run: Run, words: tuple[str, ...]) -> None:
    """A wrong use is status 2 and one line."""
    outcome = run(*words)

    assert (outcome.status, outcome.out) == (2, "")
    assert is_one_line(outcome.err)
    assert not CONTROLS.search(outcome.err)


def test_the_version(run: Run) -> None:
    """The command tells its version, in one line."""
    assert run("--version") == (0, f"dsh-session {version('dsh-session')}\n", "")


def test_help(run: Run) -> None:
    """The help names every command."""
    outcome = run("--help")

    assert outcome.status == 0
    assert [command for command in COMMANDS if command not in outcome.out] == []


@pytest.mark.parametrize("command", ["export", "ls", *READERS])
def test_reading_makes_no_file(run: Run, command: str) -> None:
    """Where there is no store, a reader says so and makes none; reading a store or a log adds no file."""
    words = () if command == "ls" else ("s",)
    absent = run(command, *words)
    assert (absent.status, absent.out) == (1, "")
    assert is_one_line(absent.err)
    assert "no store at sessions.db" in absent.err
    assert files() == []

    with SessionStore.open("sessions.db") as store:
        store.create(id="s")
    assert run(command, *words).status == 0
    assert files() == ["sessions.db"]


@pytest.mark.parametrize("command", ["export", *READERS])
@pytest.mark.parametrize("name", ["unknown", "x" * 300, "", "nul\0", "torn \udcff"])
@pytest.mark.usefixtures("session")
def test_an_unknown_session(run: Run, command: str, name: str) -> None:
    """A session that is not there is a failure that names it, whatever its name."""
    outcome = run(command, name)

    assert (outcome.status, outcome.out) == (1, "")
    assert is_one_line(outcome.err)
    assert f"no session {name!r}" in outcome.err


def test_what_is_no_store(run: Run) -> None:
    """A file that is no store, a folder, and a database server that is not there are failures on one line."""
    Path("notes.txt").write_text("not a database, and long enough to be looked at by the one who opens it\n" * 20)

    for target in ("notes.txt", ".", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"):
        outcome = run("ls", "--store", target)
        assert (outcome.status, outcome.out) == (1, "")
        assert is_one_line(outcome.err)


def test_what_is_no_log(run: Run) -> None:
    """A file that is no log is refused with its name and line by every reader, and by import."""
    Path("notes.txt").write_text("hello\n")

    for command in ("import", *READERS):
        outcome = run(command, "notes.txt")
        assert (outcome.status, outcome.out) == (1, "")
        assert is_one_line(outcome.err)
        assert "notes.txt:1: " in outcome.err


def test_the_demo(run: Run) -> None:
    """The demo shows the three readers: what the transcript kept and the surface no longer has is plain to see."""
    outcome = run("demo")

    assert (outcome.status, outcome.err) == (0, "")
    transcript, surface, page = re.split(r"=== .* ===", outcome.out)[1:]
    assert "… earlier context was compacted …" in transcript
    assert "leaves out the last day" in transcript
    assert "checkpoint" in surface
    assert "leaves out the last day" not in surface
    assert "older events: --before-seq" in page
    assert files() == []


@pytest.mark.parametrize("command", ["transcript", "surface", "history", "ls", "demo"])
def test_drawing_needs_rich(run: Run, monkeypatch: pytest.MonkeyPatch, session: Session, command: str) -> None:
    """Without the drawing library, text is refused with the extra to install, and JSON works all the same."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "dsh_projections.terminal", raising=False)
    monkeypatch.delattr(dsh_projections, "terminal", raising=False)
    words = (session.id,) if command in READERS else ()

    drawn = run(command, *words)

    assert (drawn.status, drawn.out) == (1, "")
    assert is_one_line(drawn.err)
    assert "dsh-session[terminal]" in drawn.err
    if command != "demo":
        assert run(command, *words, "--json").status == 0


@pytest.mark.parametrize("width", ["20", "80"])
def test_hostile_content(run: Run, store: SessionStore, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    """Nothing in a log reaches a terminal as a control character, from any command, on stdout or stderr."""
    monkeypatch.setenv("COLUMNS", width)
    evil = HOSTILE.replace("\ud83d", "?")
    session = store.create(id=evil, cwd=f"/{HOSTILE}")
    session.append("user/message", user_message(HOSTILE + "x" * 5000), APPEND)
    session.append("user/message", user_message("y", source={"kind": HOSTILE}), APPEND)
    session.append(evil, {HOSTILE: [HOSTILE]})
    store.save(session)
    log = write_log(f"{evil.replace('/', '')}.jsonl", said(0, HOSTILE), "{oops\n", {"type": HOSTILE, "seq": 7})

    outcomes = [run(command, evil) for command in READERS]
    outcomes += [run("ls"), run("import", log), run("import", log, "--lenient"), run("transcript", f"{evil}!")]
    outcomes += [run("compact", evil, "--range", "0..1", "--summary-file", f"{evil}.txt")]

    assert [outcome for outcome in outcomes if CONTROLS.search(outcome.out + outcome.err)] == []
    assert [outcome.status for outcome in outcomes] == [0, 0, 0, 0, 0, 1, 0, 1, 1]
    assert json.loads(run("transcript", evil, "--json").out)[0]["text"] == HOSTILE + "x" * 5000


def test_a_terminal_gets_colour_and_a_pipe_plain_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escape sequences are for a terminal alone, and a pipe gets no spaces at the ends of lines."""
    plain = run("transcript", DEMO).out
    monkeypatch.setenv("FORCE_COLOR", "1")

    coloured = run("transcript", DEMO).out

    assert not CONTROLS.search(plain)
    assert [line for line in plain.splitlines() if line != line.rstrip()] == []
    assert "\x1b[" in coloured


@pytest.mark.parametrize("columns", ["0", "00", "-5", "", "wide", "²"])
def test_a_width_that_is_none_is_passed_over(run: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """A COLUMNS that is no number >= 1 counts for none, and the screen is as wide as without it."""
    monkeypatch.delenv("COLUMNS")
    expected = run("transcript", DEMO)
    monkeypatch.setenv("COLUMNS", columns)

    assert expected == run("transcript", DEMO)
    assert "… earlier context was compacted …" in expected.out


def put_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the standard output be taken for a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_a_terminal_gets_a_pager(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a transcript goes through the user's pager, in colour, as it would be printed without one."""
    put_on_terminal(monkeypatch)
    monkeypatch.setenv("PAGER", "cat > paged.txt; echo $LESS > options.txt")

    paged, direct = run("transcript", DEMO), run("transcript", DEMO, "--no-pager")

    assert paged == (0, "", "")
    assert Path("paged.txt").read_text() == direct.out
    assert "\x1b[" in direct.out
    assert Path("options.txt").read_text() == "FRX\n"


def test_less_is_the_pager_if_there_is_one(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no pager is named, less is taken, and nothing where it is not installed or the name is empty."""
    put_on_terminal(monkeypatch)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    direct = run("transcript", DEMO, "--no-pager")
    (folder / "less").write_text("#!/bin/sh\ncat > paged.txt\n")
    (folder / "less").chmod(0o700)

    assert run("transcript", DEMO) == (0, "", "")
    assert Path("paged.txt").read_text() == direct.out
    monkeypatch.setenv("PAGER", "")
    assert direct == run("transcript", DEMO)
    monkeypatch.delenv("PAGER")
    monkeypatch.setenv("PATH", str(folder / "empty"))
    assert direct == run("transcript", DEMO)


def test_nothing_else_is_paged(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe gets no pager, though it wants colours, and JSON none anywhere."""
    monkeypatch.setenv("PAGER", "touch paged.txt")

    plain = run("transcript", DEMO)
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run("transcript", DEMO)
    put_on_terminal(monkeypatch)
    as_json = run("transcript", DEMO, "--json")

    assert [outcome.status for outcome in (plain, coloured, as_json) if outcome.out] == [0, 0, 0]
    assert files() == []


def test_who_leaves_the_pager_has_seen_enough(
    run: Run, session: Session, store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving the pager early is no failure, and what nobody got to see was not read."""
    put_on_terminal(monkeypatch)
    applied = []
    apply = HumanTranscript.apply
    monkeypatch.setattr(HumanTranscript, "apply", lambda self, event: (applied.append(event), apply(self, event)))
    monkeypatch.setenv("PAGER", "head -n 3 > paged.txt")
    for _ in range(300):
        say(session, "word " * 400)
    store.save(session)

    outcome = run("transcript", "s")

    assert outcome == (0, "", "")
    assert Path("paged.txt").read_text().count("\n") == 3
    assert len(applied) < 200


def test_a_pager_that_cannot_be_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pager that is not there is a failure that says so."""
    put_on_terminal(monkeypatch)
    monkeypatch.setenv("PAGER", "./nowhere 2>/dev/null")

    outcome = run("transcript", DEMO)

    assert (outcome.status, outcome.out) == (1, "")
    assert is_one_line(outcome.err)
    assert "'./nowhere 2>/dev/null'" in outcome.err


def test_an_interrupt_is_the_pagers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a pager shows a transcript does not take the pager away from its user."""
    put_on_terminal(monkeypatch)
    monkeypatch.setenv("PAGER", "cat > paged.txt; sleep 0.2; kill -INT $PPID; sleep 0.2; echo left > left.txt")

    assert run("transcript", DEMO) == (0, "", "")
    assert files() == ["left.txt", "paged.txt"]


def test_an_interrupt_while_the_transcript_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while more is read ends the reading; the pager shows what came, until its user leaves it."""
    put_on_terminal(monkeypatch)

    def interrupted(_: Any) -> Iterator[Any]:
        with read_jsonl(DEMO) as log:
            yield from replay(HumanTranscript(), log).entries[:1]
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_entries", interrupted)
    monkeypatch.setenv("PAGER", "sleep 0.2; cat > paged.txt")

    assert run("transcript", DEMO) == (130, "", "")
    assert "The monthly report" in Path("paged.txt").read_text()


def test_a_real_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process on a terminal: the pager writes to it, at its width and in colour."""
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("PAGER", "sed s/user/USER/")
    leader, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 40))
    program = f"import sys; from dsh_projections.command.cli import main; sys.exit(main(['transcript', {str(DEMO)!r}]))"

    with subprocess.Popen([sys.executable, "-c", program], stdin=terminal, stdout=terminal) as process:  # noqa: S603 - ours
        os.close(terminal)
        shown = b"".join(iter(lambda: _read_terminal(leader), b"")).decode()

    assert process.returncode == 0
    assert "\x1b[1;36mUSER\x1b[0m\r\n  The monthly report leaves out the last\r\n" in shown


def _read_terminal(leader: int) -> bytes:
    """Read what is on a terminal, or nothing when all who wrote to it are gone."""
    try:
        return os.read(leader, 65536)
    except OSError:
        return b""


def answered_late() -> list[SessionEvent]:
    """Return a log in which a result comes when its turn has ended."""
    log = LogBuilder()
    call: Any = {"type": "tool-call", "id": "c", "name": "run", "arguments": "{}"}
    log.append("turn/start", {"turn": 1})
    log.append("assistant/message", assistant_message([call], turn=1, step=1, provider="p", model="m"), APPEND)
    log.append("turn/end", {"turn": 1})
    log.append("tool/result", tool_result_message("c", "late", turn=1, step=1), APPEND)
    return log.events


@settings(max_examples=30, deadline=None)
@given(session_logs())
@example(answered_late())
def test_entries_are_shown_as_they_settle(events: list[SessionEvent]) -> None:
    """Entries that are shown while the log is read are those of the whole log, of a session and of a file alike."""
    whole = list(replay(HumanTranscript(), events).entries)

    with SessionStore.open(":memory:") as store:
        store.import_log(SessionHeader(id="s", created_at=0), events)
        of_session = list(commands._entries(store.log("s")))

    assert whole == of_session
    assert whole == list(commands._entries(iter(events)))  # type: ignore[arg-type] # a reader is an iterator


def test_an_entry_waits_for_nothing_but_its_calls(session: Session) -> None:
    """An entry is given when its event is read, or once the calls of the entries before it have their results."""
    read = []

    def reading() -> Iterator[SessionEvent]:
        with SessionStore.open("sessions.db") as store:
            for event in store.log(session.id):
                read.append(event.seq)
                yield event

    given = [(entry.seq, read[-1]) for entry in commands._entries(reading())]  # type: ignore[arg-type] # as above

    assert given == [(0, 0), (3, 5), (5, 5), (8, 8)]


def test_a_large_file_shows_progress_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal an import of a large file tells how far it is, by the file's name; nowhere else does it."""
    path = write_log("a[b]\x1b.jsonl", said(0, "x"), said(1, "y"))
    monkeypatch.setattr(commands, "PROGRESS_FROM_BYTES", 0)

    piped = run("import", path, "--store", "a.db")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = run("import", path, "--store", "b.db")

    assert (piped.status, piped.err) == (0, "")
    assert shown.status == 0
    assert "a[b]\ufffd.jsonl" in shown.err
    assert shown.out == "imported f: 2 events\n"


def test_progress_is_a_comfort(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the drawing library an import of a large file works, and shows no progress."""
    monkeypatch.setattr(commands, "PROGRESS_FROM_BYTES", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich", None)

    assert run("import", write_log("a.jsonl", said(0, "x"))) == (0, "imported f: 1 event\n", "")


def test_a_reader_that_has_seen_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the other end of the pipe is gone, the command ends quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)

        assert cli.main(["surface", str(DEMO), "--json"]) == 1


def test_an_interrupted_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the command without a word, with the status that shells expect."""

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "verify_log", interrupted)

    assert run("verify", DEMO) == (130, "", "")


def test_a_stdout_of_another_kind() -> None:
    """Text goes to whatever stands in for the standard output."""
    with redirect_stdout(StringIO()) as out:
        assert cli.main(["surface", str(DEMO)]) == 0
    assert "checkpoint" in out.getvalue()


def test_no_stdout(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A process without a standard output fails on one line."""
    monkeypatch.setattr(sys, "stdout", None)

    status = cli.main(["ls"])

    assert status == 1
    assert is_one_line(capsys.readouterr().err)


def test_the_installed_command() -> None:
    """As a process: text to a pipe, a pipe that closes early, a full disk, a closed stdout, and statuses."""
    whole = in_shell(f"./dsh transcript {quote(str(DEMO))}")
    early = in_shell(f"./dsh transcript {quote(str(DEMO))} --expand | head -n 1; ./dsh fly; echo $?")
    full = in_shell(f"./dsh surface {quote(str(DEMO))} > /dev/full; echo $?; ./dsh surface {quote(str(DEMO))} >&-")

    assert (whole.status, whole.err) == (0, "")
    assert "… earlier context was compacted …" in whole.out
    assert early.out == "\n2\n"
    assert is_one_line(early.err)
    assert (full.status, full.out) == (1, "1\n")
    assert [line for line in full.err.splitlines() if not line.startswith("dsh-session: ")] == []


def test_every_real_log(run: Run, corpus: list[Path]) -> None:
    """Every real log imports, verifies and exports, and what is exported equals what was imported, event for event."""
    for path in corpus:
        if path.name.endswith("suite-authored-error.jsonl"):
            continue
        with read_jsonl(path) as original:
            events, header = list(original), original.header
        imported = run("import", path, "--store", f"{path.name}.db")
        verified = run("verify", header.id, "--store", f"{path.name}.db")
        run("export", header.id, "-o", "out.jsonl", "--store", f"{path.name}.db")
        with read_jsonl("out.jsonl") as exported:
            assert (header, events) == (exported.header, list(exported))
        plural = "" if len(events) == 1 else "s"
        assert imported == (0, f"imported {header.id}: {len(events)} event{plural}\n", "")
        assert (verified.status, verified.err) == (0, "")


def test_a_real_log_that_begins_late(run: Run, corpus: list[Path]) -> None:
    """A real log whose first seq is 1 is refused with file and line, and imported leniently."""
    (path,) = (path for path in corpus if path.name.endswith("suite-authored-error.jsonl"))

    strict, lenient = run("import", path), run("import", path, "--lenient")

    assert strict.status == 1
    assert is_one_line(strict.err)
    assert f"{path}:2: " in strict.err
    assert lenient.status == 0
    assert lenient.err


def test_a_real_compaction(run: Run, corpus: list[Path]) -> None:
    """A real log that was compacted in a turn: the human sees all of it, the model begins with the checkpoint."""
    (path,) = (path for path in corpus if path.name == "later-compaction-recovery.jsonl")

    transcript, surface = run("transcript", path).out, run("surface", path).out

    order = [
        "Establish a durable compaction premise",
        "tool · bash",
        "│ alpha",
        "… earlier context",
        "COMPACTION RECOVERED",
    ]
    places = [transcript.rindex(text) for text in order]
    assert places == sorted(places)
    assert transcript.count("… earlier context was compacted …") == 1
    assert surface.splitlines()[1].split()[3] == "checkpoint"
    assert "COMPACTION RECOVERED" in surface


def test_a_refused_event_is_named_by_file_and_line(run: Run) -> None:
    """An event that does not fit the surface is refused with the file and the line that it stands on."""
    replacing = {**said(1, "x"), "surfaceOp": {"op": "replace", "start": 5, "end": 5}, "sourceEventSeqs": [0]}
    write_log("bad.jsonl", said(0, "hello"), replacing)

    outcome = run("import", "bad.jsonl")

    assert outcome.status == 1
    assert outcome.err.startswith("dsh-session: bad.jsonl:3: event at seq 1: ")


def test_a_directory_is_no_log(run: Run, folder: Path) -> None:
    """A directory is told apart from a session that is not there."""
    (folder / "logs").mkdir()

    assert "is a directory" in run("transcript", "logs").err


def test_a_log_is_read_from_standard_input() -> None:
    """A reader takes a log from whatever can be opened by a name."""
    assert in_shell(f"cat {quote(str(DEMO))} | ./dsh verify /dev/stdin").out.startswith(f"{DEMO_ID}: sound")


@pytest.mark.parametrize("words", [("transcript",), ("history",), ("reference",)])
def test_a_record_that_changed_on_disk_is_one_line(run: Run, session: Session, store: SessionStore, words: Any) -> None:
    """A stored record that is no message any more is told in one line, which says how to find it."""
    damage = 'UPDATE stored_events SET state = \'{"time":1,"data":5}\' WHERE originator_version = 1'
    with store._application.factory.datastore.transaction(commit=True) as cursor:  # type: ignore[attr-defined]
        cursor.execute(damage.replace("'{", "CAST('{").replace("}'", "}' AS BLOB)"))

    outcome = run(*words, session.id)

    assert outcome.status == 1
    assert "verify" in outcome.err
    assert is_one_line(outcome.err)


def test_a_search_without_a_new_index(run: Run, store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was indexed is found when the index cannot be brought up to date, and that is said."""
    store.create(id="s")

    def refuse(_: Any) -> int:
        raise StoreError("read-only")

    monkeypatch.setattr(SessionSearch, "catch_up", refuse)

    assert run("search", "x") == (0, "", "dsh-session: the index is not up to date: read-only\n")

"""The example harness does what it shows: three kinds of compaction, a crash, and nothing lost."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock

from dsh_projections import CompactionEntry, HumanTranscript, ModelSurface, replay
from dsh_projections.verify import verify_log
from dsh_session import SessionStore, is_append_surface_event, to_anthropic_messages, user_message

if TYPE_CHECKING:
    from types import ModuleType

    from dsh_session import SessionEvent

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "harness.py"


@pytest.fixture(scope="module")
def harness() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("harness", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def log_in(folder: Path) -> list[SessionEvent]:
    with SessionStore.open(folder / "sessions.db") as store:
        return list(store.log("sales"))


def test_the_session_is_compacted_in_all_three_ways(harness: ModuleType, tmp_path: Path) -> None:
    """Pressure, overflow and a wish each land one compaction, inside a turn and between turns, and none after it."""
    reports = harness.play(tmp_path)

    turns = [event.data["turn"] for event in log_in(tmp_path) if event.type == "compact/end"]
    assert [trigger for trigger, _ in reports] == ["pressure", "overflow", "manual"]
    assert [len(report.compactions) for _, report in reports] == [1, 1, 1]
    assert all(report.tokens_after < report.tokens_before for _, report in reports)
    assert turns == [2, 3, None]


def test_the_log_is_sound(harness: ModuleType, tmp_path: Path) -> None:
    """The whole log verifies, without a warning, and everything is closed at its end."""
    harness.play(tmp_path)

    with SessionStore.open(tmp_path / "sessions.db") as store:
        report = verify_log(store.header("sales"), store.log("sales"))
        session = store.load("sales")

    assert (report.problem, report.warnings, report.generation) == (None, (), 3)
    assert (session.open_compaction, session.repair_events()) == (None, [])


def test_the_human_loses_nothing(harness: ModuleType, tmp_path: Path) -> None:
    """The transcript has an entry for everything that was said, and a row for each compaction."""
    harness.play(tmp_path)
    log = log_in(tmp_path)

    entries = replay(HumanTranscript(), log).entries

    rows = [entry.seq for entry in entries if entry.kind == "compaction"]
    appended = [event.seq for event in log if is_append_surface_event(event)]
    assert [entry.seq for entry in entries] == sorted([*rows, *appended])
    assert len(rows) == 3
    shown = "\n".join(entry.text for entry in entries if not isinstance(entry, CompactionEntry))
    answers = [part for reply in harness.SCRIPT if isinstance(reply, list) for part in reply if isinstance(part, str)]
    assert [answer for answer in answers if answer not in shown and not answer.startswith("Goal: ")] == []
    assert "week 1,21,market" in shown
    sent = json.dumps(replay(ModelSurface(), log).messages())
    assert "week 1,21,market" not in sent


def test_the_crash_is_settled(harness: ModuleType, tmp_path: Path) -> None:
    """The call that the crash cut short has an error result, its turn an end, and its work was done once."""
    harness.play(tmp_path)
    log = log_in(tmp_path)

    cut, settled = (event.data for event in log if event.data.get("turn") == 4 and event.type.startswith("tool/"))
    ends = [event.data for event in log if event.type == "turn/end"]

    assert (cut["callId"], settled["message"]["source"]["callId"]) == ("call-4", "call-4")
    assert settled["message"]["content"][0]["isError"]
    assert settled["error"]["code"] == "TOOL_OUTCOME_UNKNOWN"
    assert [(end["turn"], end["reason"]["kind"]) for end in ends] == [
        (1, "completed"),
        (2, "completed"),
        (3, "completed"),
        (4, "interrupted"),
        (5, "completed"),
    ]
    assert (tmp_path / "notes.txt").read_text() == "total 3030\n"


def test_what_the_model_is_asked_is_durable(
    harness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the model is asked to go on, the store already holds exactly what it is sent."""
    scripted_model = harness.scripted_model
    asked = []

    def watched(script: Any) -> Any:
        model = scripted_model(script)

        def ask(header: Any, messages: list[Any]) -> Any:
            if messages[-1]["source"].get("plugin") != "compact-instruction":
                asked.append(messages == replay(ModelSurface(), log_in(tmp_path)).messages())
            return model(header, messages)

        return ask

    monkeypatch.setattr(harness, "scripted_model", watched)
    harness.play(tmp_path)

    assert asked == [True] * (len(harness.SCRIPT) - 3)


def test_it_shows_the_same_every_time(
    harness: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs print the same; where there is room, the two readers stand side by side."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    screens = []
    for columns in ("80", "80", "160"):
        monkeypatch.setenv("COLUMNS", columns)
        harness.main()
        screens.append(capsys.readouterr().out)

    narrow, again, wide = screens
    assert narrow == again
    assert [line for line in (narrow + wide).splitlines() if line != line.rstrip()] == []
    assert narrow.count("… earlier context was compacted …") == 3
    assert [line.split() for line in narrow.splitlines() if "sees" in line] == [["The", "human", "sees"]]
    assert [line.split() for line in wide.splitlines() if "sees" in line] == [
        ["The", "human", "sees", "The", "model", "is", "sent"]
    ]


def test_it_runs_as_a_script() -> None:
    """The file runs as it stands, and `make demo` runs it."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False)  # noqa: S603 - ours

    assert (done.returncode, done.stderr) == (0, "")
    assert "The total is in notes.txt now, once." in done.stdout
    assert "examples/harness.py" in (ROOT / "Makefile").read_text()


def client_that(reply: Any) -> Any:
    """Stand for an Anthropic client: it gives a reply, or raises one."""
    requests = []

    def create(**request: Any) -> Any:
        requests.append(request)
        if isinstance(reply, Exception):
            raise reply
        return SimpleNamespace(content=reply)

    return SimpleNamespace(messages=SimpleNamespace(create=create), requests=requests)


def test_a_real_client_takes_the_place_of_the_script(harness: ModuleType) -> None:
    """A client is sent the converted request, and what it answers comes back as blocks that can be appended."""
    client = client_that(
        [
            ThinkingBlock(type="thinking", thinking="Hm.", signature="c2ln"),
            TextBlock(type="text", text="I look."),
            ToolUseBlock(type="tool_use", id="c", name="run", input={"command": "ls"}),
        ]
    )
    messages = [user_message("go", message_id="u")]

    blocks = harness.anthropic_model(client, "large")(harness.HEADER, messages)

    assert client.requests == [
        {"model": "large", "max_tokens": 8192, **to_anthropic_messages(messages, harness.HEADER)}
    ]
    assert blocks == [
        {"type": "reasoning", "text": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "I look."},
        {"type": "tool-call", "id": "c", "name": "run", "arguments": '{"command": "ls"}'},
    ]


def test_a_real_client_that_overflows(harness: ModuleType) -> None:
    """The provider's own refusal of a long prompt is the overflow; any other error stays what it is."""
    too_long = harness.anthropic_model(client_that(ValueError("prompt is too long: 9 tokens > 8 maximum")), "large")
    other = harness.anthropic_model(client_that(ValueError("no such model")), "large")

    with pytest.raises(harness.ContextOverflowError):
        too_long(None, [])
    with pytest.raises(ValueError, match="no such model"):
        other(None, [])

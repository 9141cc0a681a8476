"""A small agent harness: a model, two tools, a store, and compaction under pressure, on overflow and on demand.

Run it to play a scripted session, a crash included, and to see what the human and what the model sees of it. A real
model takes the place of the script: `anthropic_model` makes one of a client.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import attrs
from rich.console import Group
from rich.table import Table
from rich.text import Text

from dsh_compact import BasicCompactionEngine, EngineReport, Summary, Trigger
from dsh_projections import HumanTranscript, ModelSurface, replay
from dsh_projections.command.printing import print_drawn, print_heading
from dsh_projections.terminal import draw_surface, draw_transcript
from dsh_session import (
    APPEND,
    Session,
    SessionStore,
    assistant_message,
    to_anthropic_messages,
    tool_calls_of,
    tool_result_message,
    user_message,
)

Model: TypeAlias = Callable[[Any, list[Any]], list[Any]]
Tool: TypeAlias = Callable[..., str]

WIDE = 150

ROUTE: dict[str, Any] = {"provider": "example", "model": "scripted"}
TOOLS = [
    {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
    {"name": "run", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
]
HEADER = {"config": ROUTE, "system": "You answer questions about the files of this folder.", "tools": TOOLS}


class ContextOverflowError(Exception):
    """The provider refused a request as too long."""


@attrs.define
class Harness:
    """One session at work."""

    store: SessionStore
    session: Session
    model: Model
    tools: dict[str, Tool]
    engine: BasicCompactionEngine = attrs.field(factory=BasicCompactionEngine)
    reports: list[tuple[Trigger, EngineReport]] = attrs.field(factory=list)

    def take_turn(self, turn: int, prompt: str) -> None:
        """Work until the model calls no more tools."""
        self.session.append("turn/start", {"turn": turn})
        self.session.append("user/message", user_message(prompt), APPEND)
        for step in count(1):
            place: dict[str, Any] = {"turn": turn, "step": step}
            self.compact("pressure")
            self.session.append("step/start", place)
            answer = assistant_message(self.ask(), **place, **ROUTE)
            self.session.append("assistant/message", answer, APPEND)
            calls = tool_calls_of(answer["message"])
            for call in calls:
                self.use_tool(call, place)
            self.session.append("step/end", place)
            if not calls:
                break
        self.session.append("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
        self.store.save(self.session)

    def ask(self) -> list[Any]:
        """Ask the model, and once more if the request was too long and could be made shorter."""
        self.store.save(self.session)
        try:
            return self.model(self.session.request_header(), self.session.messages())
        except ContextOverflowError:
            if not self.compact("overflow"):
                raise
        return self.model(self.session.request_header(), self.session.messages())

    def use_tool(self, call: dict[str, Any], place: dict[str, Any]) -> None:
        """Run one tool. That it was started is on record first, so that a crash leaves no doubt about it."""
        started = {"callId": call["id"], "name": call["name"], "arguments": call["arguments"]}
        self.session.append("tool/call", {**place, **started})
        self.store.save(self.session)
        try:
            output, is_error = self.tools[call["name"]](**json.loads(call["arguments"])), False
        except (LookupError, OSError, TypeError, ValueError) as error:
            output, is_error = str(error), True
        result = tool_result_message(call["id"], output, is_error=is_error, **place)
        self.session.append("tool/result", result, APPEND)

    def compact(self, trigger: Trigger) -> bool:
        """Compact if the trigger has cause to, and say whether it had. The model itself summarises."""
        report = self.engine.compact(
            self.session, trigger, summarize=lambda request: Summary(self.model(request.header, request.messages))
        )
        self.store.save(self.session)
        if report is not None:
            self.reports.append((trigger, report))
        return report is not None


def tools_in(folder: Path) -> dict[str, Tool]:
    """Make the two tools, which work in a folder."""

    def run(command: str) -> str:
        words = ["/bin/sh", "-c", command]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - as asked
        return f"{done.stdout}{done.stderr}[exit code {done.returncode}]"

    return {"read_file": lambda path: (folder / path).read_text(), "run": run}


def interrupted(command: str) -> str:
    """Be the tool that runs when the process ends."""
    raise KeyboardInterrupt(command)


def anthropic_model(client: Any, name: str) -> Model:
    """Make a model of an ``anthropic.Anthropic()`` client."""

    def ask(header: Any, messages: list[Any]) -> list[Any]:
        request = to_anthropic_messages(messages, header)
        try:
            reply = client.messages.create(model=name, max_tokens=8192, **request)
        except Exception as error:
            if "prompt is too long" not in str(error):
                raise
            raise ContextOverflowError from error
        return [block_of(part) for part in reply.content]

    def block_of(part: Any) -> dict[str, Any]:
        match part.type:
            case "tool_use":
                return {"type": "tool-call", "id": part.id, "name": part.name, "arguments": json.dumps(part.input)}
            case "thinking":
                return {"type": "reasoning", "text": part.thinking, "signature": part.signature}
            case _:
                return {"type": "text", "text": part.text}

    return ask


def scripted_model(script: Iterable[list[Any] | Exception]) -> Model:
    """Make a model that says what a script says, in order; a str stands for a text block."""
    replies = iter(script)

    def ask(_header: Any, _messages: list[Any]) -> list[Any]:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in reply]

    return ask


def use(call_id: str, name: str, **arguments: str) -> dict[str, str]:
    """Make a tool-call block."""
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": json.dumps(arguments)}


SCRIPT: list[list[Any] | Exception] = [
    [use("call-1", "read_file", path="sales.csv")],
    ["Only line 1 of sales.csv is a heading. `NR > 2` leaves out line 2 as well, so it should be `NR > 1`."],
    [use("call-2", "run", command="awk -F, 'NR > 1 { sum += $2 } END { print sum }' sales.csv")],
    ["Goal: the total of sales.csv. Found: `NR > 2` leaves out week 1. Next: tell the user what `NR > 1` prints."],
    ["It prints 3030, and week 1 counts now."],
    ContextOverflowError("prompt is too long"),
    ["Goal: questions about sales.csv. Done: its total is 3030, by `NR > 1`. Next: find the best week."],
    [use("call-3", "run", command="sort -t, -k2 -n sales.csv | tail -n 6")],
    ["Week 60 was the best, with 80 sold. Of the six best weeks only week 56 was one at the fair."],
    ["Goal: questions about sales.csv. Done: its total is 3030; week 60 was the best, with 80 sold."],
    [use("call-4", "run", command="echo 'total 3030' >> notes.txt")],
    ["I look first.", use("call-5", "run", command="grep total notes.txt || echo 'total 3030' >> notes.txt")],
    ["The total is in notes.txt now, once."],
]


def play(folder: Path) -> list[tuple[Trigger, EngineReport]]:
    """Play the session in a folder, and return what was compacted, by trigger."""
    weeks = [f"week {week},{week + 20},{'market' if week % 7 else 'fair'}\n" for week in range(1, 61)]
    (folder / "sales.csv").write_text("week,sold,where\n" + "".join(weeks))
    (folder / "notes.txt").touch()
    clock = count(1_790_000_000_000, 1000).__next__
    model = scripted_model(SCRIPT)

    with SessionStore.open(folder / "sessions.db", clock=clock) as store:
        session = store.create(id="sales", cwd=str(folder))
        session.append("request/header", {"header": HEADER, "reason": "initial"})
        session.append("request/context", {**ROUTE, "contextWindow": 590})
        before = Harness(store, session, model, tools_in(folder))
        before.take_turn(1, "The total by `awk -F, 'NR > 2 { sum += $2 } END { print sum }'` is too small. Why?")
        before.take_turn(2, "What is it, then?")
        before.take_turn(3, "Which week was the best?")
        before.compact("manual")
        before.tools["run"] = interrupted
        with suppress(KeyboardInterrupt):
            before.take_turn(4, "Write the total into notes.txt.")

    with SessionStore.open(folder / "sessions.db", clock=clock) as store:
        after = Harness(store, store.resume("sales"), model, tools_in(folder))
        after.take_turn(5, "I had to stop you. Go on, please.")
    return before.reports + after.reports


def main() -> None:
    """Play the session in a folder that is gone afterwards; show it side by side where there is room for it."""
    print_heading("A harness at work: examples/harness.py")
    with TemporaryDirectory() as name:
        for trigger, report in play(Path(name)):
            print(f"{trigger}: {report.tokens_before} tokens became {report.tokens_after}")
        with SessionStore.open(Path(name) / "sessions.db") as store:
            log = list(store.log("sales"))
    human = Group(Text("The human sees\n", "bold"), *draw_transcript(replay(HumanTranscript(), log).entries))
    model = Group(Text("The model is sent\n", "bold"), *draw_surface(replay(ModelSurface(), log).events()))
    table = Table.grid(padding=(1, 4))
    for row in [(human, model)] if get_terminal_size().columns >= WIDE else [(human,), (model,)]:
        table.add_row(*row)
    print_drawn([table])


if __name__ == "__main__":
    main()

"""What the pages show is run, and what they name exists."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from dsh_session import APPEND, SessionStore, assistant_message, tool_result_message, user_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [page.stem for page in PAGES if page.parent.name == "docs" and "```python" in page.read_text()]
DECISIONS = sorted((ROOT / "ADR").glob("*.md"))
SOURCES = sorted((ROOT / "src").rglob("*.py"))

settings.register_profile("pages", derandomize=True, max_examples=10, stateful_step_count=10, deadline=None)


@contextmanager
def few_examples() -> Iterator[None]:
    """Let what a page defines as a law be tried a few times only: here it is the page that is tested."""
    before = settings.get_current_profile_name()
    settings.load_profile("pages")
    yield
    settings.load_profile(before)


def run(page: Path, names: dict[str, Any]) -> dict[str, Any]:
    """Run the Python blocks of a page one after the other, and then what they define as tests; return all names."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)  # noqa: S102 - our own page
    for name, defined in list(names.items()):
        if name.startswith("test_"):
            defined()
        elif name.startswith("Test"):
            defined("runTest").runTest()
    return names


def run_guide(name: str) -> dict[str, Any]:
    """Run a guide with what stands in for its reader's own names."""
    return run(ROOT / "docs" / f"{name}.md", SETTINGS.get(name, dict)())


def worked_store() -> SessionStore:
    """A store whose session "docs" ran a tool twice, the first time without success, and was thanked at length."""
    store = SessionStore.open(":memory:")
    session = store.create(id="docs")
    session.append("request/context", {"provider": "example", "model": "example-small", "contextWindow": 8000})
    for turn in (1, 2):
        place: Any = {"turn": turn, "step": 1}
        call: Any = {"type": "tool-call", "id": f"call-{turn}", "name": "run", "arguments": "{}"}
        answer = assistant_message([call], provider="example", model="example-small", **place)
        session.append("user/message", user_message("Run the tests. " * 20), APPEND)
        session.append("assistant/message", answer, APPEND)
        session.append("tool/result", tool_result_message(f"call-{turn}", "…", is_error=turn == 1, **place), APPEND)
        session.append("user/message", user_message("Thank you. " * 50), APPEND)
    store.save(session)
    return store


def for_embedding() -> dict[str, Any]:
    """A provider that wants a tool run and then has its answer, and a window that shows nothing."""
    call = {"type": "tool-call", "id": "call-1", "name": "run", "arguments": '{"command": "pytest"}'}
    answers = iter([[call], [{"type": "text", "text": "There are three."}]])

    class Stream(list[Any]):
        usage = None

        def __init__(self, blocks: list[Any]) -> None:
            super().__init__(
                {"type": "block-end", "index": index, "block": block} for index, block in enumerate(blocks)
            )
            self.blocks = blocks

    async def my_async_summarizer(request: Any) -> str:
        raise NotImplementedError(request)

    return {
        "my_provider": lambda _: Stream(next(answers)),
        "my_tools": {"run": lambda command: f"{command}: 3 passed"},
        "my_window": SimpleNamespace(show=list),
        "my_async_summarizer": my_async_summarizer,
    }


SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "embedding": for_embedding,
    "projection": lambda: {"store": worked_store()},
    "engine": lambda: {
        "session": worked_store().load("docs"),
        "my_tokenizer": len,
        "my_summary": lambda messages: f"{len(messages)} messages",
    },
    "verifying": lambda: {
        name: run_guide(page)[name] for page, name in [("projection", "ToolTally"), ("engine", "KeepThree")]
    },
}
"""What the names on a guide that are its reader's own stand for, by guide."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_readme_code_runs() -> None:
    """The README's Python blocks run, one after the other, against a real store."""
    names = run(ROOT / "README.md", {"my_model": lambda messages: f"I saw {len(messages)} message."})

    assert [entry.text for entry in names["transcript"]] == ["fix the failing test", "I saw 1 message."]
    assert not names["newest_page"].has_more


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_runs(guide: str) -> None:
    """The Python blocks of a guide run, one after the other, and so do the tests that they define."""
    with few_examples():
        run_guide(guide)


def test_no_code_is_left_out() -> None:
    """Whatever a page fences is Python, which is run, a directive, which is built, or what a command prints."""
    fenced = {kind for page in PAGES for kind in re.findall(r"^```(.+)$", page.read_text(), re.MULTILINE)}

    assert fenced <= {"python", "{toctree}", "{eval-rst}", "text"}
    assert GUIDES == ["embedding", "engine", "projection", "storing", "verifying"]


def test_links_lead_somewhere() -> None:
    """Every link from page to page names a page that is there."""
    links = [(page, target) for page in PAGES for target in re.findall(r"\]\(([\w./]+\.md)[)#]", page.read_text())]

    assert len(links) > len(PAGES)
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


def test_readme_verbs_exist() -> None:
    """Every make verb that the README names is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text()

    verbs = set(re.findall(r"make (\w+)", README)) - {"and"}

    assert {"demo", "test", "check", "bench"} <= verbs
    assert [verb for verb in sorted(verbs) if f"\n{verb}:" not in makefile] == []


def test_ci_calls_the_command_of_the_readme() -> None:
    """CI runs the tests with the very command that the README gives."""
    script = (ROOT / ".ci" / "run").read_text().splitlines()

    assert "make test" in script
    assert "    make test\n" in README


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_decision_pages_name_tests_that_exist(page: Path) -> None:
    """A decision has all its parts, and its confirmation names files that exist."""
    text = page.read_text()

    assert [
        part for part in ("Status:", "Date:", "## Context", "## Decision", "## Consequences") if part not in text
    ] == []
    confirmation = text.split("## Confirmation")[1]
    named = re.findall(r"`((?:tests|bench)/[\w./]*)`", confirmation)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_cited_decisions_exist() -> None:
    """Every decision that code cites has its page."""
    numbers = {page.name[:4] for page in DECISIONS}

    cited = {number for source in SOURCES for number in re.findall(r"ADR-(\d{4})", source.read_text())}

    assert cited
    assert sorted(cited - numbers) == []

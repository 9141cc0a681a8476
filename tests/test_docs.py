"""What the pages show is run, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DECISIONS = sorted((ROOT / "ADR").glob("*.md"))
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_readme_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's Python blocks run, one after the other, against a real store."""
    monkeypatch.chdir(tmp_path)
    namespace = {"my_model": lambda messages: f"I saw {len(messages)} message."}

    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), namespace)  # noqa: S102 - our own page

    assert [entry.text for entry in namespace["transcript"]] == ["fix the failing test", "I saw 1 message."]
    assert not namespace["newest_page"].has_more


def test_the_page_on_storing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of the page on storing run, one after the other; their own assertions say what they show."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "storing.md").read_text()
    namespace: dict[str, object] = {}

    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "storing.md", "exec"), namespace)  # noqa: S102 - our own page

    assert "assert " in page
    assert "child" in namespace


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

"""The screens of the command, pinned as text: what it shows of the demo's log, at two widths.

``WRITE_SCREENS=1 pytest tests/test_screens.py`` writes them anew, and compares nothing; the difference is for git to
show and for a person to read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import dsh_projections
from dsh_projections.command import cli

ROOT = Path(__file__).parents[1]
DEMO = Path(dsh_projections.__file__).with_name("demo.jsonl")
PINNED = Path(__file__).with_name("screens")
WIDTHS = (60, 100)
SCREENS = {
    "transcript": ["transcript", "demo-date-filter"],
    "transcript-expanded": ["transcript", "demo-date-filter", "--expand"],
    "transcript-window": ["transcript", "demo-date-filter", "--entries", "4", "--before-seq", "52"],
    "surface": ["surface", "demo-date-filter"],
    "surface-as-of": ["surface", "demo-date-filter", "--as-of", "30"],
    "history": ["history", "demo-date-filter", "--max-messages", "3"],
    "explain": ["explain", "demo-date-filter", "52"],
    "search": ["search", "last day"],
    "reference": ["reference", "demo-date-filter"],
    "ls": ["ls"],
}


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that asks for no colours where there is no terminal."""
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_pinned(
    name: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command prints of the demo's log is what is pinned, to the byte."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(["import", str(DEMO)]) == 0
    capsys.readouterr()

    status = cli.main(SCREENS[name])

    screen, complaints = capsys.readouterr()
    assert (status, complaints) == (0, "")
    pinned = PINNED / f"{name}-{width}.txt"
    if "WRITE_SCREENS" in os.environ:
        pinned.write_bytes(screen.encode())
        pytest.skip(f"{pinned.name} was written, not compared")
    assert pinned.read_bytes().decode() == screen


def test_no_screen_is_left_over() -> None:
    """Every pinned screen is one that is compared."""
    assert {f"{name}-{width}.txt" for name in SCREENS for width in WIDTHS} == {path.name for path in PINNED.iterdir()}


def test_the_readme_shows_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below each command line in the README's screens stands all that it prints, at 100 columns."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    (block,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    shown = re.findall(r"^\$ dsh-session (.*)\n((?:(?!\$).*\n)*)", block, re.MULTILINE)

    assert [words.split()[0] for words, _ in shown] == ["transcript", "surface"]
    for words, screen in shown:
        assert cli.main(words.split()) == 0
        assert screen.strip("\n") == capsys.readouterr().out.strip("\n")

"""What a summary must be, and what of it reaches the checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_compact import CompactionError, Summary, SummaryRejectedError
from dsh_compact.summary import FRAME_HEAD, FRAME_TAIL, INSTRUCTION, accepted_text, framed

TEXT: Any = {"type": "text", "text": "what matters"}
IMAGE: Any = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
REASONING: Any = {"type": "reasoning", "text": "let me think"}
CALL: Any = {"type": "tool-call", "id": "c", "name": "run", "arguments": "{}"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([TEXT], "what matters"),
        ([{"type": "text", "text": " \n padded \n"}], "padded"),
        ([TEXT, {"type": "text", "text": "and more"}], "what matters\nand more"),
        ([REASONING, TEXT, CALL], "what matters"),
        ([{"type": "text", "text": ""}, TEXT], "what matters"),
        ([{"type": "text", "text": "torn \ud83d"}], "torn \ud83d"),
    ],
)
def test_only_the_text_of_a_summary_counts(content: list[Any], expected: str) -> None:
    """The text blocks make one text; reasoning and tool calls leave nothing in it."""
    assert expected == accepted_text(Summary(content))


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        (Summary([]), "it has no text"),
        (Summary.of(""), "it has no text"),
        (Summary.of(" \n\t"), "it has no text"),
        (Summary([REASONING]), "it has no text"),
        (Summary([CALL]), "it has no text"),
        (Summary([TEXT], is_cut_off=True), "it was cut off by the limit of tokens; a summary is whole"),
        (Summary([TEXT, IMAGE]), "it carries a block of type 'image'; a summary is text"),
        (Summary([TEXT, {"type": "hologram"}]), "it carries a block of type 'hologram'; a summary is text"),
        (Summary(["what matters"]), "it carries 'what matters'; a summary is a list of text blocks"),
        (Summary.of(None), "it carries {'type': 'text', 'text': None}; a summary is a list of text blocks"),  # type: ignore[arg-type]
    ],
)
def test_a_summary_that_cannot_stand_for_anything_is_refused(summary: Summary, reason: str) -> None:
    """It is refused for being cut off, for carrying what is no text, or for having no text; the error says which."""
    # when
    with pytest.raises(SummaryRejectedError) as caught:
        accepted_text(summary)
    # then
    assert reason == caught.value.reason
    assert f"summary rejected: {reason}" == str(caught.value)
    assert isinstance(caught.value, CompactionError)
    assert isinstance(caught.value, ValueError)


def test_a_text_is_a_summary_of_one_block() -> None:
    """A summarizer may return a text or a whole summary."""
    whole = Summary([TEXT], provider="p", usage={"outputTokens": 3})
    assert Summary([TEXT]) == Summary.of("what matters")
    assert whole is Summary.of(whole)


def test_the_frame_stands_around_the_text() -> None:
    """The model is told that it reads a checkpoint, and where its text begins and ends."""
    assert f"{FRAME_HEAD}what matters{FRAME_TAIL}" == framed("what matters")
    assert FRAME_HEAD.endswith("<checkpoint>\n")
    assert FRAME_TAIL == "\n</checkpoint>"


def test_the_instruction_asks_for_every_part_of_a_checkpoint() -> None:
    """Goal, decisions, files, errors and fixes, open work, next step: each has its heading."""
    headings = [line.split(":")[0] for line in INSTRUCTION.splitlines() if ":" in line]
    assert [heading for heading in headings if heading[0].isupper() and len(heading) < 20] == [
        "Goal",
        "Decisions",
        "Files",
        "Errors and fixes",
        "Open work",
        "Next step",
    ]

"""Summaries: what is asked for, what is acceptable, and how one is framed for the model that goes on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dsh_compact.errors import SummaryRejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

INSTRUCTION: Final = """\
The conversation above is about to be replaced by a checkpoint, which you write now. Whoever goes on from it sees the
checkpoint and what follows, and nothing of the above.

Write it as plain text under these headings, and leave out a heading that has nothing under it:

Goal: what the user wants, in the user's own terms, with every constraint that was given.
Decisions: what was decided, and why; what was ruled out.
Files: each file that was read or changed, with its path and what matters in it.
Errors and fixes: what went wrong, and what mended it or did not.
Open work: what was begun and is not done.
Next step: the one thing to do next.

Keep names, paths, commands, numbers and error messages exactly as they stand. Do not call any tool. Do not address
the user. Answer with the checkpoint alone.
"""

FRAME_HEAD: Final = (
    "This is a checkpoint of the conversation so far; the messages that it was made from are not shown again."
    " Take it as known, and go on from what follows.\n\n<checkpoint>\n"
)
FRAME_TAIL: Final = "\n</checkpoint>"


@attrs.frozen
class Summary:
    """What a summarizer gives back.

    Attributes:
        content: the model's answer, as content blocks.
        is_cut_off: whether the answer ended at the limit of tokens.
        provider: who ran the model; the session's provider when None.
        model: the model's name there; the session's model when None.
        max_tokens: the limit that the answer was given.
        usage: token counts as the provider reported them.
    """

    content: Sequence[Any]
    is_cut_off: bool = False
    provider: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    usage: Any = None

    @classmethod
    def of(cls, answer: Summary | str) -> Summary:
        """Take a text for a summary that is one text block."""
        return answer if isinstance(answer, Summary) else cls([{"type": "text", "text": answer}])


def accepted_text(summary: Summary) -> str:
    """Return the text that a summary puts into the checkpoint: its text blocks, and nothing else of it.

    Raises:
        SummaryRejectedError: it was cut off, carries something that is neither text nor reasoning nor a tool call, or
            has no text.
    """
    if summary.is_cut_off:
        raise SummaryRejectedError("it was cut off by the limit of tokens; a summary is whole")
    texts = []
    for block in summary.content:
        match block:
            case {"type": "text", "text": str() as text}:
                texts.append(text)
            case {"type": "reasoning" | "tool-call"}:
                pass
            case {"type": kind} if kind != "text":
                raise SummaryRejectedError(f"it carries a block of type {kind!r}; a summary is text")
            case _:
                raise SummaryRejectedError(f"it carries {block!r}; a summary is a list of text blocks")
    text = "\n".join(texts).strip()
    if not text:
        raise SummaryRejectedError("it has no text")
    return text


def framed(text: str) -> str:
    """Put a summary's text into the words that tell the model what it is."""
    return f"{FRAME_HEAD}{text}{FRAME_TAIL}"

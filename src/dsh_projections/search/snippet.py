"""A short piece of a text around what was looked for, safe to print."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import attrs

from dsh_projections.search.words import MAX_WORD_CHARS, composed, spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

SNIPPET_CHARS: Final = 160
"""How many characters of a text a snippet shows at most; there is one more at each end that is cut."""

_LEAD_CHARS: Final = 40
_WORD: Final = re.compile("[^ ]+")


@attrs.frozen
class Snippet:
    """A piece of a text.

    Attributes:
        text: one line. White space is one space in it, and so is what cannot be printed, such as control characters; an
            ellipsis stands where the text goes on.
        matches: the words in it that were looked for, as (start, end) in ``text``, in their order.
    """

    text: str
    matches: tuple[tuple[int, int], ...]


def snippet_of(text: str, phrases: Sequence[Sequence[str]]) -> Snippet:
    """Return the piece of a text where the first of some phrases stands, with the words of every phrase marked.

    Args:
        text: any text; one that holds none of the phrases gives its beginning.
        phrases: each the words of a phrase, as `words_of` gives them.

    Cost: O(size of what is looked at of the text).
    """
    line = " ".join("".join(char if char.isprintable() else " " for char in composed(text)).split())
    found = _found(spelled(line), phrases)
    places = list(accumulate(map(len, map(spelled, line)), initial=0))
    start, stop = _window(line, bisect_right(places, found[0][0]) - 1 if found else 0)
    before, after = "…" * (start > 0), "…" * (stop < len(line))
    matches = []
    marked = start
    for word_start, word_stop in found:
        first = bisect_right(places, word_start) - 1
        if first >= stop:
            break
        last = min(max(first + 1, bisect_right(places, word_stop) - 1), stop)
        if first >= marked:  # a character that spells two words is marked once
            matches.append((first - start + len(before), last - start + len(before)))
        marked = last
    return Snippet(f"{before}{line[start:stop]}{after}", tuple(matches))


def _found(spelling: str, phrases: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Return where in a spelling the words of the phrases stand."""
    words = list(_WORD.finditer(spelling))
    texts = [word[0][:MAX_WORD_CHARS] for word in words]
    by_text = defaultdict(list)
    for index, word in enumerate(texts):
        by_text[word].append(index)
    found = {
        index + offset
        for phrase in phrases
        for index in by_text[phrase[0]]
        if texts[index : index + len(phrase)] == list(phrase)
        for offset in range(len(phrase))
    }
    return [words[index].span() for index in sorted(found)]


def _window(line: str, at: int) -> tuple[int, int]:
    """Return the start and the stop of what is shown of a line: around a place, and between spaces if there are any."""
    start = max(0, min(at - _LEAD_CHARS, len(line) - SNIPPET_CHARS))
    stop = start + SNIPPET_CHARS
    if start > 0:
        start = line.find(" ", start - 1, at) + 1 or start
    if stop >= len(line):
        return start, len(line)
    space = line.rfind(" ", at, stop + 1)
    return start, stop if space < 0 else space

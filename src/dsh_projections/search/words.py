"""The words of a text, as a search compares them: what a word is, and which letters are alike.

A word is a run of letters and digits. Case does not count, nor do the accents on an alphabet's letters, nor forms such
as full-width letters and ligatures. Scripts that write no space between words, and Korean, which joins endings to
words, are taken character by character: what is asked for there is found wherever its characters stand in a row.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import normalize

WORDS_VERSION: Final = 1
"""Of what this room says a word is: words of another version do not compare."""

MAX_CHARS: Final = 100_000
"""How many characters of a text are looked at."""

MAX_WORD_CHARS: Final = 255
"""How many characters of a word count."""

# A character is spelled with three, spaces included; only forms that stand for a whole phrase have more.
_MAX_SPELLED: Final = 3 * MAX_CHARS
# Thai, Lao, Burmese, Khmer; Chinese, Japanese, Korean.
_SINGLE: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)


class _Spelling(dict[int, str]):
    def __missing__(self, code: int) -> str:
        bare = (part for part in normalize("NFKD", chr(code)) if not "\u0300" <= part <= "\u036f")
        folded = normalize("NFC", "".join(bare)).casefold()
        spelling = "".join(map(_parted, folded))
        if " " in spelling:  # what is several words is not joined to its neighbours either
            spelling = " ".join(["", *spelling.split(), ""])
        self[code] = spelling
        return spelling


def _parted(char: str) -> str:
    if not char.isalnum():
        return " "
    return f" {char} " if _SINGLE.match(char) else char


_SPELLING: Final = _Spelling()


def composed(text: str) -> str:
    """Return what is looked at of a text: its beginning, with letters and their accents composed where they can be."""
    return normalize("NFC", text[:MAX_CHARS])


def spelled(characters: str) -> str:
    """Return what is compared in the place of some characters, with a space wherever a word begins or ends.

    The spelling of a text is that of its characters, one after the other; that of a character has any length.
    """
    return characters.translate(_SPELLING)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in their order. Cost: O(size of the text), and no more than of `MAX_CHARS`."""
    return [word[:MAX_WORD_CHARS] for word in spelled(composed(text))[:_MAX_SPELLED].split()]

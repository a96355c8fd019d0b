"""Texts as their letters alone: what spacing, points, numbering, markup and look-alikes cannot change."""

from __future__ import annotations

import codecs
import re
import unicodedata
from functools import lru_cache

from radixway.guard.jailbreak.confusables import LOOKALIKES, TAG_FIRST, TAG_LAST

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_TAGS = 0xE0000
"""What lies between a tag character, which nobody sees, and the character it stands for."""

WORD = 3
"""How much a word weighs."""
_CHARACTER = 2
"""And a Chinese, Japanese or Korean character, which is less than a word of its own."""


@lru_cache(8192)
def fold_letter(char: str) -> str:
    """The letters of one character: one, none, or those that it is composed of, without accents."""
    if char.isascii():
        return char.lower() if char.isalpha() else ""
    if TAG_FIRST <= ord(char) <= TAG_LAST:
        return fold_letter(chr(ord(char) - _TAGS))
    plain = unicodedata.normalize("NFKD", char.translate(LOOKALIKES)).casefold().translate(LOOKALIKES)
    return "".join(filter(str.isalpha, plain.casefold()))


def extract_letters(text: str) -> str:
    """`1. Links may…` → `linksmay`."""
    return "".join(map(fold_letter, text))


def weigh_letters(text: str) -> tuple[str, list[int]]:
    """The letters of a text, and the weight of each: words weigh where they begin."""
    letters: list[str] = []
    weights: list[int] = []
    inside = False
    for char in text:
        found = fold_letter(char)
        if not found:
            inside = False
            continue
        is_cjk = _CJK.match(char) is not None
        letters += found
        weights += [_CHARACTER if is_cjk else 0 if inside else WORD, *[0] * (len(found) - 1)]
        inside = not is_cjk
    return "".join(letters), weights


def rot13(text: str) -> str:
    """Each Latin letter, thirteen further."""
    return codecs.encode(text, "rot13")

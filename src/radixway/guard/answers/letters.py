"""Texts as their letters and digits alone, in one case: what spacing, points and markup cannot change."""

from __future__ import annotations

import codecs
import re

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")

WORD = 3
"""How much a word weighs."""
_CHARACTER = 2
"""And a Chinese, Japanese or Korean character, which is less than a word of its own."""


def letters_of(text: str) -> str:
    """`Links may only…` → `linksmayonly`."""
    return "".join(filter(str.isalnum, text.casefold()))


def weighed(text: str) -> tuple[str, list[int]]:
    """The letters of a text, and the weight of each: words weigh where they begin."""
    letters: list[str] = []
    weights: list[int] = []
    inside = False
    for char in text:
        if not char.isalnum():
            inside = False
            continue
        is_cjk = _CJK.match(char) is not None
        weight = _CHARACTER if is_cjk else 0 if inside else WORD
        for letter in filter(str.isalnum, char.casefold()):
            letters.append(letter)
            weights.append(weight)
            weight = 0
        inside = not is_cjk
    return "".join(letters), weights


def rot13(text: str) -> str:
    """Each Latin letter, thirteen further."""
    return codecs.encode(text, "rot13")

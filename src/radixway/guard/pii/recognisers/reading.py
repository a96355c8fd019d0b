"""A text as the recognisers read it: one form of every digit, hyphen and space, nothing invisible."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Soft hyphens, zero-width characters, marks of direction, variation selectors."""

_HYPHENS = "\u058a\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d\uff70"
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DOTS = "\u2024\ufe52\uff0e\uff61"


def _plain_forms() -> dict[str, str]:
    """One plain character for each that is another form of it."""
    forms = dict.fromkeys(_HYPHENS, "-") | dict.fromkeys(_SPACES, " ") | dict.fromkeys(_DOTS, ".")
    forms |= {
        chr(code): chr(code - 0xFEE0)
        for code in (*range(0xFF08, 0xFF0C), 0xFF0F, 0xFF1A, *range(0xFF20, 0xFF5B))
    }
    forms["\uff3f"] = "_"
    for code in (*range(0x80, 0x10000), *range(0x10000, 0x20000)):
        character = chr(code)
        if character.isdecimal():
            forms[character] = str(unicodedata.decimal(character))
    for code in range(0x1D400, 0x1D6A4):
        forms[chr(code)] = unicodedata.normalize("NFKC", chr(code))
    return forms


_PLAIN = _plain_forms()
_DISGUISED = re.compile("[" + "".join(map(re.escape, _PLAIN)) + "]")


@dataclass(slots=True, frozen=True)
class Reading:
    """A text in plain characters, and where each stood in the original."""

    text: str
    digits: int
    """How many digits there are: most of what is looked for needs several."""
    _dropped: tuple[int, ...] = ()
    """For each invisible character, in order: the position in `text` that it stood before."""

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """The original's span of `text[begin:end]`, which is not empty."""
        if not self._dropped:
            return begin, end
        first = begin + bisect_right(self._dropped, begin)
        last = end - 1 + bisect_right(self._dropped, end - 1)
        return first, last + 1


def read(text: str) -> Reading:
    """Linear in the text."""
    dropped: tuple[int, ...] = ()
    if not text.isascii():
        dropped = tuple(match.start() - number for number, match in enumerate(_INVISIBLE.finditer(text)))
        if dropped:
            text = _INVISIBLE.sub("", text)
        text = _DISGUISED.sub(lambda match: _PLAIN[match[0]], text)
    return Reading(text, _digits(text), dropped)


def _digits(text: str) -> int:
    return sum(map(text.count, "0123456789"))


def touches_letter(text: str, begin: int, end: int) -> bool:
    """Whether a Latin letter or a digit stands right before or after `text[begin:end]`."""
    return follows_letter(text, begin) or _is_latin(text[end : end + 1])


def follows_letter(text: str, begin: int) -> bool:
    """Whether a Latin letter or a digit stands right before `text[begin]`."""
    return begin > 0 and _is_latin(text[begin - 1])


def is_fraction(text: str, begin: int) -> bool:
    """Whether the digits from `begin` on are those after a decimal point."""
    return begin > 1 and text[begin - 1] in ".," and text[begin - 2].isdigit()


def _is_latin(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")

"""A text as the recognisers read it: one form of every digit, hyphen and space, nothing invisible.

`ContextWords` make a number near them what it looks like.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from radixway.core.pipeline import PersonalDataSpan

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff]"
)
"""Soft hyphens, zero-width characters, direction marks, variation selectors."""

_HYPHENS = "\u058a\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d\uff70"
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_APOSTROPHES = "\u02bc\u2018\u2019\uff07"
_DOTS = "\u2024\ufe52\uff0e\uff61"
_FULL_WIDTH = (*range(0xFF08, 0xFF0C), 0xFF0F, 0xFF1A, *range(0xFF20, 0xFF5B), 0xFF3F)
"""Brackets, plus, slash, colon, at, letters, underscore; other punctuation does not matter for numbers."""
_FULL_WIDTH_OFFSET = 0xFEE0
_ASTRAL = (0x10000, 0x1FBFF)
"""Digits of rarer scripts, and mathematical alphabets."""


def _plain_forms() -> dict[str, str]:
    """Return the plain character of each variant."""
    forms = dict.fromkeys(_HYPHENS, "-") | dict.fromkeys(_SPACES, " ") | dict.fromkeys(_DOTS, ".")
    forms |= dict.fromkeys(_APOSTROPHES, "'")
    forms |= {chr(code): chr(code - _FULL_WIDTH_OFFSET) for code in _FULL_WIDTH}
    forms |= {chr(code): unicodedata.normalize("NFKC", chr(code)) for code in range(0x1D400, 0x1D6A4)}
    every = map(chr, range(0x80, _ASTRAL[1] + 1))
    return forms | {each: str(unicodedata.decimal(each)) for each in every if each.isdecimal()}


_PLAIN = _plain_forms()
_NEAR = "".join(re.escape(each) for each in _PLAIN if ord(each) < _ASTRAL[0])
_PERHAPS_DISGUISED = re.compile(f"[{_NEAR}{chr(_ASTRAL[0])}-{chr(_ASTRAL[1])}]")
_DIGITS = re.compile(r"[0-9]+")
_WIDEST_GAP = 3
_GAP = " .-/()"

Span = tuple[int, int]


@dataclass(slots=True, frozen=True)
class PlainText:
    """A text in plain characters, and where each stood in the original."""

    text: str
    runs: tuple[Span, ...]
    """Every run of digits, as [begin, end): what most recognisers begin at."""
    digits: int
    """Number of digits."""
    _dropped: tuple[int, ...] = ()
    """By invisible character, in order: its position in `text`."""

    def original_span(self, begin: int, end: int) -> Span:
        """Return the original's span of `text[begin:end]`, which is not empty."""
        if not self._dropped:
            return begin, end
        first = begin + bisect_right(self._dropped, begin)
        last = end - 1 + bisect_right(self._dropped, end - 1)
        return first, last + 1

    def iter_clusters(self, digits: int) -> Iterator[tuple[Span, ...]]:
        """Yield runs with nothing but a separator or a bracket between them, `digits` or more together."""
        cluster: list[Span] = []
        for run in self.runs:
            if cluster and not self._is_gap(cluster[-1][1], run[0]):
                if _length(cluster) >= digits:
                    yield tuple(cluster)
                cluster = []
            cluster.append(run)
        if _length(cluster) >= digits:
            yield tuple(cluster)

    def _is_gap(self, begin: int, end: int) -> bool:
        return end - begin <= _WIDEST_GAP and not self.text[begin:end].strip(_GAP)


def to_plain_text(text: str) -> PlainText:
    """Read `text`, in time linear in its length."""
    dropped: tuple[int, ...] = ()
    if not text.isascii():
        dropped = tuple(match.start() - number for number, match in enumerate(_INVISIBLE.finditer(text)))
        if dropped:
            text = _INVISIBLE.sub("", text)
        text = _PERHAPS_DISGUISED.sub(lambda match: _PLAIN.get(match[0], match[0]), text)
    runs = tuple(match.span() for match in _DIGITS.finditer(text))
    return PlainText(text, runs, _length(runs), dropped)


def touches_letter(text: str, begin: int, end: int) -> bool:
    """Return whether a Latin letter or a digit adjoins `text[begin:end]`."""
    return follows_letter(text, begin) or _is_latin(text[end : end + 1])


def follows_letter(text: str, begin: int) -> bool:
    """Return whether a Latin letter or a digit precedes `text[begin]`."""
    return begin > 0 and _is_latin(text[begin - 1])


def is_fraction(text: str, begin: int) -> bool:
    """Return whether the digits of `text` from `begin` on follow a decimal point."""
    return begin > 1 and text[begin - 1] in ".," and text[begin - 2].isdigit()


def _length(runs: tuple[Span, ...] | list[Span]) -> int:
    return sum(end - begin for begin, end in runs)


def _is_latin(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


@dataclass(slots=True, frozen=True)
class Recogniser:
    """Finds types of personal data by their form. A module lists its own in `RECOGNISERS`."""

    types: tuple[str, ...]
    """Published names of what it finds."""
    find: Callable[[PlainText], Iterator[PersonalDataSpan]]
    """Yields findings of any confidence, in time linear in the text; they may overlap."""
    fewest_digits: int = 0
    """Texts with fewer digits are not given to it."""


class ContextWords:
    """Words of one subject, English and Chinese, looked for in a window around a span.

    English words stand alone, in any case, in the plural, or as programs name things (`phoneNumber`); Chinese
    ones stand anywhere.
    """

    def __init__(self, english: str, chinese: str = "", *, before: int = 50, after: int = 25) -> None:
        """`english`: alternatives in lower case between bars; `chinese`: words between spaces.

        Windows in characters.
        """
        pattern = rf"(?<![a-z])(?:{english})(?:s|number|no|id)?(?![a-z])"
        if chinese:
            pattern += "|" + "|".join(chinese.split())
        self._pattern = re.compile(pattern)
        self._before = before
        self._after = after

    def near(self, text: str, begin: int, end: int) -> bool:
        """Return whether one of them is in the windows before and after `text[begin:end]`."""
        return self._has_word(text, max(0, begin - self._before), begin) or self._has_word(
            text, end, end + self._after
        )

    def _has_word(self, text: str, begin: int, end: int) -> bool:
        return self._pattern.search(text[begin:end].lower()) is not None

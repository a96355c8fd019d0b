"""Texts as their letters alone: what spacing, points, numbering, markup and look-alikes cannot change.

Runs that a growing text has in common with a secret one.

Both are taken as letters alone (`letters.py`), so that case, spacing, points and markup hide nothing; the
secret is looked for forwards, backwards and in rot13. An index of n-grams finds where a run may begin, and
then it is followed letter by letter: a step per letter, whatever the secret's length.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

from radixway.semantics.guard.jailbreak.spelling_folds import LOOKALIKES, TAG_FIRST, TAG_LAST

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


N = 8
"""Letters of the n-grams."""
_MOST_RUNS = 8
"""Places that are followed at a time; of an n-gram that occurs more often, the first ones."""
_LONGEST = 65_536
"""Characters of a secret that are looked for."""


class SecretIndex:
    """A text that is not to be told."""

    def __init__(self, secret: str) -> None:
        letters, weights = weigh_letters(secret[:_LONGEST])
        self.length = len(letters)
        self.weight = sum(weights)
        self.text = "\0".join((letters, letters[::-1], rot13(letters)))
        self._sums = [0, *accumulate([*weights, 0, *reversed(weights), 0, *weights])]
        self._ends: dict[str, list[int]] = {}
        for at in range(len(self.text) - N + 1):
            gram = self.text[at : at + N]
            if "\0" not in gram:
                ends = self._ends.setdefault(gram, [])
                if len(ends) < _MOST_RUNS:
                    ends.append(at + N)

    def shared_ngrams(self, texts: Iterable[str]) -> frozenset[str]:
        """The n-grams that it has in common with these."""
        return frozenset(
            gram
            for letters in map(extract_letters, texts)
            for at in range(len(letters) - N + 1)
            if (gram := letters[at : at + N]) in self._ends
        )

    def find_ngram(self, gram: str) -> list[int]:
        """The places behind an n-gram, wherever it occurs."""
        return self._ends.get(gram, [])

    def weight_of(self, end: int, length: int) -> int:
        """Of a run that ends there."""
        return self._sums[end] - self._sums[end - length]


class SecretOverlap:
    """Follows a text that grows letter by letter."""

    def __init__(self, index: SecretIndex, known: frozenset[str] = frozenset()) -> None:
        """`known`: n-grams that the client has anyway, which give nothing away; no run goes through one."""
        self._index = index
        self._known = known
        self._tail = ""
        self._runs: list[tuple[int, int]] = []
        """Where in the index each run is now, and how long it is; the longest first."""
        self._covered = bytearray(len(index.text))
        self.covered = 0
        """Letters of the secret that have been told, in runs of at least N, each way of telling counted."""

    @property
    def length(self) -> int:
        """Letters of the longest run that the text ends with."""
        return self._runs[0][1] if self._runs else 0

    @property
    def weight(self) -> int:
        """What it weighs."""
        return self._index.weight_of(*self._runs[0]) if self._runs else 0

    def add_letter(self, letter: str) -> None:
        """One more letter."""
        self._tail = (self._tail + letter)[-N:]
        if self._tail in self._known:
            self._runs = []
            return
        if self._runs:
            text = self._index.text
            self._runs = [
                (end + 1, length + 1) for end, length in self._runs if end < len(text) and text[end] == letter
            ]
        if self._runs:
            self._mark_covered(self._runs[0][0] - 1)
            return
        self._runs = [(end, N) for end in self._index.find_ngram(self._tail)]
        if self._runs:
            for at in range(self._runs[0][0] - N, self._runs[0][0]):
                self._mark_covered(at)

    def _mark_covered(self, at: int) -> None:
        if not self._covered[at]:
            self._covered[at] = 1
            self.covered += 1

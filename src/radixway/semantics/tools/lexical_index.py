"""A text as the words it is compared by: bare of endings, without those that every query has.

Okapi BM25 over words (Robertson and Zaragoza, 2009), as a share of what a query could have at most.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.signals.text_normalization import normalize_text

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_.\-/&:]+")
_COMMON = frozenset(
    """
    a about all also an and any are as at be by can could d did do does find for from get give had has
    have he help her his how i if in into is it its like ll m me more my need no not of on or our please
    re s she some t tell that the their them there these they this those to us ve want was we what when
    where which who will with would you your
    """.split()  # noqa: SIM905 - ninety literals are no easier to read
)


def split_name(name: str) -> str:
    """`get_stockPrice` as `get stock Price`."""
    return " ".join(_JOINT.sub(" ", name).split())


def count_words(text: str) -> Counter[str]:
    """Return how often each word comes; of Chinese and Japanese each character and each pair of them."""
    found: Counter[str] = Counter()
    for word in _WORD.findall(normalize_text(text).lower()):
        if not word.isascii() and (runs := _HAN.findall(word)):
            for run in runs:
                found.update(run)
                found.update(run[at : at + 2] for at in range(len(run) - 1))
        elif word not in _COMMON:
            found[_strip_ending(word)] += 1
    return found


def _strip_ending(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 5 and word.endswith("ing"):
        word = word[:-3]
    elif len(word) > 4 and word.endswith("ed"):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_K1, _B = 1.2, 0.75

Floats64 = NDArray[np.float64]


class Bm25Index:
    """Documents by their words: for every word the documents that have it, and with which weight."""

    def __init__(self, documents: Sequence[Counter[str]]) -> None:
        self.size = len(documents)
        lengths = np.array([words.total() for words in documents], np.float64)
        average = max(float(lengths.mean()), 1.0) if self.size else 1.0
        found: dict[str, list[tuple[int, int]]] = {}
        for number, words in enumerate(documents):
            for word, times in words.items():
                found.setdefault(word, []).append((number, times))
        norms = _K1 * (1 - _B + _B * lengths / average)
        self._postings: dict[str, tuple[NDArray[np.int64], Floats64, float]] = {}
        for word, places in found.items():
            rows = np.array([number for number, _ in places], np.int64)
            counts = np.array([times for _, times in places], np.float64)
            self._postings[word] = (
                rows,
                counts / (counts + norms[rows]),
                self._inverse_frequency(len(places)),
            )

    def score_query(self, query: Counter[str]) -> Floats64:
        """[documents], from 0 to 1: BM25 over the sum of what the query's words could add at most.

        Words that no document has count in that sum as the rarest of all.
        """
        total = 0.0
        scores = np.zeros(self.size)
        unknown = self._inverse_frequency(0)
        for word in query:
            posting = self._postings.get(word)
            total += unknown if posting is None else posting[2]
            if posting is not None:
                rows, weights, rarity = posting
                scores[rows] += rarity * weights
        return scores / total if total else scores

    def _inverse_frequency(self, documents: int) -> float:
        return float(np.log1p((self.size - documents + 0.5) / (documents + 0.5)))

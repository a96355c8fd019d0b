"""Okapi BM25 over words (Robertson and Zaragoza, 2009), as a share of what a query could have at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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

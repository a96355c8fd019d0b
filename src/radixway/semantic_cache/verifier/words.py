"""What single words mean and how much they tell: small vectors and inverse document frequencies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

UNKNOWN_RARITY = 1.0
"""Of a word that the table does not have: names, mostly."""


class WordVectors:
    """A table of words. `vectors`: [n, size] in int8, any length; `rarity`: [n], 0 (in every text) to 1."""

    def __init__(self, words: Mapping[str, int], vectors: NDArray[np.int8], rarity: Floats) -> None:
        self._at = words
        self._rarity = rarity
        unit = vectors.astype(np.float32)
        unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-9)
        self._unit = np.concatenate([unit, np.zeros((1, unit.shape[1]), np.float32)])  # the last: unknown

    def word_rarity(self, word: str) -> float:
        """How much it tells, 0 to 1."""
        at = self._at.get(word)
        return UNKNOWN_RARITY if at is None else float(self._rarity[at])

    def word_cosines(self, words: list[str], others: list[str]) -> Floats:
        """[words, others]: cosines, at least 0; 0 where a word is not in the table."""
        rows, columns = ([self._at.get(word, -1) for word in side] for side in (words, others))
        cosines: Floats = np.maximum(self._unit[rows] @ self._unit[columns].T, 0)
        return cosines

"""The vectors of one scope, in one matrix: exact search is one product."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from radixway.semantic_cache.entry import Vector

_FIRST_ROWS = 4


class VectorMatrix:
    """Rows 0 … len-1 of a matrix that doubles; a row that goes is filled with the last one."""

    def __init__(self, size: int) -> None:
        self._matrix: NDArray[np.float32] = np.empty((_FIRST_ROWS, size), np.float32)
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add_vector(self, key: str, vector: Vector) -> None:
        """Raises ValueError for a vector of another size."""
        if vector.shape != (self._matrix.shape[1],):
            raise ValueError(f"a vector of {vector.shape}, where others have {self._matrix.shape[1]}")
        row = len(self._ids)
        if row == len(self._matrix):
            self._matrix = np.concatenate([self._matrix, np.empty_like(self._matrix)])
        self._matrix[row] = vector
        self._rows[key] = row
        self._ids.append(key)

    def drop_vector(self, key: str) -> None:
        row = self._rows.pop(key)
        last = self._ids.pop()
        if last != key:
            self._matrix[row] = self._matrix[len(self._ids)]
            self._ids[row] = last
            self._rows[last] = row

    def find_nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        """At most `k` (id, cosine), nearest first."""
        count = len(self._ids)
        if vector.shape != (self._matrix.shape[1],) or not count:
            return []
        cosines = self._matrix[:count] @ vector
        top = np.argpartition(-cosines, k - 1)[:k] if k < count else np.arange(count)
        top = top[np.argsort(-cosines[top], kind="stable")]
        return [(self._ids[row], min(float(cosines[row]), 1.0)) for row in top]

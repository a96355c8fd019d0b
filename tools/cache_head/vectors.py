"""Sentence vectors, each made once and kept between runs: making them takes longer than all the rest."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders import TextEncoder


class Vectors:
    """By text: [size], unit length."""

    def __init__(self, encoder: TextEncoder, cache: Path) -> None:
        self._encoder = encoder
        self._cache = cache
        self._known: dict[str, NDArray[np.float32]] = {}
        if cache.is_file():
            with np.load(cache) as file:
                self._known = dict(zip(file["keys"].tolist(), file["vectors"], strict=True))

    def of(self, text: str) -> NDArray[np.float32]:
        """A text's vector."""
        key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        if key not in self._known:
            self._known[key] = self._encoder.encode([text])[0].vector
        return self._known[key]

    def save(self) -> None:
        """For the next run."""
        self._cache.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self._cache, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))

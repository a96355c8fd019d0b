"""Which domain Chinese belongs to: its pieces of one to four characters, and Latin words, in one softmax.

Pieces are found by their hash among those that training saw, so that one that it never saw counts nothing.
Buckets would give it the weight of another piece: training sees fewer pieces than a text may have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders.base import Floats
from radixway.semantics.encoders.heads.head_file import HeadFile
from radixway.semantics.encoders.heads.ngrams import TextFeatures

HASHES = 1 << 32
"""Buckets of the features that the table reads: as good as none, 100,000 pieces share hardly one."""

Rows = NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class ChineseSoftmax:
    """A softmax regression over the pieces that training saw."""

    pieces: NDArray[np.uint32]
    """[n]: their hashes, ascending."""
    weights: NDArray[np.int8]
    """[n, labels]; times `scale`."""
    scale: Floats
    """[labels]"""
    rarity: Floats
    """[n]: inverse document frequency in training."""
    bias: Floats
    """[labels]: what is said of a text of which nothing is known."""
    temperature: float

    @classmethod
    def from_head(cls, head: HeadFile) -> ChineseSoftmax:
        """Raises EncoderError where an array has another shape, KeyError where there is none."""
        size, labels = len(head.arrays["han_pieces"]), len(head.labels)
        take = partial(head.take_array, "han")
        return cls(
            pieces=take("pieces", size).astype(np.uint32, copy=False),
            weights=take("weights", size, labels).astype(np.int8, copy=False),
            scale=take("scale", labels).astype(np.float32),
            rarity=take("rarity", size).astype(np.float32),
            bias=take("bias", labels).astype(np.float32),
            temperature=float(head.settings["han_temperature"]),
        )

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return what `from_head` reads, by the names it has in the file."""
        return {
            "han_pieces": self.pieces,
            "han_weights": self.weights,
            "han_scale": self.scale,
            "han_rarity": self.rarity.astype(np.float16),
            "han_bias": self.bias,
        }

    def logits(self, features: TextFeatures) -> Floats:
        """[labels], of features whose buckets are `HASHES`: probabilities' logarithms up to a constant."""
        rows, values = weighted_pieces(features, self.pieces, self.rarity)
        logits: Floats = self.bias + (values @ self.weights[rows].astype(np.float32)) * self.scale
        return logits

    def probabilities(self, features: TextFeatures) -> Floats:
        """[labels], calibrated, of features whose buckets are `HASHES`."""
        logits = self.logits(features) / self.temperature
        likely = np.exp(logits - logits.max())
        shares: Floats = likely / likely.sum()
        return shares


def weighted_pieces(
    features: TextFeatures, pieces: NDArray[np.uint32], rarity: Floats
) -> tuple[Rows, Floats]:
    """Rows and values, of unit length, of what a text has of `pieces`: (1 + log count) · rarity."""
    hashes, counts = hashed_pieces(features)
    rows = np.minimum(np.searchsorted(pieces, hashes), len(pieces) - 1)
    known = pieces[rows] == hashes
    rows, counts = rows[known], counts[known]
    values = (1 + np.log(counts)) * rarity[rows]
    return rows, values / max(float(np.linalg.norm(values)), 1e-12)


def hashed_pieces(features: TextFeatures) -> tuple[NDArray[np.uint32], Floats]:
    """Hashes and counts of words and pieces, in one space."""
    both = features.words, features.pieces
    hashes = np.concatenate([ngrams.buckets for ngrams in both]).astype(np.uint32)
    return hashes, np.concatenate([ngrams.counts for ngrams in both])

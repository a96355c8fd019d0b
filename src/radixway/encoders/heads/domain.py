"""Which of fourteen domains a text belongs to: a sentence vector and hashed n-grams, into one softmax.

Two tables, chosen by script: MiniLM reads English only, so what knows Chinese are its characters alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.encoders.encoding import Encoder, EncoderError, Encoding, Floats
from radixway.encoders.heads.head import Head
from radixway.encoders.heads.ngrams import TextFeatures, text_features

HAN_FROM = 0.1
"""Share of Chinese among a text's characters from which the Chinese table reads it."""

Columns = NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class Reading:
    """What the head says of a text."""

    label: str
    confidence: float
    """Calibrated probability of the label."""
    distribution: Mapping[str, float]
    """Probability of every label; they add up to one."""
    entropy: float
    """Of the distribution, over log(labels): 0 certain, 1 no idea."""


@dataclass(slots=True, frozen=True)
class Table:
    """One script's softmax regression."""

    ngrams: NDArray[np.int8]
    """[2 · buckets, labels]: words, then pieces; times `scale`."""
    scale: Floats
    """[labels]"""
    rarity: NDArray[np.float16]
    """[2 · buckets]: inverse document frequency in training; 0 where nothing was seen."""
    bias: Floats
    """[labels]"""
    vector: Floats | None
    """[size, labels]; None where the vector is not read."""
    temperature: float

    def logits(self, features: TextFeatures, vector: Floats) -> Floats:
        """[labels], uncalibrated probabilities' logarithms up to a constant."""
        columns, values = weighted_ngrams(features, self.rarity)
        logits: Floats = self.bias + (values @ self.ngrams[columns].astype(np.float32)) * self.scale
        if self.vector is not None:
            logits = logits + vector @ self.vector
        return logits


def weighted_ngrams(features: TextFeatures, rarity: NDArray[np.float16]) -> tuple[Columns, Floats]:
    """Columns and values, of unit length, of a text's n-grams: (1 + log count) · rarity."""
    words, pieces = features.words, features.pieces
    columns = np.concatenate([words.buckets, pieces.buckets + len(rarity) // 2])
    counts = np.concatenate([words.counts, pieces.counts])
    values = (1 + np.log(counts)) * rarity[columns].astype(np.float32)
    return columns, values / max(float(np.linalg.norm(values)), 1e-12)


class DomainHead:
    """Reads a text with the vector an encoder made of it, in a fraction of a millisecond."""

    def __init__(self, head: Head) -> None:
        """Raises EncoderError where `head` lacks an array, or has one of another shape."""
        self.labels = head.labels
        try:
            self._buckets = int(head.settings["buckets"])
            self._latin = _table(head, "latin", self._buckets)
            self._han = _table(head, "han", self._buckets)
        except KeyError as error:
            raise EncoderError(f"the domain head lacks {error}") from None

    @classmethod
    def load(cls, path: Path, encoder: Encoder) -> DomainHead:
        """Raises EncoderError for no domain head, or one trained with other weights than `encoder`'s."""
        head = Head.load(path, kind="domain")
        head.check(encoder)
        return cls(head)

    def read(self, text: str, encoding: Encoding) -> Reading:
        """The domain of `text`, whose encoding is `encoding`."""
        features = text_features(text, self._buckets)
        table = self._han if features.han_share >= HAN_FROM else self._latin
        logits = table.logits(features, encoding.vector) / table.temperature
        exponentials = np.exp(logits - logits.max())
        shares = [float(share) for share in exponentials / exponentials.sum()]
        best = max(range(len(shares)), key=shares.__getitem__)
        entropy = -sum(share * log(share) for share in shares if share > 0) / log(len(shares))
        return Reading(self.labels[best], shares[best], dict(zip(self.labels, shares, strict=True)), entropy)


def _table(head: Head, script: str, buckets: int) -> Table:
    labels = len(head.labels)

    def take(name: str, *shape: int) -> NDArray[np.generic]:
        array = head.arrays[f"{script}_{name}"]
        if array.shape != shape:
            raise EncoderError(f"the domain head's {script}_{name} has shape {array.shape}, not {shape}")
        return array

    vector = head.arrays.get(f"{script}_vector")
    return Table(
        ngrams=take("ngrams", 2 * buckets, labels).astype(np.int8, copy=False),
        scale=take("scale", labels).astype(np.float32),
        rarity=take("rarity", 2 * buckets).astype(np.float16, copy=False),
        bias=take("bias", labels).astype(np.float32),
        vector=None if vector is None else take("vector", vector.shape[0], labels).astype(np.float32),
        temperature=float(head.settings[f"{script}_temperature"]),
    )

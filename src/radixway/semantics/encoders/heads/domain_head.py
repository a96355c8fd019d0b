"""Which of fourteen domains a text belongs to: an encoder's states and hashed n-grams, into one softmax.

Two tables, weighed by script: MiniLM reads English only, so what knows Chinese are its characters alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders.base import EncoderError, Floats, TextEncoder, TextEncoding
from radixway.semantics.encoders.heads.chinese_domain import HASHES, ChineseSoftmax
from radixway.semantics.encoders.heads.head_file import HeadFile
from radixway.semantics.encoders.heads.kernel_density import LabelDensity
from radixway.semantics.encoders.heads.ngrams import TextFeatures, text_features

HAN_FROM, HAN_ALONE = 0.1, 0.5
"""Share of Chinese among a text's characters from which the Chinese table reads it, and reads it alone."""
OTHER_UNREAD = 0.5
"""Probability of `other` for what no table can read, like kana or Hangul; the other labels share the rest."""

NEIGHBOURS_WEIGHT = 0.8
"""Weight of the logarithm of known texts' density among the logits of the everyday style."""

Columns = NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class DomainReading:
    """The head's reading of a text."""

    label: str
    confidence: float
    """Calibrated probability of the label."""
    distribution: Mapping[str, float]
    """Probability of every label; they add up to one."""
    entropy: float
    """Entropy of the distribution, over log(labels): 0 certain, 1 no idea."""

    @classmethod
    def from_distribution(cls, distribution: Mapping[str, float]) -> DomainReading:
        """Return the reading whose label is the likeliest of `distribution`, probabilities by label."""
        label = max(distribution, key=distribution.__getitem__)
        entropy = -sum(share * log(share) for share in distribution.values() if share > 0)
        return cls(label, distribution[label], distribution, entropy / log(max(len(distribution), 2)))


@dataclass(slots=True, frozen=True)
class ScriptSoftmax:
    """A script's softmax regression. Its columns are labels, or labels in two styles, everyday ones first.

    Exam questions and what people ask every day differ so much in their words, and in how often which label
    is meant, that one column for both serves neither; apart, the style is read along with the label.
    """

    ngrams: NDArray[np.int8]
    """[2 · buckets, columns]: words, then pieces; times `scale`."""
    scale: Floats
    """[columns]"""
    rarity: NDArray[np.float16]
    """[2 · buckets]: inverse document frequency in training; 0 where nothing was seen."""
    bias: Floats
    """[columns]"""
    states: Floats | None
    """[size or 5 · size, columns]: what the vector counts, then the summary; None where neither is read."""
    temperatures: Floats
    """[styles]: what logits are divided by, weighted by how likely each style is."""
    neighbours: LabelDensity | None = None
    """Everyday texts that are known; the style's probability is not theirs to change."""

    def logits(self, features: TextFeatures, states: Floats) -> Floats:
        """[columns], uncalibrated probabilities' logarithms up to a constant. `states`: see `states_of`."""
        columns, values = weighted_ngrams(features, self.rarity)
        logits: Floats = self.bias + (values @ self.ngrams[columns].astype(np.float32)) * self.scale
        if self.states is not None:
            logits = logits + states[: len(self.states)] @ self.states
        if self.neighbours is not None:
            everyday = logits[: len(self.neighbours.counts)]
            near = self.neighbours.logits(states[: len(self.neighbours.projection)])
            moved = everyday + NEIGHBOURS_WEIGHT * near
            everyday[:] = moved - np.logaddexp.reduce(moved) + np.logaddexp.reduce(everyday)
        return logits

    def probabilities(self, logits: Floats) -> Floats:
        """[labels], calibrated, of what `logits` gives; with more axes before, of each."""
        styles = len(self.temperatures)
        apart = _softmax(logits).reshape(*logits.shape[:-1], styles, -1)
        temperature = apart.sum(axis=-1) @ self.temperatures
        calibrated = _softmax(logits / temperature[..., None])
        summed: Floats = calibrated.reshape(apart.shape).sum(axis=-2)
        return summed


def _softmax(logits: Floats) -> Floats:
    shares: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares


def pooled_states(encoding: TextEncoding) -> Floats:
    """[5 · size]: the vector, then the summary."""
    return np.concatenate([encoding.vector, encoding.summary])


def weighted_ngrams(features: TextFeatures, rarity: NDArray[np.float16]) -> tuple[Columns, Floats]:
    """Columns and values, of unit length, of a text's n-grams: (1 + log count) · rarity."""
    words, pieces = features.words, features.pieces
    columns = np.concatenate([words.buckets, pieces.buckets + len(rarity) // 2])
    counts = np.concatenate([words.counts, pieces.counts])
    values = (1 + np.log(counts)) * rarity[columns].astype(np.float32)
    return columns, values / max(float(np.linalg.norm(values)), 1e-12)


class DomainHead:
    """Reads a text with what an encoder made of it, in a fraction of a millisecond."""

    def __init__(self, head: HeadFile) -> None:
        """Raises EncoderError where `head` lacks an array, or has one of another shape."""
        self.labels = head.labels
        try:
            self._buckets = int(head.settings["buckets"])
            self._latin = _read_softmax(head, "latin", self._buckets)
            self._chinese = ChineseSoftmax.from_head(head)
        except KeyError as error:
            raise EncoderError(f"the domain head lacks {error}") from None
        rest = (1 - OTHER_UNREAD) / (len(self.labels) - 1)
        self._unread = np.array([OTHER_UNREAD if x == "other" else rest for x in self.labels], np.float32)

    @classmethod
    def load_file(cls, path: Path, encoder: TextEncoder) -> DomainHead:
        """Raises EncoderError for no domain head, or one trained with other weights than `encoder`'s."""
        head = HeadFile.load_file(path, kind="domain")
        head.check_encoder(encoder)
        return cls(head)

    def classify_domain(self, text: str, encoding: TextEncoding) -> DomainReading:
        """Return the domain of `text`, whose encoding is `encoding`."""
        shares = map(float, self._probabilities(text, encoding))
        return DomainReading.from_distribution(dict(zip(self.labels, shares, strict=True)))

    def _probabilities(self, text: str, encoding: TextEncoding) -> Floats:
        """Return [labels]: each table's result, weighted by its script's share of the text."""
        features = text_features(text, HASHES)
        chinese = min(max((features.han_share - HAN_FROM) / (HAN_ALONE - HAN_FROM), 0.0), 1.0)
        found = np.zeros(len(self.labels), np.float32)
        if chinese > 0:
            found += chinese * self._chinese.probabilities(features)
        if chinese < 1:
            logits = self._latin.logits(features.fold_buckets(self._buckets), pooled_states(encoding))
            found += (1 - chinese) * self._latin.probabilities(logits)
        return (1 - features.foreign_share) * found + features.foreign_share * self._unread


def _read_softmax(head: HeadFile, script: str, buckets: int) -> ScriptSoftmax:
    temperatures = np.array(head.settings[f"{script}_temperatures"], np.float32)
    columns = len(temperatures) * len(head.labels)
    take = partial(head.take_array, script)
    states = head.arrays.get(f"{script}_states")
    return ScriptSoftmax(
        ngrams=take("ngrams", 2 * buckets, columns).astype(np.int8, copy=False),
        scale=take("scale", columns).astype(np.float32),
        rarity=take("rarity", 2 * buckets).astype(np.float16, copy=False),
        bias=take("bias", columns).astype(np.float32),
        states=None if states is None else take("states", states.shape[0], columns).astype(np.float32),
        temperatures=temperatures,
        neighbours=LabelDensity.from_head(head, script),
    )

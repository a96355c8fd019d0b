"""Likeness to example sentences: concepts that hold however a prompt is worded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from radixway.core.config.semantic import EmbeddingSignalConfig
from radixway.semantics.signals.base import SignalValue

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.question import RequestQuestion

Vectors = NDArray[np.float32]
"""[sentences, size], each of unit length."""


class EmbeddingDetector:
    """Evaluates all embedding rules: one product of the prompt's vector with all their examples."""

    kind = "embedding"
    needs_encoding = True

    def __init__(
        self, rules: Sequence[EmbeddingSignalConfig], vectors: Vectors, categories: Iterable[str] = ()
    ) -> None:
        """`vectors`: of every rule's examples, in their order. `categories`: rules of these names speak for
        them."""
        self._rules = tuple(rules)
        self._vectors = vectors
        self._categories = frozenset(categories)
        ends = np.cumsum([len(rule.candidates) for rule in rules])
        assert len(vectors) == (ends[-1] if len(ends) else 0)
        self._slices = [
            slice(end - len(rule.candidates), end) for rule, end in zip(rules, ends.tolist(), strict=True)
        ]

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None
    ) -> Iterator[SignalValue]:
        """Yield every rule with its likeness; it matched where that reaches the threshold."""
        if encoding is None:
            return
        likeness = self._vectors @ encoding.vector
        for rule, part in zip(self._rules, self._slices, strict=True):
            score = _aggregate(likeness[part], rule)
            category = rule.name if rule.name in self._categories else None
            sure = min(1.0, max(0.0, score))
            yield SignalValue("embedding", rule.name, score, score >= rule.threshold, sure, category)


def _aggregate(likeness: Vectors, rule: EmbeddingSignalConfig) -> float:
    """Return the `mean` or `max`; for `any` the first example above the threshold, else the best."""
    if rule.aggregation_method == "mean":
        return float(likeness.mean())
    if rule.aggregation_method == "any":
        reached = np.flatnonzero(likeness >= rule.threshold)
        if len(reached):
            return float(likeness[reached[0]])
    return float(likeness.max())

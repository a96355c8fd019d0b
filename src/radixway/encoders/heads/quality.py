"""How likely each model is to answer a text well: ridge regression over the sentence vector and the domain.

Learnt from a table of which model answered which question rightly. Least squares rather than one logistic
regression a model: only differences between models decide, and those it estimates directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.encoders.encoding import Encoder, EncoderError, Floats
from radixway.encoders.heads.head import Head

STRENGTH = 100.0
"""The L2 penalty, in rows. Of 3, 10, 30 and 100 the best on MMLU-Pro and MMLU (docs/semantic.md)."""
PROBE = "Which of these models knows the answer?"
"""A sentence whose vector tells encoders apart."""
LEAST_LIKENESS = 0.97
DOMAIN_SCALE = 2.0
"""What the domain's probabilities count beside the vector, which is of unit length."""


class QualityHead:
    """Reads a vector, and the domain where it was trained with one, in microseconds."""

    def __init__(self, head: Head) -> None:
        """Raises EncoderError where `head` lacks an array, or has one of another shape."""
        self.models = head.labels
        try:
            self.vector: Floats = head.arrays["vector"].astype(np.float32)
            self.bias: Floats = head.arrays["bias"].astype(np.float32)
        except KeyError as error:
            raise EncoderError(f"the quality head lacks {error}") from None
        domains = head.arrays.get("domains")
        self.domains: Floats | None = None if domains is None else domains.astype(np.float32)
        count = len(self.models)
        self._probe = np.asarray(head.settings.get("probe", ()), np.float32)
        if self.vector.ndim != 2 or self.vector.shape[1] != count or self.bias.shape != (count,):
            raise EncoderError(f"the quality head's arrays are not of {count} models")

    @classmethod
    def read_file(cls, path: Path) -> QualityHead:
        """Raises EncoderError for a file that is no quality head; `check` comes next."""
        return cls(Head.load(path, kind="quality"))

    def check(self, probe: Floats) -> None:
        """Raises EncoderError unless `probe`, the vector of `PROBE`, is what the head was trained with.

        By a vector rather than by the encoder's weights, because whoever compiles rules has only vectors.
        Precision may differ (cosine .99); another model's vector is far from it, or of another size.
        """
        fits = probe.shape == self._probe.shape == self.vector.shape[:1]
        if not fits or float(probe @ self._probe) < LEAST_LIKENESS:
            raise EncoderError("this quality head was trained with another encoder: train it anew")

    def read(self, vectors: Floats, domains: Floats | None = None) -> Floats:
        """[…, models]: the share of such texts that each model answers well, not confined to 0–1.

        `vectors`: […, size]. `domains`: […, labels], probabilities; needed where it was trained with them.
        """
        quality: Floats = vectors @ self.vector + self.bias
        if self.domains is not None:
            if domains is None:
                raise ValueError("this quality head reads the domain too")
            quality = quality + domains @ self.domains
        return quality


def fit_quality(
    vectors: Floats, domains: Floats | None, right: Floats, strength: float = STRENGTH
) -> dict[str, Floats]:
    """A head's arrays. `vectors` [rows, size], `domains` [rows, labels] or None, `right` [rows, models]."""
    size = vectors.shape[1]
    inputs = vectors if domains is None else np.hstack([vectors, domains * np.float32(DOMAIN_SCALE)])
    weights, bias = ridge(inputs, right, strength)
    arrays: dict[str, Floats] = {"vector": weights[:size], "bias": bias}
    if domains is not None:
        arrays["domains"] = weights[size:] * np.float32(DOMAIN_SCALE)
    return arrays


def to_quality_head(arrays: dict[str, Floats], models: Sequence[str], encoder: Encoder, data: str) -> Head:
    """What is written to a file; `data` says what it was trained on."""
    probe = [round(float(part), 5) for part in encoder.encode([PROBE])[0].vector]
    return Head("quality", tuple(models), encoder.id, encoder.weights, data, arrays, {"probe": probe})


def ridge(inputs: Floats, targets: Floats, strength: float) -> tuple[Floats, Floats]:
    """Weights [columns, targets] and bias [targets] of least squares with an L2 penalty; bias is free."""
    centre, mean = inputs.mean(axis=0), targets.mean(axis=0)
    inner: NDArray[np.float64] = (inputs - centre).astype(np.float64)
    gram = inner.T @ inner + strength * np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, inner.T @ (targets - mean)).astype(np.float32)
    return weights, (mean - centre @ weights).astype(np.float32)

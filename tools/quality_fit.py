"""Fits quality heads: ridge regression from a table of which model answered which question rightly.

Least squares rather than one logistic regression a model: only differences between models decide, and those
it estimates directly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders.base import Floats, TextEncoder
from radixway.semantics.encoders.heads.head_file import HeadFile
from radixway.semantics.encoders.heads.quality_head import PROBE

STRENGTH = 100.0
"""The L2 penalty, in rows: of 3, 10, 30 and 100 the best on MMLU-Pro, MMLU: docs/evaluations/semantic.md."""
DOMAIN_SCALE = 2.0
"""What the domain's probabilities count beside the vector, which is of unit length."""


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


def to_quality_head(
    arrays: dict[str, Floats], models: Sequence[str], encoder: TextEncoder, data: str
) -> HeadFile:
    """What is written to a file; `data` says what it was trained on."""
    probe = [round(float(part), 5) for part in encoder.encode([PROBE])[0].vector]
    return HeadFile("quality", tuple(models), encoder.id, encoder.weights, data, arrays, {"probe": probe})


def ridge(inputs: Floats, targets: Floats, strength: float) -> tuple[Floats, Floats]:
    """Weights [columns, targets] and bias [targets] of least squares with an L2 penalty; bias is free."""
    centre, mean = inputs.mean(axis=0), targets.mean(axis=0)
    inner: NDArray[np.float64] = (inputs - centre).astype(np.float64)
    gram = inner.T @ inner + strength * np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, inner.T @ (targets - mean)).astype(np.float32)
    return weights, (mean - centre @ weights).astype(np.float32)

"""Rows to one table of the head: logistic regression, and the likelihood from which on it answers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

FOLDS = 5
NEGATIVES = (
    (0.0, 0.80, 0.792),
    (0.80, 0.85, 0.083),
    (0.85, 0.90, 0.065),
    (0.90, 0.95, 0.043),
    (0.95, 1.01, 0.017),
)
"""Cosines from, to, and the share of labelled non-duplicates of Quora between them, from the published false
hits of cosine alone: what was written here is weighed so that it is as near as real questions are."""


@dataclass(slots=True, frozen=True)
class Fitted:
    """Arrays are [features]."""

    weights: NDArray[np.float32]
    usual: NDArray[np.float32]
    bias: float
    least: float
    recall: float
    """Cross-validated, of the rows the operating point was chosen on."""
    false_hits: float


@dataclass(slots=True)
class Matrix:
    """Rows as the head reads them. All arrays are [rows, …]."""

    values: NDArray[np.float32]
    same: NDArray[np.bool_]
    weight: NDArray[np.float64]
    group: NDArray[np.int64]
    cosine: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    """Whether the cosine is near enough and no rule speaks: only then the head is asked."""
    counts: NDArray[np.bool_]
    """Whether the operating point is chosen on the row."""


def fit(rows: Matrix, *, strength: float, most_false: float, quora: bool) -> Fitted:
    """The table whose false hits, cross-validated, are at most `most_false`.

    `strength`: inverse of the L2 penalty. `quora`: weigh rows with two answers by `NEGATIVES`.
    """
    likelihood = np.zeros(len(rows.same))
    for fold in range(FOLDS):
        inside = rows.group % FOLDS == fold
        inside &= rows.group >= 0
        weights, bias, _ = _regression(rows, ~inside, strength)
        likelihood[inside] = _likelihood(rows.values[inside], weights, bias)
    least, recall, false_hits = _operating_point(rows, likelihood, most_false, quora)
    weights, bias, usual = _regression(rows, np.ones(len(rows.same), bool), strength)
    return Fitted(weights.astype(np.float32), usual.astype(np.float32), bias, least, recall, false_hits)


def _regression(
    rows: Matrix, which: NDArray[np.bool_], strength: float
) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    """Weights and bias for values as they come, and the mean of those with one answer."""
    values, same, weight = rows.values[which].astype(np.float64), rows.same[which], rows.weight[which]
    mean, spread = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-6)
    model = LogisticRegression(C=strength, max_iter=2000)
    model.fit((values - mean) / spread, same, sample_weight=weight)
    weights = model.coef_[0] / spread
    return weights, float(model.intercept_[0] - mean @ weights), values[same].mean(axis=0)


def _likelihood(
    values: NDArray[np.float32], weights: NDArray[np.float64], bias: float
) -> NDArray[np.float64]:
    likelihood: NDArray[np.float64] = 1 / (1 + np.exp(-(values @ weights + bias)))
    return likelihood


def _operating_point(
    rows: Matrix, likelihood: NDArray[np.float64], most_false: float, quora: bool
) -> tuple[float, float, float]:
    same, other = rows.counts & rows.same, rows.counts & ~rows.same
    for least in np.arange(0.02, 0.99, 0.01):
        hit = rows.allowed & (likelihood >= least)
        false_hits = _as_quora(hit[other], rows.cosine[other]) if quora else float(hit[other].mean())
        if false_hits <= most_false:
            return float(least), float(hit[same].mean()), false_hits
    raise ValueError(f"no operating point has at most {most_false} false hits")


def _as_quora(hit: NDArray[np.bool_], cosine: NDArray[np.float64]) -> float:
    total = 0.0
    for low, high, share in NEGATIVES:
        within = (cosine >= low) & (cosine < high)
        total += share * float(hit[within].mean()) if within.any() else 0.0
    return total

"""Rows to one script's table: softmax regression over the vector and the n-grams, with a temperature."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from domain_head.rows import LABELS, Row
from domain_head.vectors import Vectors
from radixway.encoders.heads.domain import Table, weighted_ngrams
from radixway.encoders.heads.ngrams import text_features

BUCKETS = 1 << 16
VECTOR_SCALE = 2.0
"""What the vector counts beside the n-grams, both being of unit length."""
LONGEST = 2000
"""Characters of a row that are read in training."""


@dataclass(slots=True, frozen=True)
class Choices:
    """What was tried in several ways; the figures stand in docs/semantic.md."""

    strength: float = 10.0
    """Inverse of the L2 penalty."""
    iterations: int = 60


def fit(rows: list[Row], calibration: list[Row], vectors: Vectors | None, choices: Choices) -> Table:
    """A table from `rows`, its temperature from `calibration`; it reads vectors where there are some."""
    counts = _counts(rows)
    seen = np.bincount(counts.indices, minlength=2 * BUCKETS)
    rarity = np.where(seen > 0, np.log((1 + len(rows)) / (1 + seen)) + 1, 0).astype(np.float16)
    inputs = _inputs(rows, rarity, vectors)
    model = LogisticRegression(C=choices.strength, max_iter=choices.iterations)
    model.fit(inputs, _targets(rows), sample_weight=[row.weight for row in rows])
    weights = model.coef_.T.astype(np.float32)
    size = weights.shape[0] - 2 * BUCKETS
    scale = np.abs(weights[size:]).max(axis=0) / 127
    table = Table(
        ngrams=np.round(weights[size:] / scale).astype(np.int8),
        scale=scale.astype(np.float32),
        rarity=rarity,
        bias=model.intercept_.astype(np.float32),
        vector=weights[:size] * np.float32(VECTOR_SCALE) if size else None,
        temperature=1.0,
    )
    return _calibrated(table, calibration, vectors)


def _calibrated(table: Table, rows: list[Row], vectors: Vectors | None) -> Table:
    """With the temperature at which `rows` are likeliest (Guo et al. 2017)."""
    nothing = np.zeros(0 if table.vector is None else table.vector.shape[0], np.float32)
    logits = np.stack(
        [
            table.logits(text_features(row.text, BUCKETS), vectors[row.text] if vectors else nothing)
            for row in rows
        ]
    )
    targets = _targets(rows)

    def loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        norms = np.log(np.exp(scaled - scaled.max(axis=1, keepdims=True)).sum(axis=1)) + scaled.max(axis=1)
        return float((norms - scaled[np.arange(len(rows)), targets]).mean())

    best = minimize_scalar(loss, bounds=(-2, 2), method="bounded")
    return Table(
        table.ngrams, table.scale, table.rarity, table.bias, table.vector, round(float(np.exp(best.x)), 4)
    )


def _targets(rows: list[Row]) -> NDArray[np.int64]:
    return np.array([LABELS.index(row.label) for row in rows])


def _counts(rows: list[Row]) -> sparse.csr_array:
    """[rows, 2 · buckets]: how often each word and piece occurs."""
    features = [text_features(row.text[:LONGEST], BUCKETS) for row in rows]
    columns = [np.concatenate([each.words.buckets, each.pieces.buckets + BUCKETS]) for each in features]
    counts = [np.concatenate([each.words.counts, each.pieces.counts]) for each in features]
    return _csr(columns, counts)


def _inputs(rows: list[Row], rarity: NDArray[np.float16], vectors: Vectors | None) -> sparse.csr_array:
    weighted = [weighted_ngrams(text_features(row.text[:LONGEST], BUCKETS), rarity) for row in rows]
    ngrams = _csr([columns for columns, _ in weighted], [values for _, values in weighted])
    if vectors is None:
        return ngrams
    dense = np.stack([vectors[row.text] for row in rows]) * np.float32(VECTOR_SCALE)
    return sparse.hstack([sparse.csr_array(dense), ngrams], format="csr", dtype=np.float32)


def _csr(columns: list[NDArray[np.int64]], values: list[NDArray[np.float32]]) -> sparse.csr_array:
    starts = np.concatenate([[0], np.cumsum([len(each) for each in columns])]).astype(np.int32)
    parts = (np.concatenate(values).astype(np.float32), np.concatenate(columns).astype(np.int32), starts)
    return sparse.csr_array(parts, shape=(len(columns), 2 * BUCKETS))

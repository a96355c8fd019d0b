"""Rows to the Chinese table: softmax regression and naive Bayes over the same pieces, summed.

Regression tells common pieces apart best, naive Bayes those that few rows have, which are most of what a new
text is made of (Ng and Jordan 2001; Wang and Manning 2012).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar

from domain_head.regression import regress
from domain_head.rows import LABELS, Row, apart_from_development
from radixway.semantics.encoders.heads.chinese_domain import (
    HASHES,
    ChineseSoftmax,
    hashed_pieces,
    weighted_pieces,
)
from radixway.semantics.encoders.heads.ngrams import TextFeatures, text_features

LONGEST_EXAM = 240
"""Characters of an exam question that are read: the rest repeats what it is about."""
LEAST_EXAMS = 4
"""Exam questions that must have a piece which nothing written for training has."""


@dataclass(slots=True, frozen=True)
class ChineseChoices:
    """What was tried in several ways; the figures stand in docs/evaluations/semantic.md."""

    strength: float = 10.0
    """Inverse of the regression's L2 penalty."""
    iterations: int = 60
    naive: float = 1.0
    """What naive Bayes counts beside regression."""
    smoothing: float = 0.1
    """Rows that each label is taken to have with each piece, before any is counted."""
    exam_weight: float = 0.05
    """What an exam question counts in naive Bayes: it has many pieces, a word few."""


def fit_chinese(rows: list[Row], calibration: list[Row], choices: ChineseChoices) -> ChineseSoftmax:
    """A table from `rows`, its temperature from those of `calibration` that are no exam questions.

    The temperature is that of a table which learnt nothing of what the development prompts are about: what
    it is asked in use is as new to it.
    """
    apart = apart_from_development(rows)
    judged = _calibrated(_table(apart, choices), [row for row in calibration if not row.is_exam])
    if len(apart) == len(rows):
        return judged
    return replace(_table(rows, choices), temperature=judged.temperature)


def _table(rows: list[Row], choices: ChineseChoices) -> ChineseSoftmax:
    """Of temperature 1."""
    features = [_features(row) for row in rows]
    pieces, frequency = _vocabulary(features, rows)
    rarity = (np.log((1 + len(rows)) / (1 + frequency)) + 1).astype(np.float16).astype(np.float32)
    found = regress(
        np.zeros((len(rows), 0), np.float32),
        _values(features, pieces, rarity),
        _targets(rows),
        np.array([row.weight for row in rows], np.float32),
        columns=len(LABELS),
        strength=choices.strength,
        iterations=choices.iterations,
    )
    weights = found.ngrams + choices.naive * _naive_bayes(features, rows, pieces, choices)
    scale = np.abs(weights).max(axis=0) / 127
    return ChineseSoftmax(
        pieces=pieces,
        weights=np.round(weights / scale).astype(np.int8),
        scale=scale.astype(np.float32),
        rarity=rarity,
        bias=found.bias,
        temperature=1.0,
    )


def _features(row: Row) -> TextFeatures:
    return text_features(row.text[:LONGEST_EXAM] if row.is_exam else row.text, HASHES)


def _vocabulary(
    features: list[TextFeatures], rows: list[Row]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Pieces, ascending, and how many rows have each."""
    found = [hashed_pieces(each)[0] for each in features]
    pieces, frequency = np.unique(np.concatenate(found), return_counts=True)
    written = [hashes for hashes, row in zip(found, rows, strict=True) if not row.is_exam]
    keep = (frequency >= LEAST_EXAMS) | np.isin(pieces, np.concatenate(written))
    return pieces[keep], frequency[keep]


def _values(
    features: list[TextFeatures], pieces: NDArray[np.uint32], rarity: NDArray[np.float32]
) -> sparse.csr_array:
    """[rows, pieces], rows of unit length."""
    weighted = [weighted_pieces(each, pieces, rarity) for each in features]
    ends = np.cumsum([0] + [len(columns) for columns, _ in weighted])
    columns = np.concatenate([columns for columns, _ in weighted])
    values = np.concatenate([values for _, values in weighted]).astype(np.float32)
    return sparse.csr_array((values, columns, ends), shape=(len(features), len(pieces)))


def _naive_bayes(
    features: list[TextFeatures], rows: list[Row], pieces: NDArray[np.uint32], choices: ChineseChoices
) -> NDArray[np.float64]:
    """[pieces, labels]: logarithms of how likely a piece is under a label, their mean taken off."""
    counts = np.full((len(pieces), len(LABELS)), choices.smoothing)
    for each, row in zip(features, rows, strict=True):
        columns, _ = weighted_pieces(each, pieces, np.ones(len(pieces), np.float32))
        counts[columns, LABELS.index(row.label)] += choices.exam_weight if row.is_exam else 1.0
    likely = np.log(counts / counts.sum(axis=0))
    centred: NDArray[np.float64] = likely - likely.mean(axis=1, keepdims=True)
    return centred


def _calibrated(table: ChineseSoftmax, rows: list[Row]) -> ChineseSoftmax:
    """With the temperature at which `rows` are likeliest (Guo et al. 2017)."""
    logits = np.stack([table.logits(_features(row)) for row in rows])
    true = logits[np.arange(len(rows)), _targets(rows)]

    def loss(log_temperature: float) -> float:
        temperature = np.exp(log_temperature)
        norms = np.logaddexp.reduce(logits / temperature, axis=1)
        return float((norms - true / temperature).mean())

    best = minimize_scalar(loss, bounds=(-2, 2), method="bounded")
    return replace(table, temperature=round(float(np.exp(best.x)), 4))


def _targets(rows: list[Row]) -> NDArray[np.int64]:
    return np.array([LABELS.index(row.label) for row in rows])

"""Rows to one script's table: softmax regression over an encoder's states and n-grams, with a temperature."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from domain_head.regression import Floats, regress
from domain_head.rows import LABELS, Row
from domain_head.states import States
from radixway.semantics.encoders.heads.domain_head import ScriptSoftmax, weighted_ngrams
from radixway.semantics.encoders.heads.kernel_density import LabelDensity, normalize_rows
from radixway.semantics.encoders.heads.ngrams import TextFeatures, text_features

BUCKETS = 1 << 16
LEAST_SPREAD = 1e-3
"""Of a state's values, as which smaller ones count: some hardly ever move."""
NOTHING = np.zeros(0, np.float32)
KNOWN_SOURCES = frozenset(["prompts_en", "terms_en"])
"""Rows that are kept as neighbours: topics put into forms would be the same again."""
STATES = 5
"""Vectors that are a text's states, the encoder's own first."""
DIMENSIONS = 128
"""That are left of a vector there."""
LONGEST = 2000
"""Characters of a row that are read in training."""


@dataclass(slots=True, frozen=True)
class Choices:
    """What was tried in several ways; the figures stand in docs/evaluations/semantic.md."""

    strength: float = 10.0
    """Inverse of the L2 penalty."""
    iterations: int = 120
    everyday: float = 1.0
    """Added to the logits of the everyday style, which what is new is taken for too seldom."""


def fit(rows: list[Row], calibration: list[Row], states: States | None, choices: Choices) -> ScriptSoftmax:
    """A table from `rows`, its temperature from `calibration`; it reads states where there are some."""
    features = [text_features(row.text[:LONGEST], BUCKETS) for row in rows]
    counts = _counts(features)
    seen = np.bincount(counts.indices, minlength=2 * BUCKETS)
    rarity = np.where(seen > 0, np.log((1 + len(rows)) / (1 + seen)) + 1, 0).astype(np.float16)
    dense, mean, spread = _normal(rows, states)
    found = regress(
        dense,
        _inputs(features, rarity),
        _targets(rows) + len(LABELS) * np.array([row.is_exam for row in rows]),
        np.array([row.weight for row in rows], np.float32),
        columns=2 * len(LABELS),
        strength=choices.strength,
        iterations=choices.iterations,
    )
    scale = np.abs(found.ngrams).max(axis=0) / 127
    unfolded = found.states / spread[:, None]
    table = ScriptSoftmax(
        ngrams=np.round(found.ngrams / scale).astype(np.int8),
        scale=scale.astype(np.float32),
        rarity=rarity,
        bias=found.bias - mean @ unfolded + _style_bias(choices.everyday),
        states=unfolded if states else None,
        temperatures=np.ones(2, np.float32),
        neighbours=known_texts(rows, states) if states else None,
    )
    return _calibrated(table, calibration, states)


def known_texts(rows: list[Row], states: States) -> LabelDensity:
    """Everyday rows along the directions in which they differ most, each of a vector's values of spread 1."""
    known = sorted(
        (row for row in rows if row.source in KNOWN_SOURCES), key=lambda row: LABELS.index(row.label)
    )
    vectors = np.stack([states[row.text][: len(states[row.text]) // STATES] for row in known]).astype(
        np.float32
    )
    mean, spread = vectors.mean(axis=0), np.maximum(vectors.std(axis=0), LEAST_SPREAD)
    normal = (vectors - mean) / spread
    directions = np.linalg.eigh(normal.T @ normal)[1][:, -DIMENSIONS:]
    projection = directions / spread[:, None]
    counts = np.bincount(_targets(known), minlength=len(LABELS))
    return LabelDensity(projection, mean @ projection, normalize_rows(normal @ directions), counts)


def _style_bias(everyday: float) -> Floats:
    """[columns]: `everyday` for labels in the everyday style, 0 for those of exams."""
    return np.repeat(np.array([everyday, 0], np.float32), len(LABELS))


def _normal(rows: list[Row], states: States | None) -> tuple[Floats, Floats, Floats]:
    """[rows, columns] of mean 0 and, over all columns, length 1 on average; its mean and its spread."""
    if states is None:
        return np.zeros((len(rows), 0), np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32)
    dense = np.stack([states[row.text] for row in rows]).astype(np.float32)
    mean = dense.mean(axis=0)
    spread = np.maximum(dense.std(axis=0), LEAST_SPREAD) * np.float32(np.sqrt(dense.shape[1]))
    dense -= mean
    dense /= spread
    return dense, mean, spread


def _calibrated(table: ScriptSoftmax, rows: list[Row], states: States | None) -> ScriptSoftmax:
    """With the temperatures, one for each style, at which `rows` are likeliest (after Guo et al. 2017)."""
    read = {row.text: states[row.text].astype(np.float32) if states else NOTHING for row in rows}
    logits = np.stack([table.logits(text_features(row.text, BUCKETS), read[row.text]) for row in rows])
    targets, weights = _targets(rows), np.array([row.weight for row in rows])

    def at(log_temperatures: NDArray[np.float64]) -> ScriptSoftmax:
        return replace(table, temperatures=np.round(np.exp(log_temperatures), 4).astype(np.float32))

    def loss(log_temperatures: NDArray[np.float64]) -> float:
        likely = at(log_temperatures).probabilities(logits)[np.arange(len(rows)), targets]
        return float(-(weights * np.log(np.maximum(likely, 1e-9))).sum() / weights.sum())

    best = minimize(loss, np.zeros(2), method="Nelder-Mead", bounds=[(-2, 2)] * 2)
    return at(best.x)


def _targets(rows: list[Row]) -> NDArray[np.int64]:
    return np.array([LABELS.index(row.label) for row in rows])


def _counts(features: list[TextFeatures]) -> sparse.csr_array:
    """[rows, 2 · buckets]: how often each word and piece occurs."""
    columns = [np.concatenate([each.words.buckets, each.pieces.buckets + BUCKETS]) for each in features]
    counts = [np.concatenate([each.words.counts, each.pieces.counts]) for each in features]
    return _csr(columns, counts)


def _inputs(features: list[TextFeatures], rarity: NDArray[np.float16]) -> sparse.csr_array:
    weighted = [weighted_ngrams(each, rarity) for each in features]
    return _csr([columns for columns, _ in weighted], [values for _, values in weighted])


def _csr(columns: list[NDArray[np.int64]], values: list[NDArray[np.float32]]) -> sparse.csr_array:
    starts = np.concatenate([[0], np.cumsum([len(each) for each in columns])]).astype(np.int32)
    parts = (np.concatenate(values).astype(np.float32), np.concatenate(columns).astype(np.int32), starts)
    return sparse.csr_array(parts, shape=(len(columns), 2 * BUCKETS))

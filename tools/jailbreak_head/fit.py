"""Features to the three readers of the head, and what they say of rows they were not trained on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from jailbreak_head.features import BUCKETS, FILLED, Features
from jailbreak_head.regression import Floats, regress
from jailbreak_head.rows import Row
from radixway.semantics.guard.jailbreak.attack_reader import KINDS
from radixway.semantics.guard.jailbreak.jailbreak_head import ReaderWeights

Mask = NDArray[np.bool_]


@dataclass(slots=True, frozen=True)
class Choices:
    """What was tried in several ways; the figures stand in docs/evaluations/guard.md."""

    states_strength: float = 0.003
    words_strength: float = 10.0
    closer_bias: float = -2.0
    """What is taken from the logit of a closer look: there are many of them in a long text."""
    harmless_weight: float = 3.0
    """What a harmless row counts where the readers are weighed: a false alarm is worse than a miss."""
    least_rows: int = 2
    """Rows that must have an n-gram."""


@dataclass(slots=True, frozen=True)
class Readers:
    """The two linear ones."""

    states: Floats
    """[5 · size], of parts as they are."""
    states_bias: float
    ngrams: Floats
    """[2 · BUCKETS]"""
    ngrams_bias: float
    rarity: Floats
    """[2 · BUCKETS]"""
    closer_bias: float

    def say(self, features: Features, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[rows] each: the logit of the part, and of the passage, that is likeliest to attack."""
        parts = features.parts @ self.states + self.states_bias + features.is_closer * self.closer_bias
        passages = weighted(features.ngrams, self.rarity) @ self.ngrams + self.ngrams_bias
        return _most(parts, features.part_rows, rows), _most(passages, features.passage_rows, rows)


def fit_readers(features: Features, rows: Sequence[Row], used: Mask, choices: Choices) -> Readers:
    """From the rows that `used` has."""
    chosen = np.flatnonzero(used[features.part_rows] & (features.part_labels >= 0))
    parts_of_row = np.bincount(features.part_rows[chosen], minlength=len(rows))
    weights = (1 / np.sqrt(parts_of_row[features.part_rows[chosen]])).astype(np.float32)
    mean, spread = features.parts[chosen].mean(0), features.parts[chosen].std(0) + 1e-3
    scaled, bias = regress(
        (features.parts[chosen] - mean) / spread,
        features.part_labels[chosen] == 1,
        weights,
        strength=choices.states_strength,
        iterations=40,
    )
    states = scaled / spread
    filled = np.array([row.end is None or row.end - row.begin >= FILLED * len(row.text) for row in rows])
    passages = np.flatnonzero((used & filled)[features.passage_rows])
    rarity = _rarity(features.ngrams[passages], choices.least_rows)
    attacks = np.array([row.is_attack for row in rows])[features.passage_rows[passages]]
    ngrams, ngrams_bias = regress(
        weighted(features.ngrams[passages], rarity),
        attacks,
        np.ones(len(passages), np.float32),
        strength=choices.words_strength,
        iterations=30,
    )
    return Readers(states, bias - float(mean @ states), ngrams, ngrams_bias, rarity, choices.closer_bias)


def fit_weights(
    states: NDArray[np.float64],
    words: NDArray[np.float64],
    features: Features,
    attacks: Mask,
    choices: Choices,
) -> ReaderWeights:
    """From what readers said of rows that they were not trained on."""
    han = features.han
    columns = np.stack(
        [1 - han, (1 - han) * states, (1 - han) * words, han, han * words, features.evidence], 1
    )
    model = LogisticRegression(fit_intercept=False, max_iter=500)
    model.fit(columns, attacks, sample_weight=np.where(attacks, 1.0, choices.harmless_weight))
    bias, of_states, of_words, han_bias, han_words, wordings = (float(each) for each in model.coef_[0])
    return ReaderWeights(bias, of_states, of_words, han_words, han_bias, wordings)


def logits(
    weights: ReaderWeights, states: NDArray[np.float64], words: NDArray[np.float64], features: Features
) -> NDArray[np.float64]:
    """[rows]"""
    told = zip(states, words, features.han, features.evidence, strict=True)
    return np.array([weights.logit(*each) for each in told])


def out_of_fold(
    features: Features, rows: Sequence[Row], folds: NDArray[np.int64], choices: Choices
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[rows] each: what readers say that were trained on the rows of all other folds; those of fold -1 train
    nothing, and are told by the readers of the last one.
    """
    states, words = np.zeros(len(rows)), np.zeros(len(rows))
    for fold in range(folds.max() + 1):
        readers = fit_readers(features, rows, (folds != fold) & (folds >= 0), choices)
        said = readers.say(features, len(rows))
        told = (folds == fold) | (folds < 0)
        states[told], words[told] = said[0][told], said[1][told]
        left_out = (row.family for row, its in zip(rows, folds, strict=True) if its == fold and row.is_attack)
        print(f"fold {fold}: {dict(Counter(left_out))}", flush=True)
    return states, words


def fit_kinds(
    features: Features, rows: Sequence[Row], readers: Readers
) -> tuple[Floats, Floats, Floats, Floats]:
    """Columns of the kinds, and their biases: [5 · size, kinds], [kinds], [2 · BUCKETS, kinds], [kinds]."""
    kinds = np.array([KINDS.index(row.kind) if row.kind in KINDS else -1 for row in rows])
    parts = (kinds[features.part_rows] >= 0) & (features.part_labels == 1)
    mean, spread = features.parts[parts].mean(0), features.parts[parts].std(0) + 1e-3
    of_states = LogisticRegression(C=0.003, max_iter=60)
    of_states.fit((features.parts[parts] - mean) / spread, kinds[features.part_rows[parts]])
    states = (of_states.coef_ / spread).T
    passages = kinds[features.passage_rows] >= 0
    of_words = LogisticRegression(C=3.0, max_iter=60)
    of_words.fit(weighted(features.ngrams[passages], readers.rarity), kinds[features.passage_rows[passages]])
    bias = of_states.intercept_ - mean @ states
    return states, bias, of_words.coef_.T, of_words.intercept_


def weighted(ngrams: sparse.csr_array, rarity: Floats) -> sparse.csr_array:
    """Rows of unit length."""
    scaled = (ngrams @ sparse.diags_array(rarity)).tocsr()
    lengths = np.sqrt(scaled.multiply(scaled).sum(axis=1))
    return (sparse.diags_array(1 / np.maximum(lengths, 1e-12)) @ scaled).tocsr().astype(np.float32)


def _rarity(ngrams: sparse.csr_array, least: int) -> Floats:
    frequency = np.bincount(ngrams.indices, minlength=2 * BUCKETS)
    rarity = np.log((1 + ngrams.shape[0]) / (1 + frequency)) + 1
    return np.where(frequency >= least, rarity, 0).astype(np.float16).astype(np.float32)


def _most(logits: Floats, whose: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    found = np.full(rows, -np.inf)
    np.maximum.at(found, whose, logits)
    return np.where(np.isinf(found), 0, found)

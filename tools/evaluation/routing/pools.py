"""Models of like size: what it gains to ask for each question the one that is likely to know.

Selectors differ in where a model's score for a question comes from; who is chosen is `semantic.selection`'s
decision, as in the gateway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evaluation.routing.models import POOLS, cost_of
from evaluation.routing.readings import Readings
from evaluation.routing.tables import Table, near_duplicates, split
from quality_fit import DOMAIN_SCALE, STRENGTH, ridge
from radixway.core.config.semantic import ModelPricing, Preference
from radixway.semantics.decisions.model_selection import ModelCandidate, choose_model, weigh_candidates
from radixway.semantics.encoders.base import Floats

TRAIN_SHARE = 0.7
SEEDS = 5
NEIGHBOURS = 200
LEAST_ROWS = 100
PRIOR = 20
"""Questions that a model's mean counts for in its score of a category."""
SHARES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
"""`least_share` of the curve of quality over cost."""
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Routed:
    """One way of choosing, mean over the seeds."""

    quality: float
    """Share of test questions answered rightly."""
    gain: float
    """Over the best single model on the same questions."""
    spread: float
    """Standard deviation of the gain over the seeds."""
    low: float
    high: float
    """Of the gain: 95 % of 2,000 resamples of the questions, each question's mean over the seeds."""
    cost: float
    """Billions of active parameters per token."""


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """What routing within a pool gives."""

    pool: str
    questions: int
    best_model: str
    """The best single one on the first seed's training part."""
    best_quality: float
    domain_accuracy: float
    """Of the head that predicts categories, on these questions."""
    routed: Mapping[str, Routed]
    """By way of choosing."""
    singles: Mapping[str, tuple[float, float]]
    """By model: quality on all questions, cost."""
    curve: tuple[tuple[float, float, float], ...]
    """`least_share`, quality and cost of `preference: cheap` with predicted categories."""
    any_right: float
    """Share of questions that some model of the pool answers rightly: what no choice can exceed."""


def pools_of(table: Table) -> dict[str, tuple[str, ...]]:
    """The pools that a table has all models of; where there are none, one of all its models."""
    known = {name: models for name, models in POOLS.items() if set(models) <= set(table.models)}
    return known or {"all": table.models}


def evaluate_pool(pool: str, models: tuple[str, ...], table: Table, readings: Readings) -> PoolFigures:
    """Learn scores on 70 % of the questions, choose for the others; five seeds, near-duplicates together.

    Questions that a model was not asked are left out.
    """
    rows = _rows(pool, models, table, readings)
    groups = near_duplicates(rows.vectors)
    trials: dict[str, list[tuple[NDArray[np.int64], Floats, Floats]]] = {}
    bests, curves = [], []
    for seed in range(SEEDS):
        part = _Part(models, rows, split(groups, seed, TRAIN_SHARE))
        right, costs = rows.right[part.test], part.costs
        bests.append((part.best, right[:, part.best].mean()))
        for name, chosen in part.selectors():
            gain = right[np.arange(len(right)), chosen] - right[:, part.best]
            trials.setdefault(name, []).append((part.test, gain, costs[chosen]))
        asked = [(chosen, np.arange(len(right))) for chosen in part.cheaper()]
        curves.append([(right[at, chosen].mean(), costs[chosen].mean()) for chosen, at in asked])
    quality = float(np.mean([mean for _, mean in bests]))
    curve = np.mean(curves, axis=0)
    return PoolFigures(
        pool=pool,
        questions=len(rows.right),
        best_model=models[bests[0][0]],
        best_quality=quality,
        domain_accuracy=float((rows.domains.argmax(axis=1) == rows.categories).mean()),
        routed={name: _routed(quality, found, len(rows.right)) for name, found in trials.items()},
        singles={model: (float(rows.right[:, at].mean()), cost_of(model)) for at, model in enumerate(models)},
        curve=tuple(
            (share, float(good), float(cost)) for share, (good, cost) in zip(SHARES, curve, strict=True)
        ),
        any_right=float(rows.right.max(axis=1).mean()),
    )


def _routed(quality: float, trials: Sequence[tuple[NDArray[np.int64], Floats, Floats]], rows: int) -> Routed:
    gains = [float(gain.mean()) for _, gain, _ in trials]
    total, count = np.zeros(rows), np.zeros(rows)
    for test, gain, _ in trials:
        total[test] += gain
        count[test] += 1
    each = total[count > 0] / count[count > 0]
    draws = np.random.default_rng(0).integers(0, len(each), (_RESAMPLES, len(each)))
    low, high = np.quantile(each[draws].mean(axis=1), (0.025, 0.975))
    return Routed(
        quality=quality + float(np.mean(gains)),
        gain=float(np.mean(gains)),
        spread=float(np.std(gains)),
        low=float(low),
        high=float(high),
        cost=float(np.mean([cost.mean() for _, _, cost in trials])),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The questions of a table that can be used, an array each."""

    vectors: Floats
    domains: Floats
    categories: NDArray[np.int64]
    right: Floats


def _rows(pool: str, models: tuple[str, ...], table: Table, readings: Readings) -> _Rows:
    """Those with a category that the head knows and that all models were asked."""
    right, labels = table.of(models), readings.labels
    known = np.array([labels.index(each) if each in labels else -1 for each in table.categories])
    keep = np.flatnonzero((np.isnan(right).sum(axis=1) == 0) & (known >= 0))
    if len(keep) < LEAST_ROWS:
        raise ValueError(f"{table.name}: only {len(keep)} questions with a category and all of {pool}")
    return _Rows(readings.vectors[keep], readings.domains[keep], known[keep], right[keep])


class _Part:
    """One split: scores learnt on one side, and for the other side the model that each selector asks."""

    def __init__(self, models: tuple[str, ...], rows: _Rows, train: NDArray[np.bool_]) -> None:
        self.costs: Floats = np.array([cost_of(model) for model in models], np.float32)
        self.test = np.flatnonzero(~train)
        self.best = int(rows.right[train].mean(axis=0).argmax())
        self._models, self._rows, self._train = models, rows, train
        self._place = {model: at for at, model in enumerate(models)}
        self._pricing = {
            model: ModelPricing(prompt_per_1m=cost_of(model), completion_per_1m=cost_of(model))
            for model in models
        }
        self._predicted = rows.domains[self.test].argmax(axis=1)
        self._scores = category_scores(rows.right[train], rows.categories[train], rows.domains.shape[1])

    def selectors(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Name, and [test questions] places of the models that are asked."""
        mixed: Floats = self._rows.domains[self.test] @ self._scores
        quality = self._quality()
        yield "true category", self._by_category(self._rows.categories[self.test])
        yield "predicted category", self._by_category(self._predicted)
        yield "categories by probability", self._by_question(mixed)
        yield "neighbours", self._by_question(self._neighbours())
        yield "quality head", self._by_question(quality)
        yield "quality head and categories", self._by_question(quality + mixed)

    def cheaper(self) -> Iterator[NDArray[np.int64]]:
        """`preference: cheap` at each of `SHARES`."""
        for share in SHARES:
            yield self._by_category(self._predicted, "cheap", share)

    def _quality(self) -> Floats:
        rows, train = self._rows, self._train
        inputs = np.hstack([rows.vectors, rows.domains * np.float32(DOMAIN_SCALE)])
        weights, bias = ridge(inputs[train], rows.right[train], STRENGTH)
        quality: Floats = inputs[self.test] @ weights + bias
        return quality

    def _neighbours(self) -> Floats:
        """Mean correctness over the nearest training questions, weighted by likeness."""
        rows, train = self._rows, self._train
        return neighbours(rows.vectors[self.test], rows.vectors[train], rows.right[train], NEIGHBOURS)

    def _by_category(
        self, categories: NDArray[np.int64], preference: Preference = "best", least_share: float = 0.8
    ) -> NDArray[np.int64]:
        pick = partial(self._pick, preference=preference, least_share=least_share)
        chosen = np.array([pick(scores) for scores in self._scores])
        found: NDArray[np.int64] = chosen[categories]
        return found

    def _by_question(self, scores: Floats) -> NDArray[np.int64]:
        return np.array([self._pick(each) for each in scores])

    def _pick(self, scores: Floats, preference: Preference = "best", least_share: float = 0.8) -> int:
        """The gateway's own choice among models with these scores."""
        candidates = [
            ModelCandidate(model, float(score)) for model, score in zip(self._models, scores, strict=True)
        ]
        weighed = weigh_candidates(candidates, self._pricing, lambda model: _READY, 1, 1)
        return self._place[choose_model(weighed, preference, least_share).best.model]


class _Ready:
    """A model with a worker of which nothing is known yet."""

    workers = 1

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        return 0.0


_READY = _Ready()


def category_scores(right: Floats, categories: NDArray[np.int64], count: int) -> Floats:
    """[categories, models]: share answered rightly, drawn towards the model's mean where rows are few."""
    mean = right.mean(axis=0)
    sums = np.stack([right[categories == each].sum(axis=0) for each in range(count)])
    rows = np.bincount(categories, minlength=count)[:, None]
    scores: Floats = ((sums + PRIOR * mean) / (rows + PRIOR)).astype(np.float32)
    return scores


def neighbours(vectors: Floats, known: Floats, values: Floats, count: int) -> Floats:
    """[rows, values]: mean of the nearest `count` rows of `known`, weighted by exp(10 · cosine)."""
    count = min(count, len(known))
    cosines = vectors @ known.T
    nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
    weights = np.exp(10 * np.take_along_axis(cosines, nearest, axis=1))
    weights /= weights.sum(axis=1, keepdims=True)
    mean: Floats = np.einsum("rk,rkv->rv", weights, values[nearest])
    return mean

"""A weak model and a strong one: how few questions the strong one must get.

Figures as in RouteLLM (Ong et al. 2024, arXiv 2406.18665): PGR is the share of the gap in quality between the
two that a router recovers, APGR its mean over all shares of strong calls (random: .5), CPT(x) the share of
strong calls at which x of the gap is recovered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.routing.pools import SEEDS, TRAIN_SHARE, neighbours
from evaluation.routing.readings import Readings
from evaluation.routing.tables import Table, near_duplicates, split
from quality_fit import STRENGTH, ridge
from radixway.semantics.encoders.base import Floats
from radixway.semantics.signals.complexity import lexical_complexity

POINTS = 100
"""Of a curve, besides its first."""
_NEIGHBOURS = 100
_EPSILON = 1e-9
_PAIRS = (("mixtral_8x7b", "gpt4"), ("Phi-3-mini-4k-instruct", "gemini-1.5-pro-002"))


@dataclass(frozen=True, slots=True)
class Scored:
    """One way of telling who needs the strong model, mean over the seeds."""

    apgr: float
    spread: float
    """Standard deviation of APGR over the seeds."""
    cpt50: float
    cpt80: float
    curve: tuple[float, ...]
    """Quality at 0, 1 … 100 % strong calls."""


@dataclass(frozen=True, slots=True)
class TierFigures:
    """What routing between two models gives."""

    table: str
    trained_on: str
    """The table that the scores were learnt on; another one where the questions are out of distribution."""
    questions: int
    """Of the test parts, all seeds together."""
    weak: str
    strong: str
    weak_quality: float
    strong_quality: float
    scored: Mapping[str, Scored]
    oracle: tuple[float, ...]
    """Quality where who needs the strong model is known."""


def tiers_of(table: Table) -> tuple[str, str] | None:
    """The weak and the strong model of a table; None where it has none that are compared."""
    for pair in _PAIRS:
        if set(pair) <= set(table.models):
            return pair
    if len(table.models) == 2:
        weak, strong = sorted(table.models, key=lambda model: float(np.nanmean(table.of((model,)))))
        return weak, strong
    return None


def evaluate_tiers(
    pair: tuple[str, str],
    table: Table,
    readings: Readings,
    learnt: tuple[Table, Readings] | None = None,
) -> TierFigures:
    """`learnt`: questions to learn from where that is not 70 % of the table itself (five seeds).

    Raises ValueError where the strong model is not the better one: then there is no gap to recover.
    """
    asked, right, vectors = _asked(pair, table, readings)
    lexical = np.array([lexical_complexity(table.questions[at]) for at in asked])
    trials: dict[str, list[tuple[float, float, float, Floats]]] = {}
    oracles, ends = [], []
    groups = near_duplicates(vectors) if learnt is None else None
    for seed in range(SEEDS if learnt is None else 1):
        if learnt is not None:
            _, known_right, known = _asked(pair, *learnt)
            test = np.arange(len(right))
        else:
            assert groups is not None
            train = split(groups, seed, TRAIN_SHARE)
            known_right, known, test = right[train], vectors[train], np.flatnonzero(~train)
        scores = _scores(known, known_right, vectors[test]) | {"words alone": lexical[test]}
        outcome = right[test]
        if outcome[:, 1].mean() <= outcome[:, 0].mean():
            raise ValueError(f"{table.name}: {pair[1]} is not better than {pair[0]}")
        for name, score in scores.items():
            trials.setdefault(name, []).append(figures_of(score, outcome))
        oracles.append(figures_of(outcome[:, 1] - outcome[:, 0], outcome)[3])
        ends.append((*outcome.mean(axis=0), len(test)))
    ends_mean = np.mean(ends, axis=0)
    return TierFigures(
        table=table.name,
        trained_on=table.name if learnt is None else learnt[0].name,
        questions=int(sum(end[2] for end in ends)),
        weak=pair[0],
        strong=pair[1],
        weak_quality=float(ends_mean[0]),
        strong_quality=float(ends_mean[1]),
        scored={name: _scored(found) for name, found in trials.items()},
        oracle=_mean_curve(oracles),
    )


def _asked(
    pair: tuple[str, str], table: Table, readings: Readings
) -> tuple[NDArray[np.int64], Floats, Floats]:
    right = table.of(pair)
    asked = np.flatnonzero(~np.isnan(right).any(axis=1))
    return asked, right[asked], readings.vectors[asked]


def _scores(known: Floats, right: Floats, vectors: Floats) -> dict[str, Floats]:
    """By way, [rows]: the higher, the more the strong model is needed."""
    gain = right[:, 1:] - right[:, :1]
    weak_weights, weak_bias = ridge(known, right[:, :1], STRENGTH)
    weights, bias = ridge(known, gain, STRENGTH)
    near = neighbours(vectors, known, gain, _NEIGHBOURS)[:, 0]
    learnt = (vectors @ weights + bias)[:, 0]
    return {
        "weak model's failure": -(vectors @ weak_weights + weak_bias)[:, 0],
        "neighbours' gain": near,
        "quality head's gain": learnt,
        "quality head and neighbours": learnt + near,
    }


def figures_of(score: Floats, right: Floats) -> tuple[float, float, float, Floats]:
    """APGR, CPT(50 %), CPT(80 %), and [101] quality by share of strong calls.

    `score` [rows]: who needs the strong model most; `right` [rows, 2]: weak, strong. Ties keep their order.
    """
    order = np.argsort(-score, kind="stable")
    gains = (right[:, 1] - right[:, 0])[order]
    weak, strong = (float(mean) for mean in right.mean(axis=0, dtype=np.float64))
    quality = weak + np.concatenate([[0.0], np.cumsum(gains, dtype=np.float64)]) / len(gains)
    recovered = (quality - weak) / (strong - weak)
    shares = np.linspace(0, 1, len(quality))
    even = np.linspace(0, 1, POINTS + 1)
    return (
        float(np.trapezoid(recovered, shares)),
        float(shares[np.argmax(recovered >= 0.5 - _EPSILON)]),
        float(shares[np.argmax(recovered >= 0.8 - _EPSILON)]),
        np.interp(even, shares, quality).astype(np.float32),
    )


def _scored(trials: list[tuple[float, float, float, Floats]]) -> Scored:
    apgr = [trial[0] for trial in trials]
    return Scored(
        apgr=float(np.mean(apgr)),
        spread=float(np.std(apgr)),
        cpt50=float(np.mean([trial[1] for trial in trials])),
        cpt80=float(np.mean([trial[2] for trial in trials])),
        curve=_mean_curve([trial[3] for trial in trials]),
    )


def _mean_curve(curves: list[Floats]) -> tuple[float, ...]:
    return tuple(float(each) for each in np.mean(curves, axis=0))

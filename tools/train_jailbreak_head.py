"""Trains the head that tells attacks on the prompt, and says how good it is.

    python tools/train_jailbreak_head.py train [--data ../shared/data/semantic] [--out FILE]
    python tools/train_jailbreak_head.py evaluate [--json FILE]

Needs radixway[training] and the labelled data
that docs/evaluations/guard.md names; one core, some ten minutes to read
all texts (what the encoder made of them is kept in --cache), five to train and ten to evaluate. `evaluate`
trains anew for every fold: near-duplicates together, and every family of attacks left out in turn.
"""

import argparse
import json
from collections import Counter
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np

from jailbreak_head.features import BUCKETS, Features, read_features
from jailbreak_head.fit import Choices, Readers, fit_kinds, fit_readers, fit_weights, logits, out_of_fold
from jailbreak_head.folds import by_family
from jailbreak_head.measure import measure
from jailbreak_head.rows import Row, injections, training_rows
from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import TextEncoder, load_encoder
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.guard.jailbreak.attack_reader import KINDS
from radixway.semantics.guard.jailbreak.jailbreak_head import JAILBREAK_HEAD, ReaderWeights

FAMILY_FOLDS = 4
THRESHOLD = 0.7
WRONG = 0.01
"""Share of harmless rows that may reach the threshold, by readers which were not trained on them."""


def main() -> None:
    options = _options()
    encoder = load_encoder(EncodersConfig())
    rows = [*training_rows(options.data), *injections(options.data)]
    rows = list({(row.text, row.is_attack): row for row in rows}.values())
    features = read_features(rows, encoder, options.cache)
    measured_only = np.array([row.source.startswith("cyberseceval") for row in rows])
    if options.command == "evaluate":
        figures = measure(rows, features, measured_only, Choices())
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n")
        return
    head = train(rows, features, measured_only, encoder, Choices())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    head.save_file(options.out)


def train(
    rows: list[Row], features: Features, measured_only: np.ndarray, encoder: TextEncoder, choices: Choices
) -> HeadFile:
    """The readers from all rows but the ones only measured; their weights from readers of other families."""
    folds = by_family(rows, measured_only, FAMILY_FOLDS)
    folds[measured_only] = -1
    said = out_of_fold(features, rows, folds, choices)
    weights = calibrated(rows, features, said, measured_only, choices)
    readers = fit_readers(features, rows, ~measured_only, choices)
    trained = [row for row, only in zip(rows, measured_only, strict=True) if not only]
    return to_head(readers, weights, fit_kinds(features, rows, readers), encoder, trained)


def calibrated(
    rows: list[Row],
    features: Features,
    said: tuple[np.ndarray, np.ndarray],
    measured_only: np.ndarray,
    choices: Choices,
) -> ReaderWeights:
    """Weights whose bias lets `WRONG` of what people ask reach `THRESHOLD`, in each script.

    `said`: see `out_of_fold`.
    """
    states, words = said
    attacks, used = np.array([row.is_attack for row in rows]), ~measured_only
    weights = fit_weights(states[used], words[used], _only(features, used), attacks[used], choices)
    found = logits(weights, states, words, features)
    asked = np.array([not row.is_attack and row.source != "documents" for row in rows])
    aim = log(THRESHOLD / (1 - THRESHOLD))
    shifts = {}
    for name, script in (("bias", features.han < 1), ("han_bias", features.han >= 1)):
        shifts[name] = aim - float(np.quantile(found[script & asked], 1 - WRONG))
    print(f"weights {weights}, shifts {shifts}", flush=True)
    return replace(
        weights, bias=weights.bias + shifts["bias"], han_bias=weights.han_bias + shifts["han_bias"]
    )


def to_head(
    readers: Readers, weights: ReaderWeights, kinds, encoder: TextEncoder, rows: list[Row]
) -> HeadFile:
    """What is written to the file."""
    of_states, states_bias, of_words, words_bias = kinds
    ngrams = np.concatenate([readers.ngrams[:, None], of_words], axis=1)
    scale = np.abs(ngrams).max(axis=0) / 127
    return HeadFile(
        kind="jailbreak",
        labels=KINDS,
        encoder=encoder.id,
        weights=encoder.weights,
        data=f"rows per source: {dict(Counter(row.source for row in rows))}; sources are in NOTICE",
        arrays={
            "states": np.concatenate([readers.states[:, None], of_states], axis=1).astype(np.float32),
            "states_bias": np.concatenate([[readers.states_bias], states_bias]).astype(np.float32),
            "ngrams": np.round(ngrams / scale).astype(np.int8),
            "scale": scale.astype(np.float32),
            "ngrams_bias": np.concatenate([[readers.ngrams_bias], words_bias]).astype(np.float32),
            "rarity": readers.rarity.astype(np.float16),
        },
        settings={
            "buckets": BUCKETS,
            "closer_bias": readers.closer_bias,
            "weights": {name: round(getattr(weights, name), 5) for name in weights.__slots__},
        },
    )


def _only(features: Features, used: np.ndarray) -> Features:
    return replace(features, han=features.han[used], evidence=features.evidence[used])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["train", "evaluate"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/semantic"))
    parser.add_argument("--cache", type=Path, default=Path("build/jailbreak_blocks.npz"))
    parser.add_argument("--out", type=Path, default=JAILBREAK_HEAD)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Trains the head of the semantic cache's verifier, and writes the held-out pairs that ship.

    python tools/train_cache_head.py [--data ../shared/data/semantic] [--out FILE]

Needs radixway[training] and the labelled data
that docs/evaluations/semantic.md names; one core, some minutes for vectors
(kept in --cache). Sets marked for evaluation only (Quora pairs, MSRP) are not read.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cache_head.fit import Fitted, Matrix, fit
from cache_head.pairs import (
    Row,
    is_held_out,
    mock_pairs,
    nearest_pairs,
    read_groups,
    reframed_pairs,
    swapped_pairs,
    written_pairs,
)
from cache_head.vectors import Vectors
from cache_head.words import WordTable, make_table
from evaluation.cache import PAIRS
from radixway.core.config import EncodersConfig
from radixway.semantics.cache.ngram_vectors import ngram_vector
from radixway.semantics.cache.verifier import chinese_features, chinese_rules, pair_features
from radixway.semantics.cache.verifier.pair_features import WordVectors
from radixway.semantics.cache.verifier.parsed_text import parse_text
from radixway.semantics.cache.verifier.verdict import BUNDLED, KIND, RULES, SCRIPTS
from radixway.semantics.encoders import TextEncoder, load_encoder
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.encoders.model_files import find_model

NEAR, NEAR_BY_CHARACTERS = 0.85, 0.5
"""The cache's default thresholds."""
FAR = 0.6
"""English pairs with a lower cosine teach nothing: the head is never asked about such."""
STRENGTH = {"latin": 0.02, "blind": 0.02, "han": 0.1}
MOST_FALSE = {"latin": 0.035, "blind": 0.035, "han": 0.02}
"""False hits at the operating point, cross-validated."""
COUNTING = frozenset(("same", "near", "near, reframed", "scope added"))
"""Sources on which the operating point is chosen."""

Vector = Callable[[str], NDArray[np.float32]]


def main() -> None:
    options = _options()
    encoder = load_encoder(EncodersConfig(backend="int8"))
    vectors = Vectors(encoder, options.cache)
    vector = vectors.of
    table = make_table(options.data, find_model(EncodersConfig().model) / "tokenizer.json", vector)
    words = table.loaded()
    english, chinese_groups = read_groups("en"), read_groups("zh")
    write_held_out([*written_pairs([g for g in english if is_held_out(g)]),
                    *written_pairs([g for g in chinese_groups if is_held_out(g)])])  # fmt: skip
    groups = [group for group in english if not is_held_out(group)]
    rows = written_pairs(groups) + reframed_pairs(groups) + swapped_pairs(groups, _related(table, words))
    rows += mock_pairs(options.data, vector) + nearest_pairs(options.data, vector)
    matrix = english_matrix(rows, vector, words)
    vectors.save()
    han_rows = written_pairs([group for group in chinese_groups if not is_held_out(group)])
    fitted = {
        "latin": fit(matrix, strength=STRENGTH["latin"], most_false=MOST_FALSE["latin"], quora=True),
        "blind": fit(
            _without_cosine(matrix), strength=STRENGTH["blind"], most_false=MOST_FALSE["blind"], quora=True
        ),
        "han": fit(
            chinese_matrix(han_rows, words),
            strength=STRENGTH["han"],
            most_false=MOST_FALSE["han"],
            quora=False,
        ),
    }
    for script, each in fitted.items():
        print(f"{script}: from {each.least:.2f} on recall {each.recall:.3f}, false {each.false_hits:.4f}")
        weighed = zip(SCRIPTS[script], each.weights, strict=True)
        print("  " + ", ".join(f"{name} {weight:+.2f}" for name, weight in weighed))
    sources = dict(Counter(row.source for row in rows + han_rows))
    to_head(fitted, table, encoder, sources).save_file(options.out)


def english_matrix(rows: list[Row], vector: Vector, words: WordVectors) -> Matrix:
    """Rows near enough that the head may be asked, as it reads them."""
    cosines = [float(vector(row.one) @ vector(row.other)) for row in rows]
    texts = [(parse_text(row.one), parse_text(row.other)) for row in rows]
    values = [
        pair_features.pair_features(a, b, cosine, words)
        for (a, b), cosine in zip(texts, cosines, strict=True)
    ]
    spoke = [any(differ(a, b) for _, differ in RULES) for a, b in texts]
    return _matrix(rows, np.stack(values), np.array(cosines), np.array(spoke), NEAR, FAR)


def chinese_matrix(rows: list[Row], words: WordVectors) -> Matrix:
    """The same for Chinese."""
    cosines = [float(ngram_vector(row.one) @ ngram_vector(row.other)) for row in rows]
    values = [
        chinese_features.chinese_pair_features(row.one, row.other, cosine, words)
        for row, cosine in zip(rows, cosines, strict=True)
    ]
    spoke = [chinese_rules.difference_reason(row.one, row.other) is not None for row in rows]
    return _matrix(rows, np.stack(values), np.array(cosines), np.array(spoke), NEAR_BY_CHARACTERS, 0.0)


def _matrix(
    rows: list[Row],
    values: NDArray[np.float32],
    cosines: NDArray[np.float64],
    spoke: NDArray[np.bool_],
    near: float,
    far: float,
) -> Matrix:
    weight = np.array([row.weight for row in rows])
    return Matrix(
        values=values,
        same=np.array([row.same for row in rows]),
        weight=np.where(cosines >= far, weight, 0.0),
        group=np.array([row.group for row in rows]),
        cosine=cosines,
        allowed=(cosines >= near) & ~spoke,
        counts=np.array([row.source in COUNTING for row in rows]),
    )


def _without_cosine(matrix: Matrix) -> Matrix:
    return Matrix(
        matrix.values[:, 1:],
        matrix.same,
        matrix.weight,
        matrix.group,
        matrix.cosine,
        matrix.allowed,
        matrix.counts,
    )


def _related(table: WordTable, words: WordVectors) -> Callable[[str], list[str]]:
    """Words in common use that mean something near: not the same, not nothing like it."""
    usual = [
        word
        for word, rarity in zip(table.words, table.rarity, strict=True)
        if rarity < 0.7 and len(word) > 3 and word.isascii()
    ]

    def related(word: str) -> list[str]:
        if word not in table.words:
            return []
        alike = words.word_cosines([word], usual)[0]
        return [
            other
            for other, cosine in zip(usual, alike, strict=True)
            if 0.3 < cosine < 0.55 and other[:4] != word[:4]
        ]

    return related


def write_held_out(rows: list[Row]) -> None:
    """What `python tools/evaluate.py cache` measures on when it is given nothing."""
    PAIRS.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"one": row.one, "other": row.other, "same": row.same}, ensure_ascii=False) for row in rows
    )
    PAIRS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def to_head(
    fitted: dict[str, Fitted], table: WordTable, encoder: TextEncoder, sources: dict[str, int]
) -> HeadFile:
    """What is written to the file."""
    arrays = {f"{script}_weights": each.weights for script, each in fitted.items()}
    arrays |= {f"{script}_usual": each.usual for script, each in fitted.items()}
    arrays |= {
        "words": np.frombuffer("\n".join(table.words).encode(), np.uint8),
        "vectors": table.vectors,
        "rarity": table.rarity,
    }
    settings: dict[str, object] = {f"{script}_features": SCRIPTS[script] for script in fitted}
    settings |= {f"{script}_bias": each.bias for script, each in fitted.items()}
    settings |= {f"{script}_least": each.least for script, each in fitted.items()}
    return HeadFile(
        kind=KIND,
        labels=("different", "same"),
        encoder=encoder.id,
        weights=encoder.weights,
        data=f"pairs per source: {sources}; sources and licences are in NOTICE",
        arrays=arrays,
        settings=settings,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/semantic"))
    parser.add_argument("--cache", type=Path, default=Path("build/cache_vectors.npz"))
    parser.add_argument("--out", type=Path, default=BUNDLED)
    return parser.parse_args()


if __name__ == "__main__":
    main()

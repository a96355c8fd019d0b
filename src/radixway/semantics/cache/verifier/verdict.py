"""The rules in order, then the trained head: what is left when no rule spoke, weighed by logistic regression.

The head was trained by tools/train_cache_head.py on pairs written for this project and on permitted sets; its
weights are tied to the encoder whose cosine they read (docs/semantic.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from pathlib import Path

import numpy as np

from radixway.semantics.cache.verifier import (
    chinese_features,
    chinese_rules,
    language,
    names,
    numbers,
    pair_features,
    question_type,
    word_rules,
)
from radixway.semantics.cache.verifier.language import is_latin
from radixway.semantics.cache.verifier.pair_features import Floats, WordVectors
from radixway.semantics.cache.verifier.parsed_text import ParsedText, parse_text
from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.heads import HeadFile

BUNDLED = Path(__file__).parents[3] / "bundled" / "heads" / "cache.npz"
KIND = "cache"
SCRIPTS = {"latin": pair_features.NAMES, "blind": pair_features.NAMES[1:], "han": chinese_features.NAMES}
"""Tables of weights and what they read; `blind` does without the encoder's cosine."""

_REASONS = {
    "asks_apart": "asking", "asks_alike": "asking", "asks_narrower": "asking",
    "replaced": "frame", "replaced_unlike": "frame",
    "named_apart": "names", "person_apart": "person", "tense_apart": "tense",
}  # fmt: skip
"""Reason by feature that weighed most against; others are `content`."""


@dataclass(frozen=True, slots=True)
class PairRegression:
    """A logistic regression. Arrays are [features]."""

    names: tuple[str, ...]
    weights: Floats
    usual: Floats
    """Mean of each feature over pairs with one answer, from which is told what spoke against."""
    bias: float
    threshold: float
    """Likelihood from which on an answer is given."""

    def predict_same(self, values: Floats) -> float:
        """Return the likelihood that one answer does for both, 0 to 1."""
        return 1 / (1 + exp(-float(np.clip(values @ self.weights + self.bias, -50, 50))))

    def strongest_reason(self, values: Floats) -> str:
        """Return what speaks loudest against one answer for both."""
        against = self.weights * (values - self.usual)
        return _REASONS.get(self.names[int(against.argmin())], "content")


class PairHead:
    """The head's tables, and the words they know."""

    def __init__(self, head: HeadFile) -> None:
        """Raises EncoderError where `head` lacks an array, or was made for other features."""
        self.weights = head.weights
        """SHA-256 of the encoder's weights whose cosine it reads."""
        try:
            self._tables = {
                script: _read_regression(head, script, names) for script, names in SCRIPTS.items()
            }
            vocabulary = head.arrays["words"].tobytes().decode().split("\n")
            self.words = WordVectors(
                {word: at for at, word in enumerate(vocabulary)},
                head.arrays["vectors"].astype(np.int8, copy=False),
                head.arrays["rarity"].astype(np.float32),
            )
        except (KeyError, ValueError) as error:
            raise EncoderError(f"the cache's head is not as this version reads it: {error}") from None

    @classmethod
    def load_file(cls, path: Path = BUNDLED) -> PairHead:
        """Raises EncoderError for a file that is no such head, or damaged."""
        return cls(HeadFile.load_file(path, kind=KIND))

    def judge_english(self, one: ParsedText, other: ParsedText, cosine: float | None) -> tuple[float, str]:
        """Likelihood and reason (`same`, or what speaks against) of an English pair. Without a cosine the
        words alone are read."""
        values = pair_features.pair_features(one, other, cosine or 0.0, self.words)
        return (
            self._judge_features("latin", values)
            if cosine is not None
            else self._judge_features("blind", values[1:])
        )

    def judge_chinese(self, one: str, other: str, cosine: float) -> tuple[float, str]:
        """Return the same of a Chinese pair; `cosine` is that of `ngram_vectors.ngram_vector`."""
        return self._judge_features(
            "han", chinese_features.chinese_pair_features(one, other, cosine, self.words)
        )

    def _judge_features(self, script: str, values: Floats) -> tuple[float, str]:
        table = self._tables[script]
        likelihood = table.predict_same(values)
        return likelihood, "same" if likelihood >= table.threshold else table.strongest_reason(values)


def _read_regression(head: HeadFile, script: str, names: tuple[str, ...]) -> PairRegression:
    read = tuple(head.settings[f"{script}_features"])
    if read != names:
        raise ValueError(f"{script} was trained on {', '.join(read)}")
    return PairRegression(
        names,
        head.arrays[f"{script}_weights"].astype(np.float32),
        head.arrays[f"{script}_usual"].astype(np.float32),
        float(head.settings[f"{script}_bias"]),
        float(head.settings[f"{script}_least"]),
    )


@dataclass(frozen=True, slots=True)
class VerifierVerdict:
    """Whether an answer to the one text answers the other."""

    same: bool
    reason: str
    """`same`, or why not: the rule that told them apart, or what spoke loudest to the head."""
    likelihood: float
    """That they have the same answer, as the head has it; 0 where a rule spoke."""


Verify = Callable[[str, str, float], VerifierVerdict]
"""Two texts and their cosine."""

RULES: tuple[tuple[str, Callable[[ParsedText, ParsedText], bool]], ...] = (
    ("language", language.languages_differ),
    ("numbers", numbers.numbers_differ),
    ("negation", word_rules.negations_differ),
    ("opposites", word_rules.opposites_differ),
    ("code", word_rules.identifiers_differ),
    ("names", names.names_differ),
    ("direction", word_rules.directions_differ),
    ("asking", question_type.ask_opposites),
)
"""What makes another question of any two texts, however near they are."""


@lru_cache(maxsize=1)
def bundled_head() -> PairHead:
    """Return the head that ships; read once, some 50 ms. Raises EncoderError where it cannot be read."""
    return PairHead.load_file()


def verify(one: str, other: str, cosine: float) -> VerifierVerdict:
    """Verify with the cosine of the encoder that ships. Symmetric in the texts."""
    return _verify_pair(one, other, cosine, cosine)


def verify_blind(one: str, other: str, cosine: float) -> VerifierVerdict:
    """Verify with the cosine of any other encoder, which the head does not know: it reads words alone."""
    return _verify_pair(one, other, cosine, None)


def _verify_pair(one: str, other: str, cosine: float, known: float | None) -> VerifierVerdict:
    if one == other:
        return VerifierVerdict(True, "same", 1.0)
    if chinese_rules.is_chinese(one) or chinese_rules.is_chinese(other):
        return _verify_chinese(one, other, cosine)
    a, b = parse_text(one), parse_text(other)
    for name, differ in RULES:
        if differ(a, b):
            return VerifierVerdict(False, name, 0.0)
    likelihood, reason = bundled_head().judge_english(
        a, b, known if is_latin(one) and is_latin(other) else None
    )
    return VerifierVerdict(reason == "same", reason, likelihood)


def _verify_chinese(one: str, other: str, cosine: float) -> VerifierVerdict:
    if chinese_rules.is_chinese(one) != chinese_rules.is_chinese(other):
        return VerifierVerdict(False, "language", 0.0)
    rule = chinese_rules.difference_reason(one, other)
    if rule is not None:
        return VerifierVerdict(False, rule, 0.0)
    likelihood, reason = bundled_head().judge_chinese(one, other, cosine)
    return VerifierVerdict(reason == "same", reason, likelihood)

"""The rules in order, then the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from radixway.semantic_cache.verifier import (
    asking,
    chinese,
    code,
    direction,
    language,
    names,
    negation,
    numbers,
    opposites,
)
from radixway.semantic_cache.verifier.head import PairHead
from radixway.semantic_cache.verifier.language import is_latin
from radixway.semantic_cache.verifier.text import Text, read


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer to the one text answers the other."""

    same: bool
    reason: str
    """`same`, or why not: the rule that told them apart, or what spoke loudest to the head."""
    likelihood: float
    """That they have the same answer, as the head has it; 0 where a rule spoke."""


Verify = Callable[[str, str, float], Verdict]
"""Two texts and their cosine."""

RULES: tuple[tuple[str, Callable[[Text, Text], bool]], ...] = (
    ("language", language.differ),
    ("numbers", numbers.differ),
    ("negation", negation.differ),
    ("opposites", opposites.differ),
    ("code", code.differ),
    ("names", names.differ),
    ("direction", direction.differ),
    ("asking", asking.opposed),
)
"""What makes another question of any two texts, however near they are."""


@lru_cache(maxsize=1)
def bundled_head() -> PairHead:
    """The head that ships; read once, some 50 ms. Raises EncoderError where it cannot be read."""
    return PairHead.load()


def verify(one: str, other: str, cosine: float) -> Verdict:
    """The verifier that ships, for cosines of the encoder that ships. Symmetric in the texts."""
    return _verify(one, other, cosine, cosine)


def verify_blind(one: str, other: str, cosine: float) -> Verdict:
    """The same for cosines of any other encoder, which the head does not know: it reads words alone."""
    return _verify(one, other, cosine, None)


def _verify(one: str, other: str, cosine: float, known: float | None) -> Verdict:
    if one == other:
        return Verdict(True, "same", 1.0)
    if chinese.is_chinese(one) or chinese.is_chinese(other):
        return _verify_chinese(one, other, cosine)
    a, b = read(one), read(other)
    for name, differ in RULES:
        if differ(a, b):
            return Verdict(False, name, 0.0)
    likelihood, reason = bundled_head().judge(a, b, known if is_latin(one) and is_latin(other) else None)
    return Verdict(reason == "same", reason, likelihood)


def _verify_chinese(one: str, other: str, cosine: float) -> Verdict:
    if chinese.is_chinese(one) != chinese.is_chinese(other):
        return Verdict(False, "language", 0.0)
    rule = chinese.reason_apart(one, other)
    if rule is not None:
        return Verdict(False, rule, 0.0)
    likelihood, reason = bundled_head().judge_chinese(one, other, cosine)
    return Verdict(reason == "same", reason, likelihood)

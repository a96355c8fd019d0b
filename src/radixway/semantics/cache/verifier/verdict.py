"""The rules in order, then the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from radixway.semantics.cache.verifier import (
    chinese_rules,
    code,
    direction,
    language,
    names,
    numbers,
    question_type,
    word_rules,
)
from radixway.semantics.cache.verifier.language import is_latin
from radixway.semantics.cache.verifier.pair_head import PairHead
from radixway.semantics.cache.verifier.parsed_text import ParsedText, parse_text


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
    ("code", code.identifiers_differ),
    ("names", names.names_differ),
    ("direction", direction.directions_differ),
    ("asking", question_type.ask_opposites),
)
"""What makes another question of any two texts, however near they are."""


@lru_cache(maxsize=1)
def bundled_head() -> PairHead:
    """The head that ships; read once, some 50 ms. Raises EncoderError where it cannot be read."""
    return PairHead.load_file()


def verify(one: str, other: str, cosine: float) -> VerifierVerdict:
    """The verifier that ships, for cosines of the encoder that ships. Symmetric in the texts."""
    return _verify_pair(one, other, cosine, cosine)


def verify_blind(one: str, other: str, cosine: float) -> VerifierVerdict:
    """The same for cosines of any other encoder, which the head does not know: it reads words alone."""
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

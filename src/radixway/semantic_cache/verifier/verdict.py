"""The rules in order, and the measure of what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from radixway.semantic_cache.verifier import (
    asking,
    chinese,
    code,
    direction,
    frame,
    language,
    names,
    negation,
    numbers,
    opposites,
)
from radixway.semantic_cache.verifier.rest import rest_of
from radixway.semantic_cache.verifier.text import Text, read


@dataclass(frozen=True, slots=True)
class Verdict:
    """`same`, or why not: the name of the rule that told the texts apart."""

    same: bool
    reason: str


Verify = Callable[[str, str, float], Verdict]
"""Two texts and their cosine."""

_RULES: tuple[tuple[str, Callable[[Text, Text], bool]], ...] = (
    ("language", language.differ),
    ("numbers", numbers.differ),
    ("negation", negation.differ),
    ("opposites", opposites.differ),
    ("code", code.differ),
    ("names", names.differ),
    ("direction", direction.differ),
    ("asking", asking.differ),
    ("frame", frame.differ),
)

_LEAST, _FOR_UNMATCHED = 0.78, 0.20
"""The least cosine where all content is shared, and what is asked above it where none is (docs/semantic.md)."""

_SAME = Verdict(True, "same")


def verify(one: str, other: str, cosine: float) -> Verdict:
    """Whether an answer to the one text answers the other. Symmetric in the texts."""
    if chinese.is_chinese(one) or chinese.is_chinese(other):
        return _verify_chinese(one, other)
    a, b = read(one), read(other)
    for name, differ in _RULES:
        if differ(a, b):
            return Verdict(False, name)
    return _SAME if score(a, b, cosine) >= 0 else Verdict(False, "content")


def score(a: Text, b: Text, cosine: float) -> float:
    """How far the cosine is above what their unshared content asks for; 0 is just enough."""
    rest = rest_of(a, b)
    return cosine - (_LEAST + _FOR_UNMATCHED * rest.unmatched)


def _verify_chinese(one: str, other: str) -> Verdict:
    if chinese.is_chinese(one) != chinese.is_chinese(other):
        return Verdict(False, "language")
    reason = chinese.reason_apart(one, other)
    if reason is not None:
        return Verdict(False, reason)
    return _SAME if chinese.content_alike(one, other) else Verdict(False, "content")

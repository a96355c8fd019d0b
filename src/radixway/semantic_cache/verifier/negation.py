"""Negation: a question and its denial have the same words but one."""

from __future__ import annotations

from radixway.semantic_cache.verifier.text import ParsedText

_NEGATIONS = frozenset(
    "no not never none neither nor without cannot nobody nothing nowhere except unless lack avoid refuse fail prevent"
    " fails failed failing avoiding prevents preventing hardly barely excluding exclude instead".split()
)
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "non-", "mis", "de", "anti", "anti-")


def negations_differ(one: ParsedText, other: ParsedText) -> bool:
    """Whether one text denies what the other does not."""
    if _count_negations(one) % 2 != _count_negations(other) % 2:
        return True
    return _is_denied(one, other) or _is_denied(other, one)


def _count_negations(text: ParsedText) -> int:
    return sum(word in _NEGATIONS for word in text.words)


def _is_denied(one: ParsedText, other: ParsedText) -> bool:
    """A word of the one stands in the other with a prefix that turns it round: usual, unusual."""
    plain = set(one.words) - set(other.words)
    for word in set(other.words) - set(one.words):
        for prefix in _PREFIXES:
            if word.startswith(prefix) and len(word) - len(prefix) >= 3 and word[len(prefix) :] in plain:
                return True
    return False

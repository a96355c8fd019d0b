"""Opposites and limits: `first` and `last`, `safe` and `unsafe`, `must` and `can`.

Negation: a question and its denial have the same words but one.

Frames: the same sentence with one word replaced asks for something else, however near the words are.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from radixway.semantics.cache.verifier.lexicon import OPPOSITES
from radixway.semantics.cache.verifier.parsed_text import ParsedText
from radixway.semantics.cache.verifier.residual_words import is_spelt_alike
from radixway.semantics.cache.verifier.stems import strip_ending


def opposites_differ(one: ParsedText, other: ParsedText) -> bool:
    """Whether a word of the one text stands as its opposite in the other."""
    mine = {*one.stems, *one.words, *map(strip_ending, one.words)}
    theirs = {*other.stems, *other.words, *map(strip_ending, other.words)}
    only_mine, only_theirs = mine - theirs, theirs - mine
    if _covers_half(mine, only_mine) or _covers_half(theirs, only_theirs):
        return True
    return any((word, opposite) in OPPOSITES for word in only_mine for opposite in only_theirs)


def _covers_half(words: set[str], only: set[str]) -> bool:
    """One text speaks of both, the other of one: `pros and cons` and `pros`."""
    return any((word, opposite) in OPPOSITES for word in only for opposite in words)


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


def frames_differ(one: ParsedText, other: ParsedText) -> bool:
    """Whether all content is the same, in the same order, but for one word that is another one there.

    Words of one meaning have one stem by now (`lexicon`); what is left is `violin` and `cello`.
    """
    mine, theirs = one.content, other.content
    if len(mine) != len(theirs) or mine == theirs:
        return False
    changes = SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    replaced = [change for change in changes if change[0] != "equal"]
    if len(replaced) != 1 or replaced[0][0] != "replace":
        return False
    _, start, end, there, _ = replaced[0]
    return not all(is_spelt_alike(mine[at], theirs[there + at - start]) for at in range(start, end))

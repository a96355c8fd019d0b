"""Opposites and limits: `first` and `last`, `safe` and `unsafe`, `must` and `can`."""

from __future__ import annotations

from radixway.semantic_cache.verifier.lexicon import OPPOSITES
from radixway.semantic_cache.verifier.stems import strip_ending
from radixway.semantic_cache.verifier.text import ParsedText


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

"""What single words mean and how much they tell: small vectors and inverse document frequencies.

A pair of English questions as numbers, for the head that weighs them. Symmetric in the two.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.cache.verifier import names, question_type, word_rules
from radixway.semantics.cache.verifier.parsed_text import ParsedText, compare_content, is_spelt_alike

Floats = NDArray[np.float32]

UNKNOWN_RARITY = 1.0
"""Of a word that the table does not have: names, mostly."""


class WordVectors:
    """A table of words. `vectors`: [n, size] in int8, any length; `rarity`: [n], 0 (in every text) to 1."""

    def __init__(self, words: Mapping[str, int], vectors: NDArray[np.int8], rarity: Floats) -> None:
        self._at = words
        self._rarity = rarity
        unit = vectors.astype(np.float32)
        unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-9)
        self._unit = np.concatenate([unit, np.zeros((1, unit.shape[1]), np.float32)])  # the last: unknown

    def word_rarity(self, word: str) -> float:
        """Return how much `word` tells, 0 to 1."""
        at = self._at.get(word)
        return UNKNOWN_RARITY if at is None else float(self._rarity[at])

    def word_cosines(self, words: list[str], others: list[str]) -> Floats:
        """[words, others]: cosines, at least 0; 0 where a word is not in the table."""
        rows, columns = ([self._at.get(word, -1) for word in side] for side in (words, others))
        cosines: Floats = np.maximum(self._unit[rows] @ self._unit[columns].T, 0)
        return cosines


NAMES = (
    "cosine",
    "shared",  # share of the content, by rarity, that both have
    "left_most",  # content without counterpart: on the side that has more of it,
    "left_least",  # on the other,
    "left_word",  # and the one word of it that tells most
    "nearest_least",  # how near the counterpart of the worst matched word is
    "words_most",  # words that only one text has, on the side that has more of them,
    "words_least",  # and on the other
    "pieces",  # Dice's measure of pieces of three characters
    "pairs",  # of pairs of neighbouring content words
    "asks_apart",
    "asks_alike",
    "replaced",  # one content word stands for another in the same frame
    "length_ratio",
    "content_least",
    "first_alike",  # of the first content words, mostly the verb
    "last_alike",  # of the last ones, mostly what it is about
    "person_apart",
    "tense_apart",
    "grammar_apart",  # function words that only one of them has
    "asks_narrower",  # one asks when, where, who, why or how much, the other what
    "replaced_unlike",  # how little the two words of `replaced` have in common
    "unmatched",  # share of the content that only one has, words counted alike
    "named_apart",  # one has a name that the other has not
    "nothing_left",  # the content is the same
)
_PERSONS = {
    "i": 1, "me": 1, "my": 1, "mine": 1, "myself": 1, "we": 1, "us": 1, "our": 1, "one": 1, "you": 1, "your": 1,
    "he": 2, "him": 2, "his": 2, "she": 3, "her": 3, "they": 4, "them": 4, "their": 4, "someone": 5, "somebody": 5,
    "anyone": 1, "people": 1,
}  # fmt: skip
_TENSES = {"will": 1, "going": 1, "would": 2, "did": 3, "was": 3, "were": 3, "had": 3}
_GRAMMAR = frozenset(
    "in on at for with about into by from to of as if than but only after before while during without and or".split()
)


@dataclass(frozen=True, slots=True)
class ContentRemainder:
    """The rest of two texts' content without what both have."""

    shared: float
    mine: tuple[tuple[str, float], ...]
    """Words and what they tell, less as far as the other text has something near; the other way round below."""
    theirs: tuple[tuple[str, float], ...]
    nearest: float
    """Cosine of the worst matched word and its counterpart; 1 where nothing is left."""


def pair_features(one: ParsedText, other: ParsedText, cosine: float, words: WordVectors) -> Floats:
    """[len(NAMES)]"""
    left = content_remainder(one, other, words)
    mine, theirs = sum(w for _, w in left.mine), sum(w for _, w in left.theirs)
    counts = sorted((len(left.mine), len(left.theirs)))
    sizes = sorted((len(one.words), len(other.words)))
    kinds, others = question_type.question_kinds(one), question_type.question_kinds(other)
    total = 2 * left.shared + mine + theirs
    replaced = word_rules.frames_differ(one, other)
    return np.array(
        [
            cosine,
            2 * left.shared / total if total else 1.0,
            max(mine, theirs),
            min(mine, theirs),
            max((w for _, w in (*left.mine, *left.theirs)), default=0.0),
            left.nearest,
            counts[1],
            counts[0],
            _dice_coefficient(_character_ngrams(one), _character_ngrams(other)),
            _dice_coefficient(set(pairwise(one.content)), set(pairwise(other.content))),
            question_type.ask_differently(one, other),
            kinds == others,
            replaced,
            sizes[0] / max(sizes[1], 1),
            min(len(one.content), len(other.content)),
            _alike_at(one, other, 0, words),
            _alike_at(one, other, -1, words),
            _mark_values(one, _PERSONS) != _mark_values(other, _PERSONS),
            _mark_values(one, _TENSES) != _mark_values(other, _TENSES),
            len((_GRAMMAR & set(one.words)) ^ (_GRAMMAR & set(other.words))),
            bool(
                kinds != others
                and (kinds | others) & question_type.NARROW
                and (kinds ^ others) & question_type.NARROW
            ),
            (1 - left.nearest) * replaced,
            compare_content(one, other).unmatched,
            names.has_extra_name(one, other),
            not (left.mine or left.theirs),
        ],
        np.float32,
    )


def content_remainder(one: ParsedText, other: ParsedText, words: WordVectors) -> ContentRemainder:
    """Content by stems; what is spelt alike is the same, what means alike counts in part."""
    mine = dict(zip(one.content, one.content_words, strict=True))
    theirs = dict(zip(other.content, other.content_words, strict=True))
    only_mine = {
        s: w for s, w in mine.items() if s not in theirs and not any(is_spelt_alike(s, t) for t in theirs)
    }
    only_theirs = {
        s: w for s, w in theirs.items() if s not in mine and not any(is_spelt_alike(s, t) for t in mine)
    }
    shared = sum(words.word_rarity(w) for s, w in mine.items() if s not in only_mine)
    if not only_mine and not only_theirs:
        return ContentRemainder(shared, (), (), 1.0)
    nearest_mine = _nearest_words(list(only_mine.values()), list(theirs.values()), words)
    nearest_theirs = _nearest_words(list(only_theirs.values()), list(mine.values()), words)
    return ContentRemainder(
        shared,
        tuple((w, words.word_rarity(w) * (1 - near)) for w, near in nearest_mine),
        tuple((w, words.word_rarity(w) * (1 - near)) for w, near in nearest_theirs),
        min(near for _, near in nearest_mine + nearest_theirs),
    )


def _nearest_words(left: list[str], among: list[str], words: WordVectors) -> list[tuple[str, float]]:
    if not left:
        return []
    if not among:
        return [(word, 0.0) for word in left]
    return list(zip(left, words.word_cosines(left, among).max(axis=1).tolist(), strict=True))


def _alike_at(one: ParsedText, other: ParsedText, at: int, words: WordVectors) -> float:
    if not (one.content and other.content):
        return float(one.content == other.content)
    if one.content[at] == other.content[at]:
        return 1.0
    return float(words.word_cosines([one.content_words[at]], [other.content_words[at]])[0, 0])


def _mark_values(text: ParsedText, marks: dict[str, int]) -> set[int]:
    return {marks[word] for word in text.words if word in marks}


def _character_ngrams(text: ParsedText) -> set[str]:
    joined = " " + " ".join(text.words) + " "
    return {joined[at : at + 3] for at in range(len(joined) - 2)}


def _dice_coefficient(one: AbstractSet[object], other: AbstractSet[object]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 1.0

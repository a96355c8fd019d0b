"""A pair of Chinese questions as numbers, for the head that weighs them. Symmetric in the two."""

from difflib import Match, SequenceMatcher

import numpy as np

from radixway.semantics.cache.verifier import chinese_rules
from radixway.semantics.cache.verifier.pair_features import Floats, WordVectors

NAMES = (
    "cosine",  # of hashed characters and pairs
    "characters",  # Dice's measure of characters, by rarity
    "pairs",  # of pairs of neighbouring characters
    "left_most",  # characters that only one text has, by rarity: on the side that has more of them
    "left_least",  # and on the other
    "longest",  # share of the longest run that both have in the shorter text
    "in_order",  # share of matching runs in both
    "asks_apart",
    "asks_narrower",  # one asks why, when, how or how many, the other what
    "length_ratio",
    "length_least",
    "nothing_left",  # both have the same characters
    "replaced",  # one word stands for another in the same frame
)


_NARROW = frozenset(("why", "when", "how", "count"))
_MAX_WORD_CHARS = 4


def chinese_pair_features(one: str, other: str, cosine: float, words: WordVectors) -> Floats:
    """[len(NAMES)]"""
    mine, theirs = chinese_rules.strip_filler(one), chinese_rules.strip_filler(other)
    mine, theirs = min(mine, theirs), max(mine, theirs)  # matching runs depend on which comes first
    left = sorted(_total_rarity(set(a) - set(b), words) for a, b in ((mine, theirs), (theirs, mine)))
    shared = _total_rarity(set(mine) & set(theirs), words)
    runs = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
    sizes = sorted((len(mine), len(theirs)))
    pairs, others = _character_pairs(mine), _character_pairs(theirs)
    kind, other_kind = chinese_rules.question_kind(one), chinese_rules.question_kind(other)
    return np.array(
        [
            cosine,
            2 * shared / max(2 * shared + sum(left), 1e-9),
            2 * len(pairs & others) / max(len(pairs) + len(others), 1),
            left[1],
            left[0],
            max(run.size for run in runs) / max(sizes[0], 1),
            2 * sum(run.size for run in runs) / max(sum(sizes), 1),
            chinese_rules.are_kinds_apart(kind, other_kind),
            bool({kind, other_kind} & _NARROW)
            and kind != other_kind
            and not chinese_rules.are_kinds_apart(kind, other_kind),
            sizes[0] / max(sizes[1], 1),
            min(sizes[0], 20),
            left[1] == 0,
            _is_replaced(runs, mine, theirs),
        ],
        np.float32,
    )


def _is_replaced(runs: list[Match], one: str, other: str) -> bool:
    """Return whether all but one run of characters agree in order."""
    at = there = gaps = 0
    for run in runs:
        gap, gap_there = run.a - at, run.b - there
        if gap and gap_there:
            gaps += 1
        if bool(gap) != bool(gap_there) or max(gap, gap_there) > _MAX_WORD_CHARS:
            return False
        at, there = run.a + run.size, run.b + run.size
    return gaps == 1 and one != other


def _total_rarity(characters: set[str], words: WordVectors) -> float:
    return sum(words.word_rarity(character) for character in characters)


def _character_pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}

"""A text as the words it is compared by: bare of endings, without those that every query has."""

from __future__ import annotations

import re
from collections import Counter

from radixway.semantic.signals.text import normalize_text

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_.\-/&:]+")
_COMMON = frozenset(
    """
    a about all also an and any are as at be by can could d did do does find for from get give had has
    have he help her his how i if in into is it its like ll m me more my need no not of on or our please
    re s she some t tell that the their them there these they this those to us ve want was we what when
    where which who will with would you your
    """.split()  # noqa: SIM905 - ninety literals are no easier to read
)


def split_name(name: str) -> str:
    """`get_stockPrice` as `get stock Price`."""
    return " ".join(_JOINT.sub(" ", name).split())


def count_words(text: str) -> Counter[str]:
    """How often each word comes; of Chinese and Japanese each character and each pair of them."""
    found: Counter[str] = Counter()
    for word in _WORD.findall(normalize_text(text).lower()):
        if not word.isascii() and (runs := _HAN.findall(word)):
            for run in runs:
                found.update(run)
                found.update(run[at : at + 2] for at in range(len(run) - 1))
        elif word not in _COMMON:
            found[_strip_ending(word)] += 1
    return found


def _strip_ending(word: str) -> str:
    """An English word without its commonest endings."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 5 and word.endswith("ing"):
        word = word[:-3]
    elif len(word) > 4 and word.endswith("ed"):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word

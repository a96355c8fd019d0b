"""Words the rules know: filler that asks but says nothing, words of one meaning, words of opposite meaning.

The lists are data: `bundled/semantic_cache/english.toml`.
"""

from __future__ import annotations

import re

from radixway.bundled import read_toml
from radixway.semantics.cache.verifier.stems import strip_ending

_DATA = read_toml("semantic_cache/english.toml")
FILLER = frozenset(_DATA["filler"].split())
LANGUAGES = frozenset(_DATA["languages"].split())

NUMERALS = {
    word: str(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
    )
    if word != "one"
}
"""`one` is more often no number."""

ALIASES = tuple((re.compile(pattern), name) for pattern, name in _DATA["aliases"])


def _name_of_each() -> dict[str, str]:
    """By word and by stem, the stem of the first word of its line in `synonyms` or `demonyms`."""
    names: dict[str, str] = {}
    for words in filter(None, map(str.split, (_DATA["synonyms"] + _DATA["demonyms"]).splitlines())):
        name = names.get(words[0], strip_ending(words[0]))
        for word in words:
            names.setdefault(word, name)
            names.setdefault(strip_ending(word), name)
    return names


SYNONYMS = _name_of_each()
"""What a word is called when it is compared."""


def _opposite_pairs() -> frozenset[tuple[str, str]]:
    pairs = set()
    for line in _DATA["opposites"].splitlines():
        one, other = (
            SYNONYMS.get(word) or SYNONYMS.get(strip_ending(word), strip_ending(word))
            for word in line.split()
        )
        if one != other:
            pairs |= {(one, other), (other, one)}
    return frozenset(pairs)


OPPOSITES = _opposite_pairs()
"""Stems of opposite meaning, each pair both ways round."""

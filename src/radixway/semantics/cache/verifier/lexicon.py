"""English words the rules know, from `bundled/semantic_cache/english.toml`, and words without their endings."""

import re

from radixway.bundled import read_toml

_ENDINGS = (
    ("ization", "iz"), ("isation", "iz"), ("ational", "at"), ("fulness", "ful"), ("iveness", "iv"), ("ousness", "ous"),
    ("ising", "iz"), ("ised", "iz"), ("ise", "iz"), ("izing", "iz"), ("ized", "iz"), ("ize", "iz"),
    ("ations", "at"), ("ation", "at"), ("ating", "at"), ("ated", "at"), ("ates", "at"), ("ate", "at"),
    ("ements", ""), ("ement", ""), ("ments", ""), ("ment", ""), ("ingly", ""), ("iest", ""), ("ies", ""),
    ("ied", ""), ("ings", ""), ("ing", ""), ("edly", ""), ("eed", "ee"), ("ed", ""), ("ers", ""), ("er", ""),
    ("est", ""), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("ously", "ous"),
    ("fully", "ful"), ("ably", "abl"), ("ally", "al"), ("ly", ""), ("es", ""), ("ss", "ss"), ("us", "us"),
    ("is", "is"), ("s", ""),
)  # fmt: skip


def strip_ending(word: str) -> str:
    """A word without its English ending. Crude on purpose: what comes out is only compared with its like."""
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sle":
        word = word[:-1]  # running, run
    return word[:-1] if len(word) > 3 and word[-1] in "ey" else word


ENGLISH = read_toml("semantic_cache/english.toml")
FILLER = frozenset(ENGLISH["filler"].split())
LANGUAGES = frozenset(ENGLISH["languages"].split())

NUMERALS = {
    word: str(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
    )
    if word != "one"
}
"""`one` is more often no number."""

ALIASES = tuple((re.compile(pattern), name) for pattern, name in ENGLISH["aliases"])


def _name_of_each() -> dict[str, str]:
    """Return, by word and stem, the stem of the first word of its line in `synonyms` or `demonyms`."""
    names: dict[str, str] = {}
    for words in filter(None, map(str.split, (ENGLISH["synonyms"] + ENGLISH["demonyms"]).splitlines())):
        name = names.get(words[0], strip_ending(words[0]))
        for word in words:
            names.setdefault(word, name)
            names.setdefault(strip_ending(word), name)
    return names


SYNONYMS = _name_of_each()
"""What a word is called when it is compared."""


def _opposite_pairs() -> frozenset[tuple[str, str]]:
    pairs = set()
    for line in ENGLISH["opposites"].splitlines():
        one, other = (
            SYNONYMS.get(word) or SYNONYMS.get(strip_ending(word), strip_ending(word))
            for word in line.split()
        )
        if one != other:
            pairs |= {(one, other), (other, one)}
    return frozenset(pairs)


OPPOSITES = _opposite_pairs()
"""Stems of opposite meaning, each pair both ways round."""

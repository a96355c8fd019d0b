"""Rules over words: each tells whether two texts ask for different things, however near their words are.

- opposites and limits: `first` and `last`, `safe` and `unsafe`, `must` and `can`
- negation: a question and its denial have the same words but one
- frames: the same sentence with one word replaced
- code: identifiers, paths, flags and versions are compared to the letter
- direction: the same words with other parts to play, `from London to Paris` and `from Paris to London`
"""

import re
from difflib import SequenceMatcher
from functools import lru_cache

from radixway.semantics.cache.verifier.lexicon import OPPOSITES, strip_ending
from radixway.semantics.cache.verifier.parsed_text import ParsedText, is_spelt_alike


def opposites_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether a word of the one text stands as its opposite in the other."""
    mine = {*one.stems, *one.words, *map(strip_ending, one.words)}
    theirs = {*other.stems, *other.words, *map(strip_ending, other.words)}
    only_mine, only_theirs = mine - theirs, theirs - mine
    if _covers_half(mine, only_mine) or _covers_half(theirs, only_theirs):
        return True
    return any((word, opposite) in OPPOSITES for word in only_mine for opposite in only_theirs)


def _covers_half(words: set[str], only: set[str]) -> bool:
    """Return whether one text covers both sides and the other one: `pros and cons` and `pros`."""
    return any((word, opposite) in OPPOSITES for word in only for opposite in words)


_NEGATIONS = frozenset(
    "no not never none neither nor without cannot nobody nothing nowhere except unless lack avoid refuse fail prevent"
    " fails failed failing avoiding prevents preventing hardly barely excluding exclude instead".split()
)
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "non-", "mis", "de", "anti", "anti-")


def negations_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether one text denies what the other does not."""
    if _count_negations(one) % 2 != _count_negations(other) % 2:
        return True
    return _is_denied(one, other) or _is_denied(other, one)


def _count_negations(text: ParsedText) -> int:
    return sum(word in _NEGATIONS for word in text.words)


def _is_denied(one: ParsedText, other: ParsedText) -> bool:
    """Return whether a word stands with a negating prefix in the other text: usual, unusual."""
    plain = set(one.words) - set(other.words)
    for word in set(other.words) - set(one.words):
        for prefix in _PREFIXES:
            if word.startswith(prefix) and len(word) - len(prefix) >= 3 and word[len(prefix) :] in plain:
                return True
    return False


def frames_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether all content is the same, in the same order, but for one word that is another one there.

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


_IDENTIFIER = re.compile(
    r"""
    ```.*?```                                    # a block
    | `[^`]+`
    | (?<!\S)--?[A-Za-z][\w-]*                   # a flag
    | \b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\(        # a call
    | \b\w+_\w+\b                                # snake_case
    | \b[a-z]+[A-Z]\w*                           # camelCase
    | \b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\b        # dotted.name, file.ext
    | \b[A-Za-z][A-Za-z+#.]*\s?\d+(?:\.\d+)+\b   # a version: Python 3.11
    | (?<![\w/])(?:~|\.{1,2})?/[\w./-]+          # a path
    | \b0x[0-9a-f]+\b
    | [<>=!]=|&&|\|\||->|::|\+\+
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACES = re.compile(r"\s+")
_NOT_CODE = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "u.k", "ph.d", "vs.", "etc."})


def identifiers_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether one text has an identifier, a path, a flag or a version that the other does not have."""
    return _identifiers(one.raw) != _identifiers(other.raw)


@lru_cache(maxsize=4096)
def _identifiers(raw: str) -> frozenset[str]:
    found = {_SPACES.sub("", match.group()).strip("`(") for match in _IDENTIFIER.finditer(raw)}
    return frozenset(name for name in found if name and name.lower() not in _NOT_CODE)


_FROM, _TO = "from", "to"
_PARTS = {
    "from": _FROM, "to": _TO, "into": _TO, "onto": _TO, "towards": _TO, "toward": _TO, "than": _TO,
    "before": _TO, "after": _FROM, "by": "by", "over": _TO, "against": _TO, "without": "without", "via": "via",
    "under": _TO, "above": _TO, "below": _TO, "behind": _TO, "as": _TO, "causes": _TO, "cause": _TO, "for": "for",
    "in": "in", "minus": _TO, "divided": _TO, "implies": _TO, "using": "via", "with": "via",
}  # fmt: skip
"""Prepositions, and the role that they give a word."""
_SYMMETRIC = frozenset(
    "and or vs versus between difference differences compare comparison compared both similar equal same plus times relation relationship".split()
)
_REACH = 4
"""Words that a preposition reaches."""


def directions_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether words that both texts have play opposite parts in them."""
    mine, theirs = _word_roles(one), _word_roles(other)
    for stem in mine.keys() & theirs.keys():
        if {mine[stem], theirs[stem]} == {_FROM, _TO}:
            return True
    return _is_reversed(one, other)


def _word_roles(text: ParsedText) -> dict[str, str]:
    """Return, by stem of a content word, the role from the nearest preposition before it."""
    parts: dict[str, str] = {}
    content = set(text.content)
    part, reach = None, 0
    for word, stem in zip(text.words, text.stems, strict=True):
        if word in _PARTS:
            part, reach = _PARTS[word], _REACH
        elif part is not None:
            if stem in content:
                parts[stem] = part
                part = None
            else:
                reach -= 1
                part = part if reach else None
    return parts


def _is_reversed(one: ParsedText, other: ParsedText) -> bool:
    """Return whether two shared words change places around a word that makes their order meaningful."""
    if _SYMMETRIC & (set(one.words) | set(other.words)):
        return False
    mine, theirs = _first_positions(one), _first_positions(other)
    shared = [stem for stem in mine if stem in theirs]
    same_words = sorted(one.stems) == sorted(other.stems)
    for at, first in enumerate(shared):
        for second in shared[at + 1 :]:
            if theirs[first] < theirs[second]:
                continue
            if same_words and not _is_rotated(one, other):
                return True
            ours = _words_between(one, mine[first], mine[second])
            if ours & _words_between(other, theirs[second], theirs[first]):
                return True
    return False


def _first_positions(text: ParsedText) -> dict[str, int]:
    content = set(text.content)
    places: dict[str, int] = {}
    for at, stem in enumerate(text.stems):
        if stem in content:
            places.setdefault(stem, at)
    return places


def _words_between(text: ParsedText, start: int, end: int) -> set[str]:
    return {_PARTS[word] for word in text.words[start + 1 : end] if word in _PARTS}


def _is_rotated(one: ParsedText, other: ParsedText) -> bool:
    """Return whether clauses are rotated: `in Python, how do I sort` and `how do I sort in Python`."""
    doubled = one.stems + one.stems
    size = len(other.stems)
    return any(doubled[at : at + size] == other.stems for at in range(size))

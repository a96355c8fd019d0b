"""Direction: the same words with other parts to play, `from London to Paris` and `from Paris to London`."""

from __future__ import annotations

from radixway.semantics.cache.verifier.parsed_text import ParsedText

_FROM, _TO = "from", "to"
_PARTS = {
    "from": _FROM, "to": _TO, "into": _TO, "onto": _TO, "towards": _TO, "toward": _TO, "than": _TO,
    "before": _TO, "after": _FROM, "by": "by", "over": _TO, "against": _TO, "without": "without", "via": "via",
    "under": _TO, "above": _TO, "below": _TO, "behind": _TO, "as": _TO, "causes": _TO, "cause": _TO, "for": "for",
    "in": "in", "minus": _TO, "divided": _TO, "implies": _TO, "using": "via", "with": "via",
}  # fmt: skip
"""Words after which a word plays a part, and which."""
_SYMMETRIC = frozenset(
    "and or vs versus between difference differences compare comparison compared both similar equal same plus times relation relationship".split()
)
_REACH = 4
"""Words up to which a preposition is about what follows."""


def directions_differ(one: ParsedText, other: ParsedText) -> bool:
    """Whether words that both texts have play opposite parts in them."""
    mine, theirs = _word_roles(one), _word_roles(other)
    for stem in mine.keys() & theirs.keys():
        if {mine[stem], theirs[stem]} == {_FROM, _TO}:
            return True
    return _is_reversed(one, other)


def _word_roles(text: ParsedText) -> dict[str, str]:
    """By stem of a content word, the part that the nearest preposition before it gives it."""
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
    """Two shared words have changed places around a word that gives their order a meaning."""
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
    """Where each content word stands first, in order."""
    content = set(text.content)
    places: dict[str, int] = {}
    for at, stem in enumerate(text.stems):
        if stem in content:
            places.setdefault(stem, at)
    return places


def _words_between(text: ParsedText, start: int, end: int) -> set[str]:
    return {_PARTS[word] for word in text.words[start + 1 : end] if word in _PARTS}


def _is_rotated(one: ParsedText, other: ParsedText) -> bool:
    """The same clauses in another order: `in Python, how do I sort` and `how do I sort in Python`."""
    doubled = one.stems + one.stems
    size = len(other.stems)
    return any(doubled[at : at + size] == other.stems for at in range(size))

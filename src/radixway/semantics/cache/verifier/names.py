"""Names: people, places, products, abbreviations, languages. Another name is another question."""

import re
from functools import lru_cache

from radixway.semantics.cache.verifier.lexicon import LANGUAGES, SYNONYMS, strip_ending
from radixway.semantics.cache.verifier.parsed_text import ParsedText, is_spelt_alike

_CAPITALISED = re.compile(r"(?<![\w'’])(?:[A-Z][\w’'-]*[^\W_]|[A-Z])")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n(\"“'•-]\s*|\d\.\s)$")
_COUNTRIES = (
    (re.compile(r"\bUnited States(?: of America)?\b|\bU\.S\.A?\.?|\bUS\b"), "USA"),
    (re.compile(r"\bUnited Kingdom\b|\bGreat Britain\b|\bU\.K\.?"), "UK"),
)
_TITLES = frozenset("mr mrs ms dr prof sir president prime minister chief king queen senator".split())
_ROMAN = re.compile(r"[IVX]+")
_COMMON_CAPITALS = frozenset(
    "i a an the is are what who how why when where which do does can should ok faq".split()
)


def names_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether each text has a name that the other has not: one stands for another."""
    mine, theirs = _languages(one), _languages(other)
    places = {*one.words, *other.words}
    apart = {name for name in mine ^ theirs if SYNONYMS.get(name) not in places}
    return bool(apart) or (_is_missing_name(one, other) and _is_missing_name(other, one))


def has_extra_name(one: ParsedText, other: ParsedText) -> bool:
    """Return whether one text has a name that the other has not, be it in place of one or not."""
    return _is_missing_name(one, other) or _is_missing_name(other, one)


def _languages(text: ParsedText) -> frozenset[str]:
    return LANGUAGES.intersection(text.words) - {"go", "word", "c", "r"}


def _is_missing_name(one: ParsedText, other: ParsedText) -> bool:
    words = {*other.words, *other.stems, *(strip_ending(word) for word in other.words)}
    joined = "".join(other.words)
    initials = "".join(word[0] for word in other.words)
    for name in _proper_names(one.raw):
        lower = name.lower()
        if (
            lower in words
            or lower in _TITLES
            or strip_ending(lower) in words
            or any(stem in words for word, stem in zip(one.words, one.stems, strict=True) if word == lower)
        ):
            continue
        if (
            len(lower) >= 3
            and not _ROMAN.fullmatch(name)
            and (lower.replace("-", "") in joined or (name.isupper() and lower in initials))
        ):
            continue
        if _spelt_out(one, other, lower) or any(is_spelt_alike(lower, word) for word in other.words):
            continue
        return True
    return False


@lru_cache(maxsize=4096)
def _proper_names(raw: str) -> tuple[str, ...]:
    """Return capitalised words that do not only begin sentences."""
    letters = [c for c in raw if c.isalpha()]
    if sum(map(str.isupper, letters)) > 0.6 * len(letters):
        return ()  # everything is in capitals
    found = []
    for pattern, name in _COUNTRIES:
        raw = pattern.sub(name, raw)
    for match in _CAPITALISED.finditer(raw):
        name = match.group().removesuffix("'s").removesuffix("’s")
        if name.lower() in _COMMON_CAPITALS:
            continue
        starts = _SENTENCE_START.search(raw[: match.start()].rstrip(" ") or "")
        if starts and not (name.isupper() and len(name) > 1):
            continue
        found += [part for part in re.split(r"[-’']", name) if len(part) > 1 or name.isupper()]
    return tuple(found)


def _spelt_out(one: ParsedText, other: ParsedText, name: str) -> bool:
    """Return whether the other text abbreviates the words around the name."""
    if name not in one.words:
        return False
    at = one.words.index(name)
    for start in range(max(0, at - 3), at + 1):
        for end in range(max(start + 2, at + 1), min(len(one.words), start + 5) + 1):
            if "".join(word[0] for word in one.words[start:end]) in other.words:
                return True
    return False

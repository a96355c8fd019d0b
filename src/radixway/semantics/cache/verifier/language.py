"""Language: an answer is in the language of its question."""

import re
import unicodedata
from functools import lru_cache

from radixway.semantics.cache.verifier.parsed_text import ParsedText, parse_text

_FUNCTION_WORDS = {
    "es": frozenset("el la los las de que es en un una por para como qué cómo cuál dónde del con".split()),
    "fr": frozenset("le la les de des est un une que qui dans pour comment quel quelle où avec du".split()),
    "de": frozenset("der die das ist ein eine wie was wer wo und für mit von zu ich nicht den".split()),
    "it": frozenset("il lo gli di che è un una per come qual dove con del della".split()),
    "pt": frozenset("o os as de que é um uma por para como qual onde com do da não".split()),
    "en": frozenset("the is of a to in what how do i and for are can it my does you on with".split()),
}


_LETTER = re.compile(r"[^\W\d_]")
_NOT_LATIN = re.compile("[^\\W\\d_A-Za-zªº²³¹¼-¾À-ɏḀ-ỿ]")


def is_latin(text: str) -> bool:
    """Return whether more than two thirds of the letters are Latin, or there are none."""
    if text.isascii():
        return True
    letters = len(_LETTER.findall(text))
    return not letters or 3 * len(_NOT_LATIN.findall(text)) < letters


def is_foreign(text: str) -> bool:
    """Return whether it is clearly not English: by its letters, or another language's function words."""
    return not is_latin(text) or _dominant_language(parse_text(text).words) not in (None, "en")


def languages_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether the texts are written in different scripts, or plainly in different languages."""
    if _scripts(one.raw) != _scripts(other.raw):
        return True
    mine, theirs = _dominant_language(one.words), _dominant_language(other.words)
    return mine is not None and theirs is not None and mine != theirs


@lru_cache(maxsize=4096)
def _scripts(raw: str) -> frozenset[str]:
    """Return the scripts of at least a fifth of the letters."""
    counts: dict[str, int] = {}
    for letter in raw:
        if letter.isalpha():
            script = "LATIN" if letter.isascii() else unicodedata.name(letter, "?").split()[0]
            counts[script] = counts.get(script, 0) + 1
    total = sum(counts.values())
    return frozenset(script for script, count in counts.items() if 5 * count >= total)


def _dominant_language(words: tuple[str, ...]) -> str | None:
    """Return the language whose function words clearly prevail."""
    known = {name: sum(word in theirs for word in words) for name, theirs in _FUNCTION_WORDS.items()}
    best = max(known, key=lambda name: known[name])
    others = max(count for name, count in known.items() if name != best)
    return best if known[best] >= 2 and known[best] > others + 1 else None

"""Numbers and their units: other quantities are another question."""

import re
from functools import lru_cache

from radixway.semantics.cache.verifier.lexicon import ENGLISH
from radixway.semantics.cache.verifier.parsed_text import ParsedText

_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: float(value) for value, word in enumerate(_SMALL)} | {
    word: 10.0 * (value + 2) for value, word in enumerate(_TENS)
}
_ORDINALS = {
    "third": 3.0, "fourth": 4.0, "fifth": 5.0, "sixth": 6.0, "seventh": 7.0, "eighth": 8.0, "ninth": 9.0,
    "tenth": 10.0, "twice": 2.0, "double": 2.0, "triple": 3.0, "dozen": 12.0, "half": 0.5,
}  # fmt: skip
_SCALES = {
    "hundred": 1e2,
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "lakh": 1e5,
    "crore": 1e7,
}
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th)?(?![\d])|[a-z]+", re.I)
_ARITHMETIC = re.compile(
    r"\d\s*([-−/÷^]|minus|divided)\s*(?:by\s*)?\d|\d\s*(?:to the power of|mod)\s*\d", re.I
)
_JOINED = re.compile(r"(?<=\d)(?=[a-zA-Z°%])|(?<=[a-zA-Z$€£¥×*+÷=^(])(?=\d)")

_OPERATOR = re.compile(
    r"(?<=[\w)])\s*([+*/^×÷−-])\s*(?=[\d(])(?<![a-z]{2}-)|(?<=[\w)]) (plus|minus|times|multiplied by|divided by|x|over|mod|to the power of) (?=[\w(])"
)
_SPELLINGS = {"plus": "+", "minus": "-", "−": "-", "times": "*", "×": "*", "x": "*", "multiplied by": "*",
              "divided by": "/", "over": "/", "÷": "/", "to the power of": "^"}  # fmt: skip
_ROMAN = re.compile(r"\b(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3})\b")
_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10}

_UNITS = {name: unit for unit, names in ENGLISH["units"].items() for name in names.split()}

_BARE_UNITS = frozenset(
    {"km", "mi", "c", "f", "kelvin", "usd", "eur", "gbp", "inr", "jpy", "cny", "kg", "lb", "gal", "l", "cm"}
)
"""Units that matter without a number; single letters do not."""


def numbers_differ(one: ParsedText, other: ParsedText) -> bool:
    """Return whether the texts speak of other quantities, or of the same in another unit."""
    mine, theirs = _number_values(one.raw), _number_values(other.raw)
    if sorted(mine) != sorted(theirs):
        return True
    if mine != theirs and (_ARITHMETIC.search(one.raw) or _ARITHMETIC.search(other.raw)):
        return True
    if _operators(one.raw) != _operators(other.raw):
        return True
    return _units(one) != _units(other)


@lru_cache(maxsize=4096)
def _number_values(raw: str) -> tuple[float, ...]:
    """Return all numbers in order, without `one` and `first`, which are rarely quantities."""
    text = _JOINED.sub(" ", raw.lower())
    values = _roman_values(raw)
    last = ""
    for found in _NUMBER.finditer(text):
        token = found.group()
        if token[0] in "-−" or token[0].isdigit():
            digits = token.lstrip("-−").rstrip("stndrh").replace(",", "")
            value = float(digits)
            values.append(-value if token[0] in "-−" and _is_sign(text, found.start()) else value)
        elif token in _SCALES and values and last == "number":
            values[-1] *= _SCALES[token]
            continue
        elif token in _WORDS and token != "one":
            if last == "tens" and _WORDS[token] < 10:
                values[-1] += _WORDS[token]
            else:
                values.append(_WORDS[token])
        elif token in _ORDINALS:
            values.append(_ORDINALS[token])
        else:
            last = ""
            continue
        last = "tens" if token in _TENS else "number"
    return tuple(values)


@lru_cache(maxsize=4096)
def _operators(raw: str) -> tuple[str, ...]:
    """Return operators in any spelling, between operands of a formula."""
    found = (match.group(1) or match.group(2) for match in _OPERATOR.finditer(raw.lower()))
    return tuple(sorted(_SPELLINGS.get(name.strip(), name.strip()) for name in found))


def _roman_values(raw: str) -> list[float]:
    """Return Roman numerals of two or more capitals: `Henry VIII`, `World War II`."""
    values = []
    for word in filter(None, _ROMAN.findall(raw)):
        digits = [_ROMAN_DIGITS[c] for c in word]
        pairs = zip(digits, [*digits[1:], 0], strict=True)
        values.append(float(sum(-one if one < after else one for one, after in pairs)))
    return values


def _is_sign(text: str, at: int) -> bool:
    """Return whether a dash is a sign: between two numbers it is not."""
    before = text[:at].rstrip()
    return not before or not (before[-1].isdigit() or before[-1] in ")%")


def _units(text: ParsedText) -> set[str]:
    words = [part for word in text.words for part in _JOINED.sub(" ", word.replace("-", " ")).split()]
    found = set()
    for at, word in enumerate(words):
        unit = _UNITS.get(word)
        if unit is None:
            continue
        after_number = at > 0 and (words[at - 1][0].isdigit() or words[at - 1] in _WORDS)
        before_number = word in "$€£¥" and at + 1 < len(words)
        if after_number or before_number or (unit in _BARE_UNITS and len(word) > 1):
            found.add(unit)
    return found

"""AGE, in the forms that are nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.dates import is_within_number
from radixway.semantics.guard.pii.recognisers.plain_text import PlainText, Recogniser, follows_letter


def _compile_form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_AGE = r"(1[01][0-9]|[1-9]?[0-9])"
_AGE_FIRST = _compile_form(
    rf"{_AGE}(?:[ \-](?:years?|yrs?)[ \-](?:olds?|of age)(?![a-z])| ?(?:y/o|y\.o\.|yo)(?![a-z])| ?周?岁)"
)
_AGE_LAST = _compile_form(r"(?:(?<![a-z])aged? ?(?:of |is |was |[:=] ?)?|年龄(?:是|为|:)? ?)$")
_AGE_LAST_WINDOW = 12
_TURNED = _compile_form(r"(?<![a-z])turn(?:s|ed|ing)? $")
_AFTER_TURNED = re.compile(r"[.,;!?\n]|$| (?:years|this|next|last|on|in|today|yesterday)")
_OLDEST = 119
_IS = _compile_form(r"(?<![a-z])(?:i'm|i am|(?:he|she)(?:'s| is)|who is|just turned) $")
_AFTER_IS = _compile_form(
    r"[.!?\n]|$|[,;] (?![0-9])"
    r"| and (?:i|my|he|she|his|her|work|live|have|has|am|is|was)(?![a-z])| now(?![a-z])"
)
_FEWEST_DIGITS_OF_IS = 2

_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_IN_WORDS = _compile_form(
    rf"(?<![a-z])((?:{_TENS})(?:[ \-](?:{_ONES}))?|{_TEENS}|{_ONES})"
    r"[ \-](?:years?|yrs?)[ \-](?:olds?|of age)(?![a-z])"
)
_IN_CHINESE_WORDS = re.compile(r"([一二两三四五六七八九十百]{1,5})(?:多|来)?周?岁")


def find_ages(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """The number alone, in digits up to 119 or in words, from 0.75 by what is said with it."""
    yield from _in_words(reading.text)
    text = reading.text
    for begin, end in reading.runs:
        if end - begin > len(str(_OLDEST)) or int(text[begin:end]) > _OLDEST or is_within_number(text, begin):
            continue
        if _AGE_FIRST.match(text, begin) and not follows_letter(text, begin):
            yield PersonalDataSpan("AGE", begin, end, 0.9)
        elif _is_quantity(text, end):
            continue
        elif _AGE_LAST.search(text, max(0, begin - _AGE_LAST_WINDOW), begin):
            yield PersonalDataSpan("AGE", begin, end, 0.85)
        elif _is_said_of_somebody(text, begin, end) or (
            _TURNED.search(text, max(0, begin - _AGE_LAST_WINDOW), begin) and _AFTER_TURNED.match(text, end)
        ):
            yield PersonalDataSpan("AGE", begin, end, 0.75)


def _is_quantity(text: str, end: int) -> bool:
    """Whether `text[:end]` ends within a number, or one of percents."""
    return text[end : end + 1] == "%" or (
        text[end : end + 1] in (".", ",") and text[end + 1 : end + 2].isdigit()
    )


def _is_said_of_somebody(text: str, begin: int, end: int) -> bool:
    if end - begin < _FEWEST_DIGITS_OF_IS or not _AFTER_IS.match(text, end):
        return False
    return _IS.search(text, max(0, begin - _AGE_LAST_WINDOW), begin) is not None


def _in_words(text: str) -> Iterator[PersonalDataSpan]:
    for word, pattern in (("year", _IN_WORDS), ("岁", _IN_CHINESE_WORDS)):
        for match in pattern.finditer(text) if word in text else ():
            yield PersonalDataSpan("AGE", match.start(1), match.end(1), 0.9)


RECOGNISERS = (Recogniser(("AGE",), find_ages, fewest_digits=0),)

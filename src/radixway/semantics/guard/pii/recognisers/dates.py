"""DATE_TIME, in the forms that are nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.plain_text import PlainText, Recogniser, follows_letter

_MONTHS = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_YEAR = r"(?:1[5-9]|20)[0-9]{2}"
_MONTH = r"(?:0?[1-9]|1[0-2])"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
_NTH = rf"{_DAY}(?:st|nd|rd|th)?"
_CLOCK = r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_HALF = r"(?:[ap]\.m\.|[ap]m(?![a-z]))"
_END = r"(?![0-9])(?![.\-/][0-9])"


def _compile_form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# Those of digits begin at a run of them, and all are of bounded length.
_NUMERIC = (
    (_compile_form(rf"{_YEAR}([\-/.]){_MONTH}\1{_DAY}(?:{_END}|(?=T[0-9]))"), 0.85),
    (_compile_form(rf"(?:{_MONTH}([\-/.]){_DAY}|{_DAY}([\-/.]){_MONTH})(?:\1|\2){_YEAR}{_END}"), 0.85),
    (_compile_form(rf"(?:{_MONTH}/{_DAY}|{_DAY}/{_MONTH})/[0-9]{{2}}{_END}"), 0.7),
)
_DAY_FIRST = (
    (_compile_form(rf"{_NTH}(?: of)? {_MONTHS},? {_YEAR}{_END}"), 0.85),
    (_compile_form(rf"{_NTH}(?: of)? {_MONTHS}(?![A-Za-z])"), 0.75),
)
_MONTH_FIRST = (
    (_compile_form(rf"{_MONTHS} {_NTH},? {_YEAR}{_END}"), 0.85),
    (_compile_form(rf"{_MONTHS},? {_YEAR}{_END}"), 0.75),
    (_compile_form(rf"{_MONTHS} {_NTH}(?![0-9A-Za-z])(?![.,][0-9])"), 0.75),
)
_MONTH_BEFORE = _compile_form(rf"(?<![A-Za-z]){_MONTHS},? $")
_LONGEST_MONTH = len("September., ")
_CHINESE_DATE = re.compile(
    r"[0-9]{2,4} ?年 ?[0-9]{1,2} ?月(?: ?[0-9]{1,2} ?[日号])?|[0-9]{1,2} ?月 ?[0-9]{1,2} ?[日号]"
)
_TIME = _compile_form(rf"(?:{_CLOCK}|1[0-2]|0?[1-9]) ?{_HALF}|{_CLOCK}(?![0-9:])")
_THEN_TIME = _compile_form(rf"(?:T|,? (?:at )?){_CLOCK}(?: ?{_HALF}|Z)?")

_LONGEST_RUN = 4


def find_dates(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """A day with its year 0.85; without one, and a time with am or pm, 0.75; a time of 24 hours 0.5."""
    text = reading.text
    for begin, end in reading.runs:
        if end - begin > _LONGEST_RUN or follows_letter(text, begin) or is_within_number(text, begin):
            continue
        if found := _date(text, begin, text[end : end + 1], end - begin):
            first, last, confidence = found
            then = _THEN_TIME.match(text, last)
            yield PersonalDataSpan("DATE_TIME", first, then.end() if then else last, confidence)
        elif time := _TIME.match(text, begin):
            yield PersonalDataSpan("DATE_TIME", begin, time.end(), 0.5 if time[0][-1].isdigit() else 0.75)


def _date(text: str, begin: int, after: str, digits: int) -> tuple[int, int, float] | None:
    """Of the date that the run of `digits` from `begin` on begins or, after a month's name, goes on."""
    if after in ("-", "/", ".") and (found := _first(_NUMERIC, text, begin)):
        return found
    if after in (" ", "年", "月") and (chinese := _CHINESE_DATE.match(text, begin)):
        return begin, chinese.end(), 0.85 if "年" in chinese[0] else 0.75
    if month := _MONTH_BEFORE.search(text, max(0, begin - _LONGEST_MONTH), begin):
        return _first(_MONTH_FIRST, text, month.start())
    return _first(_DAY_FIRST, text, begin) if digits <= 2 and after.isascii() else None


def _first(
    forms: tuple[tuple[re.Pattern[str], float], ...], text: str, begin: int
) -> tuple[int, int, float] | None:
    for pattern, confidence in forms:
        if match := pattern.match(text, begin):
            return begin, match.end(), confidence
    return None


def is_within_number(text: str, begin: int) -> bool:
    """Return whether digits and a separator precede the digits at `begin` in `text`."""
    return begin > 1 and text[begin - 1] in ".-/:" and text[begin - 2].isdigit()


RECOGNISERS = (Recogniser(("DATE_TIME",), find_dates, fewest_digits=1),)

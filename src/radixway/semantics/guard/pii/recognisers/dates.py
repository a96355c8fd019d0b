"""DATE_TIME and AGE, in the forms that are nothing else."""

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
_MAX_MONTH_CHARS = len("September., ")
_CHINESE_DATE = re.compile(
    r"[0-9]{2,4} ?年 ?[0-9]{1,2} ?月(?: ?[0-9]{1,2} ?[日号])?|[0-9]{1,2} ?月 ?[0-9]{1,2} ?[日号]"
)
_TIME = _compile_form(rf"(?:{_CLOCK}|1[0-2]|0?[1-9]) ?{_HALF}|{_CLOCK}(?![0-9:])")
_THEN_TIME = _compile_form(rf"(?:T|,? (?:at )?){_CLOCK}(?: ?{_HALF}|Z)?")

_MAX_RUN_DIGITS = 4


def find_dates(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find DATE_TIME: a day with its year 0.85, without one 0.75; a time with am or pm 0.75, without 0.5."""
    text = reading.text
    for begin, end in reading.runs:
        if end - begin > _MAX_RUN_DIGITS or follows_letter(text, begin) or _is_within_number(text, begin):
            continue
        if found := _date(text, begin, text[end : end + 1], end - begin):
            first, last, confidence = found
            then = _THEN_TIME.match(text, last)
            yield PersonalDataSpan("DATE_TIME", first, then.end() if then else last, confidence)
        elif time := _TIME.match(text, begin):
            yield PersonalDataSpan("DATE_TIME", begin, time.end(), 0.5 if time[0][-1].isdigit() else 0.75)


def _date(text: str, begin: int, after: str, digits: int) -> tuple[int, int, float] | None:
    """Return the date that the run of `digits` from `begin` on begins or, after a month's name, goes on."""
    if after in ("-", "/", ".") and (found := _first(_NUMERIC, text, begin)):
        return found
    if after in (" ", "年", "月") and (chinese := _CHINESE_DATE.match(text, begin)):
        return begin, chinese.end(), 0.85 if "年" in chinese[0] else 0.75
    if month := _MONTH_BEFORE.search(text, max(0, begin - _MAX_MONTH_CHARS), begin):
        return _first(_MONTH_FIRST, text, month.start())
    return _first(_DAY_FIRST, text, begin) if digits <= 2 and after.isascii() else None


def _first(
    forms: tuple[tuple[re.Pattern[str], float], ...], text: str, begin: int
) -> tuple[int, int, float] | None:
    for pattern, confidence in forms:
        if match := pattern.match(text, begin):
            return begin, match.end(), confidence
    return None


def _is_within_number(text: str, begin: int) -> bool:
    """Return whether digits and a separator precede the digits at `begin` in `text`."""
    return begin > 1 and text[begin - 1] in ".-/:" and text[begin - 2].isdigit()


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
_MIN_DIGITS_AFTER_IS = 2

_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_IN_WORDS = _compile_form(
    rf"(?<![a-z])((?:{_TENS})(?:[ \-](?:{_ONES}))?|{_TEENS}|{_ONES})"
    r"[ \-](?:years?|yrs?)[ \-](?:olds?|of age)(?![a-z])"
)
_IN_CHINESE_WORDS = re.compile(r"([一二两三四五六七八九十百]{1,5})(?:多|来)?周?岁")


def find_ages(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find AGE: the number alone, in digits up to 119 or in words, from 0.75 by what is said with it."""
    text = reading.text
    yield from _in_words(text)
    for begin, end in reading.runs:
        if (
            end - begin > len(str(_OLDEST))
            or int(text[begin:end]) > _OLDEST
            or _is_within_number(text, begin)
        ):
            continue
        if _AGE_FIRST.match(text, begin) and not follows_letter(text, begin):
            yield PersonalDataSpan("AGE", begin, end, 0.9)
        elif _is_quantity(text, end):
            continue
        elif _AGE_LAST.search(text, max(0, begin - _AGE_LAST_WINDOW), begin):
            yield PersonalDataSpan("AGE", begin, end, 0.85)
        elif _is_stated_age(text, begin, end) or (
            _TURNED.search(text, max(0, begin - _AGE_LAST_WINDOW), begin) and _AFTER_TURNED.match(text, end)
        ):
            yield PersonalDataSpan("AGE", begin, end, 0.75)


def _is_quantity(text: str, end: int) -> bool:
    """Return whether `text[:end]` ends within a number, or one of percents."""
    return text[end : end + 1] == "%" or (
        text[end : end + 1] in (".", ",") and text[end + 1 : end + 2].isdigit()
    )


def _is_stated_age(text: str, begin: int, end: int) -> bool:
    if end - begin < _MIN_DIGITS_AFTER_IS or not _AFTER_IS.match(text, end):
        return False
    return _IS.search(text, max(0, begin - _AGE_LAST_WINDOW), begin) is not None


def _in_words(text: str) -> Iterator[PersonalDataSpan]:
    for word, pattern in (("year", _IN_WORDS), ("岁", _IN_CHINESE_WORDS)):
        for match in pattern.finditer(text) if word in text else ():
            yield PersonalDataSpan("AGE", match.start(1), match.end(1), 0.9)


RECOGNISERS = (
    Recogniser(("AGE",), find_ages, fewest_digits=0),
    Recogniser(("DATE_TIME",), find_dates, fewest_digits=1),
)

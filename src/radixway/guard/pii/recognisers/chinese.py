"""CN_ID_CARD: numbers of residents' identity cards (GB 11643)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from stdnum.cn import ric

from radixway.guard.pii.recognisers.context import ContextWords
from radixway.guard.pii.recognisers.reading import PlainText
from radixway.pipeline import PersonalDataSpan

_ID = re.compile(r"([1-8][0-9]{5})([ \-]?)((?:18|19|20)[0-9]{6})\2([0-9]{3}[0-9Xx])(?![0-9A-Za-z])")
_FIRST_LENGTHS = (6, 17, 18)
_OLD_LENGTH = 15
_ID_WORDS = ContextWords("id|identity|identification|resident|citizen", "身份证 身分证 证件 居民 证号 身份号")
_CODES = (
    "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83"
)
_PROVINCES = frozenset(_CODES.split())


def find_cn_ids(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """18 digits: 0.98 where the check digit agrees, of a province and with a birthday.

    15 digits, which no check digit ends: 0.4, and 0.85 beside a word for it.
    """
    text = reading.text
    for begin, end in reading.runs:
        if end - begin in _FIRST_LENGTHS and (match := _ID.match(text, begin)):
            number = (match[1] + match[3] + match[4]).upper()
            if _is_of_somebody(number[:2], number[6:14]) and number[-1] == ric.calc_check_digit(number):
                yield PersonalDataSpan("CN_ID_CARD", begin, match.end(), 0.98)
        if end - begin == _OLD_LENGTH and _is_of_somebody(
            text[begin : begin + 2], "19" + text[begin + 6 : end - 3]
        ):
            beside = _ID_WORDS.near(text, begin, end)
            yield PersonalDataSpan("CN_ID_CARD", begin, end, 0.85 if beside else 0.4)


def _is_of_somebody(province: str, born: str) -> bool:
    return province in _PROVINCES and _is_date(born)


def _is_date(digits: str) -> bool:
    try:
        date.fromisoformat(digits)
    except ValueError:
        return False
    return True

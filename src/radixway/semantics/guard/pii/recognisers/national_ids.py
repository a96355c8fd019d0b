"""US_SSN, US_DRIVER_LICENSE, and CN_ID_CARD: numbers of residents' identity cards (GB 11643)."""

import re
from collections.abc import Iterator
from datetime import date

from stdnum.cn import ric

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.plain_text import (
    ContextWords,
    PlainText,
    Recogniser,
    touches_letter,
)

# The Social Security Administration never gave out areas 000, 666 and above 899, group 00 and serial 0000.
_SSN = re.compile(
    r"(?<![0-9][.\-])(?!000|666|9)[0-9]{3}([ .\-]?)(?!00)[0-9]{2}\1(?!0000)[0-9]{4}"
    r"(?![0-9])(?![.\-][0-9])"
)
_SSN_WORDS = ContextWords(
    "ssn|social ?security(?: number| no| #)?|social|ss#|itin|tin|taxpayer|tax ?id",
    "社会安全号 社会保障号 社安号",
)
_ALONE = {"-": 0.8, " ": 0.5, ".": 0.4, "": 0.2}
_NEAR_WORD = {"-": 0.97, " ": 0.9, ".": 0.85, "": 0.85}


# As the states' motor vehicle offices number them; @: a letter, #: a digit.
_LICENSE_FORMS = (
    "@#{7,14}",  # 7: CA, NY; 8: AZ, HI, KY, MA, VA; 9: IN, MO, OK; 11: IL; 12: FL, MD, MI, MN; 13: WI; 14: NJ
    "@#{18}",  # NY, before
    "@#{5,6}",  # CO, NE, RI
    "@@#{3,7}",  # CO, OH, WV
    "@@#{6}@",  # ID
    "@#@#@",  # KS
    "###@@####",  # IA
    "@@@#{6}",  # ND
    "#{7}@",  # ME, VT
    "#{9}@",  # MO
    "##@@@#{5}",  # NH
    "@{1,7}[A-Z0-9*]{5,11}",  # WA
    "#{7,10}",  # most
    "#{12,14}",  # NV, SD, NC; MT
    "#{16}",  # NY, before
)
_LICENSE = re.compile("|".join(_LICENSE_FORMS).replace("@", "[A-Z]").replace("#", "[0-9]"), re.IGNORECASE)
_LICENSE_TOKEN = re.compile(
    r"(?<![A-Za-z0-9\-])"
    r"(?:[A-Z]{0,2}[0-9]{2,5}(?: [0-9]{2,5}){1,4}|[A-Z]{1,2} [0-9]{3,14}|[A-Za-z0-9][A-Za-z0-9\-]{5,24})"
    r"(?![A-Za-z0-9\-])"
)
_LICENSE_WORDS = ContextWords(
    r"driver'?s?'? ?licen[sc]e|drivers? lic|driving licen[sc]e|dl|dmv"
    r"|licen[sc]e (?:no|number|#|id)|(?:my|his|her|their|your|state) licen[sc]e",
    "驾照 驾驶证",
    before=45,
    after=20,
)
_ANY_LICENSE_WORD = ("licen", "driver", "dl ", "dl#", "dl:", "dmv", "驾")
_LICENSE_NUMBER_IS = re.compile(
    r"(?:licen[sc]e|dl)(?: (?:number|no|#|id)){0,2}\.?(?: is|[ :#]){0,4}$", re.IGNORECASE
)
_MIN_LICENSE_DIGITS = 4


def find_ssns(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find US_SSN: numbers that may have been given out, as nothing else can be checked.

    0.8 with hyphens, up to 0.5 otherwise; beside a word for it 0.97, and from 0.85.
    """
    text = reading.text
    for begin, end in reading.runs:
        match = _SSN.match(text, begin) if end - begin in (3, 9) else None
        if match is None or touches_letter(text, begin, match.end()):
            continue
        end = match.end()
        confidences = _NEAR_WORD if _SSN_WORDS.near(text, begin, end) else _ALONE
        yield PersonalDataSpan("US_SSN", begin, end, confidences[match[1]])


def find_licenses(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find US_DRIVER_LICENSE beside a word for it: in a state's form 0.85, another after it 0.75."""
    text = reading.text
    lower = text.lower()
    if not any(word in lower for word in _ANY_LICENSE_WORD):
        return
    for match in _LICENSE_TOKEN.finditer(text):
        begin, end = match.span()
        number = match[0].replace("-", "").replace(" ", "")
        if sum(map(str.isdigit, number)) < _MIN_LICENSE_DIGITS or not _LICENSE_WORDS.near(text, begin, end):
            continue
        if _LICENSE.fullmatch(number):
            yield PersonalDataSpan("US_DRIVER_LICENSE", begin, end, 0.85)
        elif _LICENSE_NUMBER_IS.search(text, max(0, begin - 30), begin):
            yield PersonalDataSpan("US_DRIVER_LICENSE", begin, end, 0.75)


_ID = re.compile(r"([1-8][0-9]{5})([ \-]?)((?:18|19|20)[0-9]{6})\2([0-9]{3}[0-9Xx])(?![0-9A-Za-z])")
_FIRST_LENGTHS = (6, 17, 18)
_OLD_LENGTH = 15
_ID_WORDS = ContextWords("id|identity|identification|resident|citizen", "身份证 身分证 证件 居民 证号 身份号")
_CODES = (
    "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83"
)
_PROVINCES = frozenset(_CODES.split())


def find_cn_ids(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find CN_ID_CARD: 18 digits with a province, a birthday and the right check digit 0.98.

    15 digits, which no check digit ends: 0.4, and 0.85 beside a word for it.
    """
    text = reading.text
    for begin, end in reading.runs:
        if end - begin in _FIRST_LENGTHS and (match := _ID.match(text, begin)):
            number = (match[1] + match[3] + match[4]).upper()
            if _is_personal_number(number[:2], number[6:14]) and number[-1] == ric.calc_check_digit(number):
                yield PersonalDataSpan("CN_ID_CARD", begin, match.end(), 0.98)
        if end - begin == _OLD_LENGTH and _is_personal_number(
            text[begin : begin + 2], "19" + text[begin + 6 : end - 3]
        ):
            near_word = _ID_WORDS.near(text, begin, end)
            yield PersonalDataSpan("CN_ID_CARD", begin, end, 0.85 if near_word else 0.4)


def _is_personal_number(province: str, born: str) -> bool:
    try:
        date.fromisoformat(born)
    except ValueError:
        return False
    return province in _PROVINCES


RECOGNISERS = (
    Recogniser(("US_DRIVER_LICENSE",), find_licenses, fewest_digits=4),
    Recogniser(("US_SSN",), find_ssns, fewest_digits=9),
    Recogniser(("CN_ID_CARD",), find_cn_ids, fewest_digits=15),
)

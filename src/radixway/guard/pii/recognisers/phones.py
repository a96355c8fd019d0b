"""PHONE_NUMBER: with a country's code, in North America's and China's forms, in any form beside a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import phonenumbers

from radixway.guard.pii.recognisers.context import Words
from radixway.guard.pii.recognisers.reading import Reading, follows_letter
from radixway.pipeline import PersonalData

# All are entered at the beginning of a run of digits only, and keep what they took or are of bounded length.
_GROUPS = r"[0-9]++(?: ?\([0-9]{1,4}\) ?[0-9]++|(?: - |[ .\-/])[0-9]++)*+"
_INTERNATIONAL = re.compile(rf"(?<![0-9A-Za-z+])(?:\(?\+|00[ \-]?(?=[1-9])){_GROUPS}")
_BRACKETED = re.compile(rf"(?<![0-9A-Za-z])\(\+[0-9]{{1,3}}\) ?{_GROUPS}")
_NORTH_AMERICAN = re.compile(
    r"(?<![0-9])(?<![0-9][.,\-])(?:1[ .\-])?(?:\([2-9][0-9]{2}\)[ \-]?|[2-9][0-9]{2}([ .\-]))"
    r"[0-9]{3}([ .\-])[0-9]{4}(?![0-9])(?!-[0-9])"
)
_CHINESE_MOBILE = re.compile(
    r"(?<![0-9])(?<![0-9][.,\-])(?:\(?86\)?[ \-]?)?1[3-9][0-9]([ \-]?)[0-9]{4}\1[0-9]{4}(?![0-9])(?!-[0-9])"
)
_CHINESE_LANDLINE = re.compile(
    r"(?<![0-9])(?<![0-9][.,\-])(?:\(?86\)?[ \-]?)?"
    r"(?:\(0[1-9][0-9]{1,2}\) ?|0[1-9][0-9]{1,2}([ \-]?))[2-9][0-9]{2,3}[ \-]?[0-9]{4}(?![0-9])"
)
_NATIONAL = re.compile(rf"(?<![0-9A-Za-z$€£¥.,])(?:\([0-9]{{1,4}}\)[ .\-/]{{0,2}})?{_GROUPS}")
_EXTENSION = re.compile(
    r"(?:[ ,]{0,2}(?:x|ext\.?|extension|转|分机)[ :.]?|#)[0-9]{1,6}(?![0-9])", re.IGNORECASE
)

_NUMBER = re.compile(r"[0-9]+")
_TRUNK = re.compile(r"\(0\)")
_DATE = re.compile(r"[0-9]{4}([.\-/])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([.\-/])[0-9]{1,2}\2[0-9]{2,4}")

_PHONE_WORDS = Words(
    "phone|phoned|telephone|tel|mobile|cell ?phone|landline|fax|hotline|whatsapp|sms|pager|voicemail|handset"
    "|call|called|calling|dial|ring|text me|contact|reach|answering|messages to",
    "电话 手机 座机 传真 热线 联系 致电 拨打 来电 号码 短信 微信",
    before=45,
    after=20,
)
_PLACE_WORDS = Words("office|desk|home|work|direct|mobile|cell|fax", before=12, after=12)
_OTHER_NUMBER = re.compile(
    r"(?<![a-z])(?:order|invoice|account|acct|routing|ref|reference|ticket|tracking|case|card|isbn|issn|id|zip|code"
    r"|serial|model|part|ssn|license|version|page|room|flight|vin|password|pin)"
    r"(?: (?:number|no|num|is|code)\b\.?)*[ :#.]*$",
    re.IGNORECASE,
)
_OTHER_WINDOW = 30

_LONGEST = 15
"""Digits, by E.164."""
_SHORTEST_INTERNATIONAL = 8
_SHORTEST = 6
_SHORTEST_UNGROUPED = 7
_REGIONS_WITH_TRUNK_ZERO = ("GB", "DE", "FR", "IT", "AU", "IN", "JP", "NL", "BE", "CH", "SE")


def find_phones(reading: Reading) -> Iterator[PersonalData]:
    """Valid in a country's plan of numbers: from 0.85. In North America's form: from 0.75. Any other: beside
    a word for it 0.75 or 0.85, without one below 0.7 or not at all.
    """
    text = reading.text
    for find in (_international, _north_american, _chinese, _national):
        for begin, end, confidence in find(text):
            if follows_letter(text, begin):
                confidence = min(confidence, 0.5)
            extension = _EXTENSION.match(text, end)
            yield PersonalData("PHONE_NUMBER", begin, extension.end() if extension else end, confidence)


_Span = tuple[int, int, float]


def _international(text: str) -> Iterator[_Span]:
    for pattern in (_INTERNATIONAL, _BRACKETED):
        for match in pattern.finditer(text):
            ends = _ends(text, match.start(), match.end(), _LONGEST + 2)
            begin = match.start() + (match[0].startswith("(+") and ")" not in match[0])
            beside = _PHONE_WORDS.near(text, *match.span())
            plus = "+" in match[0]
            for end in reversed(ends[-3:]):
                number = _parsed(
                    "+" + _digits(_TRUNK.sub("", text[begin:end])).removeprefix("" if plus else "00")
                )
                if number is not None and phonenumbers.is_valid_number(number):
                    yield begin, end, (0.98 if beside else 0.95) if plus else (0.95 if beside else 0.85)
                    break
            else:
                if ends and _is_possible(text[begin : ends[-1]], plus):
                    yield begin, ends[-1], (0.9 if beside else 0.75) if plus else (0.85 if beside else 0.6)


def _north_american(text: str) -> Iterator[_Span]:
    for match in _NORTH_AMERICAN.finditer(text):
        first, second = match.groups()
        if first not in (None, second):
            continue
        beside = _PHONE_WORDS.near(text, *match.span()) or _PLACE_WORDS.near(text, *match.span())
        number = _parsed(_digits(match[0]), "US")
        if number is not None and phonenumbers.is_valid_number(number):
            confidence = 0.97 if beside else 0.6 if first == " " else 0.9
        else:
            confidence = 0.9 if beside else 0.5 if first == " " else 0.75
        yield *match.span(), confidence


def _chinese(text: str) -> Iterator[_Span]:
    for match in _CHINESE_MOBILE.finditer(text):
        number = _parsed(_digits(match[0]), "CN")
        if number is not None and phonenumbers.is_valid_number(number):
            yield *match.span(), 0.97 if _PHONE_WORDS.near(text, *match.span()) else 0.85
    for match in _CHINESE_LANDLINE.finditer(text):
        number = _parsed(_digits(match[0]), "CN")
        if number is not None and phonenumbers.is_valid_number(number):
            beside = _PHONE_WORDS.near(text, *match.span())
            yield *match.span(), 0.95 if beside else 0.4 if match[1] == "" else 0.75


def _national(text: str) -> Iterator[_Span]:
    for match in _NATIONAL.finditer(text):
        if match.end() - match.start() < _SHORTEST:
            continue
        ends = _ends(text, match.start(), match.end(), _LONGEST)
        if not ends or ends[-1] != match.end() or not _looks_dialled(match[0]):
            continue
        if text[match.end() : match.end() + 1] == "%" or _OTHER_NUMBER.search(
            text, max(0, match.start() - _OTHER_WINDOW), match.start()
        ):
            continue
        yield from _judged(text, *match.span())


def _judged(text: str, begin: int, end: int) -> Iterator[_Span]:
    beside = _PHONE_WORDS.near(text, begin, end) or _PLACE_WORDS.near(text, begin, end)
    ungrouped = text[begin:end].isdigit()
    if beside:
        yield begin, end, 0.75 if ungrouped else 0.85
    elif text[begin] in "0(" and not ungrouped and _is_valid_somewhere(_digits(text[begin:end])):
        yield begin, end, 0.6


def _looks_dialled(written: str) -> bool:
    digits = _digits(written)
    groups = _NUMBER.findall(written)
    if len(groups) == 1:
        return len(digits) >= _SHORTEST_UNGROUPED and not digits.endswith("000")
    if len(digits) < _SHORTEST or _DATE.fullmatch(written) or set(digits) == {"0"}:
        return False
    # "3.14159265" and "1/1000000" are numbers; "12 - 3456789" is a difference.
    return not (len(groups) == 2 and ("." in written or "/" in written or " - " in written))


def _ends(text: str, begin: int, end: int, most: int) -> list[int]:
    """Where each group of digits ends, as long as there are no more than `most` digits."""
    ends, digits = [], 0
    for number in _NUMBER.finditer(text, begin, end):
        digits += number.end() - number.start()
        if digits > most:
            break
        ends.append(number.end())
    return ends


def _is_possible(written: str, plus: bool) -> bool:
    groups = _NUMBER.findall(_TRUNK.sub("", written))
    digits = "".join(groups).removeprefix("" if plus else "00")
    if len(digits) < _SHORTEST_INTERNATIONAL or len(groups) < (2 if plus else 3):
        return False
    number = _parsed("+" + digits)
    reason = phonenumbers.ValidationResult.IS_POSSIBLE
    return number is not None and phonenumbers.is_possible_number_with_reason(number) == reason


def _is_valid_somewhere(digits: str, regions: Sequence[str] = _REGIONS_WITH_TRUNK_ZERO) -> bool:
    numbers = (_parsed(digits, region) for region in regions)
    return any(number is not None and phonenumbers.is_valid_number(number) for number in numbers)


def _parsed(digits: str, region: str | None = None) -> phonenumbers.PhoneNumber | None:
    try:
        return phonenumbers.parse(digits, region)
    except phonenumbers.NumberParseException:
        return None


def _digits(written: str) -> str:
    return "".join(_NUMBER.findall(written))

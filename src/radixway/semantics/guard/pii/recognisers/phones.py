"""PHONE_NUMBER: with a country's code, in North America's and China's forms, in any form beside a word."""

import re
from collections.abc import Iterator, Sequence

import phonenumbers

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.plain_text import (
    ContextWords,
    PlainText,
    Recogniser,
    Span,
    follows_letter,
    is_fraction,
)

# All are matched where a run of digits begins and are of bounded length; a number has no more than 15 digits.
_GROUPS = r"[0-9]{1,17}(?![0-9])(?:(?: ?\([0-9]{1,4}\) ?| - |[ .\-/])[0-9]{1,15}(?![0-9])){0,14}+"
_INTERNATIONAL = re.compile(rf"(?:\(\+[0-9]{{1,3}}\) ?|\(?\+|00[ \-]?(?=[1-9])){_GROUPS}")
_NORTH_AMERICAN = re.compile(
    r"(?:(?:00)?1[ .\-])?(?:\([2-9][0-9]{2}\)[ \-]?|[2-9][0-9]{2}([ .\-]))[0-9]{3}([ .\-])[0-9]{4}"
    r"(?![0-9])(?!-[0-9])"
)
_CHINESE_MOBILE = re.compile(r"(?:86\)?[ \-]?)?1[3-9][0-9]([ \-]?)[0-9]{4}\1[0-9]{4}(?![0-9])(?!-[0-9])")
_CHINESE_LANDLINE = re.compile(
    r"(?:86\)?[ \-]?)?(?:\(0[1-9][0-9]{1,2}\) ?|0[1-9][0-9]{1,2}([ \-]?))[2-9][0-9]{2,3}[ \-]?[0-9]{4}"
    r"(?![0-9])"
)
_CHINESE_SERVICE = re.compile(r"[48]00(-)[0-9]{3,4}\1[0-9]{3,4}(?![0-9])(?!-[0-9])")
_NATIONAL = re.compile(rf"(?:\([0-9]{{1,4}}\)[ .\-/]{{0,2}})?{_GROUPS}")
_EXTENSION = re.compile(
    r"(?:[ ,]{0,2}(?:x|ext\.?|extension|转|分机)[ :.]?|#)[0-9]{1,6}(?![0-9])", re.IGNORECASE
)

_NUMBER = re.compile(r"[0-9]+")
_CHINESE_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
_CHINESE_WINDOW = 200
_TRUNK = re.compile(r"\(0\)")
_DATE = re.compile(r"[0-9]{4}([.\-/])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([.\-/])[0-9]{1,2}\2[0-9]{2,4}")

_PHONE_WORDS = ContextWords(
    "(?:mobile|home|work|cell)? ?phone|phoned|telephone|tel|mobile|cell|landline|fax|hotline|whatsapp|sms"
    "|pager|voicemail|handset|call|called|calling|dial|ring|text me|contact|reach|answering|message"
    "|registered",
    "电话 手机 座机 传真 热线 联系 致电 拨打 来电 号码 短信 微信",
    before=45,
    after=20,
)
_PLACE_WORDS = ContextWords("office|desk|home|work|direct|mobile|cell|fax", before=12, after=12)
_OTHER_NUMBER = re.compile(
    r"(?<![a-z])(?:order|invoice|account|acct|routing|ref|reference|ticket|tracking|case|card|isbn|issn|id|zip|code"
    r"|serial|model|part|ssn|license|version|page|room|flight|vin|password|pin)"
    r"(?: (?:number|no|num|is|code)\b\.?){0,3}[ :#.]{0,4}$"
    r"|(?:订单|单号|编号|序列号|运单|快递|流水)(?:号码?|是|为|[ :]){0,3}$",
)
_OTHER_WINDOW = 30
_SURELY_DIALLED = 0.95
_PLACEHOLDERS = frozenset(["1234567890", "0123456789", "5551234567"])

_CURRENCIES = ("$", "€", "£", "¥")
_AREA_DIGITS = 3
_MAX_DIGITS = 15
"""By E.164."""
_SHORTEST_INTERNATIONAL = 8
_SHORTEST = 6
_SHORTEST_UNGROUPED = 7
_TRUNK_ZERO_FORM = re.compile(r"\(?0[0-9]")
_TRUNK_ZERO_DIGITS = 10
_TRUNK_ZERO_REGIONS = ("GB", "DE", "FR", "IT", "AU", "IN", "JP", "NL", "BE", "CH", "SE")


def find_phones(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find PHONE_NUMBER: valid in a country's plan of numbers from 0.85, in North America's form from 0.75.

    In any other form: beside a word for it 0.75 or 0.85, without one below 0.7 or not at all.
    """
    text = reading.text
    for cluster in reading.iter_clusters(_SHORTEST):
        for begin, end, confidence in _find_forms(text, cluster):
            if follows_letter(text, begin) or _is_another_number(text, begin, end, confidence):
                confidence = min(confidence, 0.5)
            extension = _EXTENSION.match(text, end)
            yield PersonalDataSpan("PHONE_NUMBER", begin, extension.end() if extension else end, confidence)


_Found = tuple[int, int, float]


def _find_forms(text: str, cluster: Sequence[Span]) -> list[_Found]:
    first, last = _opened(text, cluster[0][0]), cluster[-1][1]
    known = [*_international(text, cluster[0][0]), *_of_known_form(text, cluster)]
    if any(begin <= first and last <= end for begin, end, _ in known):
        return known
    return [*known, *_national(text, first, last)]


def _is_another_number(text: str, begin: int, end: int, confidence: float) -> bool:
    """Return whether the number is called something else, or stands for any."""
    if confidence <= _SURELY_DIALLED:
        digits = _digits(text[begin:end])
        if digits in _PLACEHOLDERS or len(set(digits)) == 1:
            return True
    before = text[max(0, begin - _OTHER_WINDOW) : begin].lower()
    return confidence < _SURELY_DIALLED and _OTHER_NUMBER.search(before) is not None


def _of_known_form(text: str, cluster: Sequence[Span]) -> Iterator[_Found]:
    for begin, end in cluster:
        if is_fraction(text, begin):
            continue
        if end - begin == _AREA_DIGITS or text[begin:end] == "1":
            yield from _north_american(text, _opened(text, begin), begins=begin == cluster[0][0])
        if text[begin] in "0148":
            yield from _chinese(text, _opened(text, begin))


def _opened(text: str, begin: int) -> int:
    """Return where the bracket stands that a number begins with, if it does, else `begin`."""
    return begin - (text[begin - 1 : begin] == "(")


def _international(text: str, digits: int) -> Iterator[_Found]:
    begin = _opened(text, digits - 1) if text[digits - 1 : digits] == "+" else digits
    match = _INTERNATIONAL.match(text, begin)
    ends = _ends(text, begin, match.end(), _MAX_DIGITS + len("00")) if match else []
    if match is None or not ends:
        return
    begin += match[0].startswith("(+") and ")" not in match[0]
    plus = "+" in match[0]
    near_word = _PHONE_WORDS.near(text, begin, ends[-1])
    for end in reversed(ends[-2:]):
        number = _parsed("+" + _digits(_TRUNK.sub("", text[begin:end])).removeprefix("" if plus else "00"))
        if number is not None and phonenumbers.is_valid_number(number):
            yield begin, end, (0.98 if near_word else 0.95) if plus else (0.95 if near_word else 0.85)
            return
    if _is_possible(text[begin : ends[-1]], plus):
        yield begin, ends[-1], (0.95 if near_word else 0.75) if plus else (0.85 if near_word else 0.6)


def _north_american(text: str, begin: int, begins: bool) -> Iterator[_Found]:
    match = _NORTH_AMERICAN.match(text, begin)
    if match is None or match[1] not in (None, match[2]):
        return
    spaced = match[1] == " "
    if spaced and not begins:
        return  # the end of a longer number
    if _is_near_word(text, *match.span()):
        confidence = 0.95
    elif _is_valid(match[0].removeprefix("00"), "US"):
        confidence = 0.75 if spaced else 0.9
    else:
        confidence = 0.75 if match[1] is None else 0.5
    yield *match.span(), confidence


def _chinese(text: str, begin: int) -> Iterator[_Found]:
    mobile = _CHINESE_MOBILE.match(text, begin)
    if mobile and _is_valid(mobile[0], "CN"):
        near_word = _PHONE_WORDS.near(text, *mobile.span())
        yield *mobile.span(), 0.97 if near_word else 0.85 if mobile[1] or _is_in_chinese(text, begin) else 0.6
    service = _CHINESE_SERVICE.match(text, begin)
    if service and (_PHONE_WORDS.near(text, *service.span()) or _is_in_chinese(text, begin)):
        yield *service.span(), 0.85
    landline = _CHINESE_LANDLINE.match(text, begin)
    if landline and _is_valid(landline[0], "CN"):
        near_word = _PHONE_WORDS.near(text, *landline.span())
        yield *landline.span(), 0.95 if near_word else 0.4 if landline[1] == "" else 0.75


def _is_in_chinese(text: str, begin: int) -> bool:
    return (
        _CHINESE_CHARACTER.search(text, max(0, begin - _CHINESE_WINDOW), begin + _CHINESE_WINDOW) is not None
    )


def _national(text: str, begin: int, cluster_end: int) -> Iterator[_Found]:
    match = _NATIONAL.match(text, begin)
    if match is None or text[begin - 1 : begin] in _CURRENCIES or is_fraction(text, begin):
        return
    end = match.end()
    if end < cluster_end or not _looks_dialled(match[0]) or text[end : end + 1] == "%":
        return
    ungrouped = match[0].isdigit()
    if _is_near_word(text, begin, end):
        yield begin, end, 0.75 if ungrouped else 0.85
    elif not ungrouped and _is_with_trunk_zero(match[0]):
        yield begin, end, 0.75


def _is_with_trunk_zero(written: str) -> bool:
    if not _TRUNK_ZERO_FORM.match(written) or len(_digits(written)) < _TRUNK_ZERO_DIGITS:
        return False
    return any(_is_valid(written, region) for region in _TRUNK_ZERO_REGIONS)


def _is_near_word(text: str, begin: int, end: int) -> bool:
    return _PHONE_WORDS.near(text, begin, end) or _PLACE_WORDS.near(text, begin, end)


def _looks_dialled(written: str) -> bool:
    digits = _digits(written)
    groups = _NUMBER.findall(written)
    if len(digits) > _MAX_DIGITS:
        return False
    if any(len(group) == 1 for group in groups[1:]):
        return False  # as in a book's number
    if len(groups) == 1:
        return len(digits) >= _SHORTEST_UNGROUPED and not digits.endswith("000")
    if len(digits) < _SHORTEST or _DATE.fullmatch(written) or set(digits) == {"0"}:
        return False
    # "3.14159265" and "1/1000000" are numbers; "12 - 3456789" is a difference.
    return not (len(groups) == 2 and ("." in written or "/" in written or " - " in written))


def _ends(text: str, begin: int, end: int, max_digits: int) -> list[int]:
    """Return where each group of digits ends, as long as there are no more than `max_digits` digits."""
    ends, digits = [], 0
    for number in _NUMBER.finditer(text, begin, end):
        digits += number.end() - number.start()
        if digits > max_digits:
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


def _is_valid(written: str, region: str) -> bool:
    number = _parsed(_digits(written), region)
    return number is not None and phonenumbers.is_valid_number(number)


def _parsed(digits: str, region: str | None = None) -> phonenumbers.PhoneNumber | None:
    try:
        return phonenumbers.parse(digits, region)
    except phonenumbers.NumberParseException:
        return None


def _digits(written: str) -> str:
    return "".join(_NUMBER.findall(written))


RECOGNISERS = (Recogniser(("PHONE_NUMBER",), find_phones, fewest_digits=6),)

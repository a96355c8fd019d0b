"""ZIP_CODE and STREET_ADDRESS.

Postal codes are known by what stands beside them, Britain's and Canada's by their form as well; streets where
house number and name leave no doubt.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.gazetteers import read_list
from radixway.semantics.guard.pii.recognisers.plain_text import (
    ContextWords,
    PlainText,
    Recogniser,
    follows_letter,
    is_fraction,
)

_STATES = (
    "AL|AK|AZ|AR|CA|CO|CT|DE|DC|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ|NM|NY|NC|ND|OH"
    "|OK|OR|PA|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY|PR|GU|VI|AA|AE|AP"
)
_STATE_NAMES = (
    "Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|Florida|Georgia|Hawaii|Idaho"
    "|Illinois|Indiana|Iowa|Kansas|Kentucky|Louisiana|Maine|Maryland|Massachusetts|Michigan|Minnesota"
    "|Mississippi|Missouri|Montana|Nebraska|Nevada|New Hampshire|New Jersey|New Mexico|New York"
    "|North Carolina|North Dakota|Ohio|Oklahoma|Oregon|Pennsylvania|Rhode Island|South Carolina|South Dakota"
    "|Tennessee|Texas|Utah|Vermont|Virginia|Washington|West Virginia|Wisconsin|Wyoming"
)
_STATE_BEFORE = re.compile(rf"(?<![A-Za-z])(?:{_STATES}|{_STATE_NAMES})[ ,\n]{{1,8}}$")
_AUSTRALIAN_STATE_BEFORE = re.compile(r"(?<![A-Za-z])(?:NSW|VIC|QLD|TAS|ACT|SA|WA|NT)[ ,]{1,2}$")

_NO_MORE = r"(?![0-9A-Za-z])(?![.,\-][0-9])"
_FIVE_AND_FOUR = re.compile(rf"[0-9]{{5}}(-[0-9]{{4}})?{_NO_MORE}")
_FOUR = re.compile(rf"[0-9]{{4}}{_NO_MORE}")
_SIX = re.compile(rf"[1-9][0-9]{{5}}{_NO_MORE}")
_DUTCH = re.compile(rf"[1-9][0-9]{{3}} (?!SA|SD|SS)[A-Z]{{2}}{_NO_MORE}")
_EUROPEAN = r"[0-9]{5}|[0-9]{2}-[0-9]{3}|[0-9]{3} [0-9]{2}"
_BY_STREET = re.compile(rf"(?:{_EUROPEAN}|(?!1[5-9]|20)[1-9][0-9]{{3}}){_NO_MORE}")
_BY_PLACE = re.compile(rf"(?:{_EUROPEAN}|(?!20)[2-9][0-9]{{3}}){_NO_MORE}")
"""Four-digit codes that may be a year are left out."""
_BY_WORD = re.compile(
    r"(?:[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]|[0-9]{4} ?[A-Z]{2}"
    rf"|[0-9]{{3,6}}(?:[ \-][0-9]{{2,4}})?){_NO_MORE}",
    re.IGNORECASE,
)
_UK_AREAS = (
    "AB|AL|B|BA|BB|BD|BH|BL|BN|BR|BS|BT|CA|CB|CF|CH|CM|CO|CR|CT|CV|CW|DA|DD|DE|DG|DH|DL|DN|DT|DY|E|EC|EH|EN|EX|FK"
    "|FY|G|GL|GU|GY|HA|HD|HG|HP|HR|HS|HU|HX|IG|IM|IP|IV|JE|KA|KT|KW|KY|L|LA|LD|LE|LL|LN|LS|LU|M|ME|MK|ML|N|NE|NG"
    "|NN|NP|NR|NW|OL|OX|PA|PE|PH|PL|PO|PR|RG|RH|RM|S|SA|SE|SG|SK|SL|SM|SN|SO|SP|SR|SS|ST|SW|SY|TA|TD|TF|TN|TQ|TR"
    "|TS|TW|UB|W|WA|WC|WD|WF|WN|WR|WS|WV|YO|ZE"
)
_UK = re.compile(rf"(?:{_UK_AREAS})[0-9][0-9A-Z]?( ?)[0-9][ABD-HJLNP-UW-Z]{{2}}(?![A-Za-z0-9])")
_CANADIAN = re.compile(
    r"[ABCEGHJ-NPRSTVXY][0-9][ABCEGHJ-NPRSTV-Z]([ \-]?)[0-9][ABCEGHJ-NPRSTV-Z][0-9](?![A-Za-z0-9])"
)

_WORD_BEFORE = re.compile(
    r"(?:(?<![a-z])(?:zip(?: ?code)?|post(?:al)? ?code|pin ?code|plz|cep|code postal|c[oó]digo postal)s?"
    r"|邮政编码|邮编|〒)"
    r"(?: is| are| was| number|'s|[ :=#\-\"(]|是|为|\n){0,4}$"
)
_HOME_BEFORE = re.compile(
    r"(?<![a-z])(?:lives?|lived|living|moved|moving|located|based|resid[a-z]{1,5}|deliver[a-z]{0,3}|ship[a-z]{0,4}"
    r"|weather|forecast|apartments?|stores?|restaurants?|house|home)"
    r"[^.\n0-9]{0,20} (?:in|to|near|at|around|for|from) $"
)
_AREA_AFTER = re.compile(r" (?:area|neighbou?rhood|zip(?: ?code)?|postcode|postal code)(?![a-z])")
_CODE_ENDS = re.compile(
    r"[ ]?(?:[.,;:!?)\"'\n]|$|(?:and|in|is|or|if|but|to|on|with|please|usa?)(?![a-z]))",
    re.IGNORECASE,
)
_NO_PLACES = """
suite ste apt unit box psc room no flat floor building and or of to
"""
_NO_PLACE = frozenset(_NO_PLACES.split())
"""Words whose number is no code."""
_LINE_ENDS = re.compile(r"[.,;]?[ ]{0,3}(?:\n|$)")
_ADDRESS_BEFORE = re.compile(
    r"(?<![a-z])(?<!mail )(?<!ip )(?<!mac )(?<!web )(?<!memory )address(?:es)?(?: is|[:\n])"
    r"|(?:ship|deliver) to"
)
_STREET_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:street|st|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|dr|court|ct|place|pl|square|terrace"
    r"|way|parkway|pkwy|highway|hwy|apt|suite|unit|rue|via|viale|piazza|calle|avenida|paseo|rua|ulica|ul)(?![a-z])"
    r"|(?:stra(?:ß|ss)e|str\.|platz|weg|allee|gasse|straat|laan|plein|gracht|vej|gade|gatan|veien)(?![a-z])",
    re.IGNORECASE,
)
_CHINESE_PLACE_BEFORE = re.compile(r"[号室楼栋市区县镇路街][, ]{0,2}$")
_CHINESE_PLACE_AFTER = re.compile(r" ?[\u4e00-\u9fff]{2,8}(?:省|市|区|县)")

_ADDRESS_WORDS = ContextWords(
    "zip|zip ?code|postal|post ?code|address|lives? at|ship|deliver|mail(?:ing)?|london|uk|canada|ontario",
    "邮编 邮政编码 地址",
)
_WINDOW = 30
_HOME_WINDOW = 50
_STREET_WINDOW = 70
_ADDRESS_WINDOW = 160
_SHORTEST_CODE = 2
_MAX_CODE_CHARS = 6


def find_zips(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find ZIP_CODE: beside a word for it 0.9; beside a state, a place or a street from 0.75; Britain's and
    Canada's as they are written 0.75. Five digits alone are none.
    """
    text = reading.text
    for begin, end in reading.runs:
        if _SHORTEST_CODE <= end - begin <= _MAX_CODE_CHARS and not _is_within_number(text, begin):
            yield from _find_numeric(text, begin)
        if begin and end - begin <= 2 and text[begin - 1].isascii() and text[begin - 1].isalpha():
            yield from _find_alphanumeric(text, begin)


def _is_within_number(text: str, begin: int) -> bool:
    if begin > 1 and text[begin - 1] in " -" and text[begin - 2].isdigit():
        return True
    return follows_letter(text, begin) or is_fraction(text, begin) or text[begin - 1 : begin] in _CURRENCIES


def _find_numeric(text: str, begin: int) -> Iterator[PersonalDataSpan]:
    if _follows_word(text, begin) and (code := _BY_WORD.match(text, begin)):
        yield PersonalDataSpan("ZIP_CODE", begin, code.end(), 0.9)
        return
    for pattern, has_context, confidence in _RULES:
        code = pattern.match(text, begin)
        if code and not _MORE_DIGITS.match(text, code.end()) and has_context(text, begin, code.end()):
            yield PersonalDataSpan("ZIP_CODE", begin, code.end(), confidence)
            return
    code = _FIVE_AND_FOUR.match(text, begin)
    if code and code[1]:
        yield _zip_code_span(text, begin, code.end(), 0.5)


def _find_alphanumeric(text: str, digits: int) -> Iterator[PersonalDataSpan]:
    """Yield codes whose one or two letters stand before `digits`."""
    for begin in {digits - 1, max(0, digits - 2)}:
        if follows_letter(text, begin) or not text[begin].isalpha():
            continue
        match = _UK.match(text, begin) or _CANADIAN.match(text, begin)
        if match:
            yield _zip_code_span(text, begin, match.end(), 0.75 if match[1] == " " else 0.5)
        elif (word := _BY_WORD.match(text, begin)) and _follows_word(text, begin):
            yield PersonalDataSpan("ZIP_CODE", begin, word.end(), 0.9)


def _follows_word(text: str, begin: int) -> bool:
    return _WORD_BEFORE.search(text[max(0, begin - _WINDOW) : begin].lower()) is not None


def _follows(pattern: re.Pattern[str]) -> Callable[[str, int, int], bool]:
    return lambda text, begin, end: pattern.search(text, max(0, begin - _WINDOW), begin) is not None


def _is_residence(text: str, begin: int, end: int) -> bool:
    if _AREA_AFTER.match(text, end):
        return True
    before = text[max(0, begin - _HOME_WINDOW) : begin].lower()
    return _CODE_ENDS.match(text, end) is not None and _HOME_BEFORE.search(before) is not None


def _ends_street(text: str, begin: int, end: int) -> bool:
    """Return whether a code is soon after a street, and not the number of a house or something else."""
    if not _follows_name(text, begin) or _STREET.match(text, begin):
        return False
    if not (_CODE_ENDS.match(text, end) or text[end + 1 : end + 2].isupper()):
        return False
    return _STREET_BEFORE.search(text, max(0, begin - _STREET_WINDOW), begin) is not None


def _follows_name(text: str, begin: int) -> bool:
    """Return whether the word before `begin` may be a place's."""
    before = text[max(0, begin - _WINDOW) : begin]
    words = before.rstrip(" ,.\n")
    first = len(words)
    while first and words[first - 1].isalpha():
        first -= 1
    return first < len(words) < len(before) and words[first:].lower() not in _NO_PLACE


def _is_next_to_place(text: str, begin: int, end: int) -> bool:
    if _CODE_ENDS.match(text, end) and _follows_place(text, begin):
        return True
    return text[begin - 2 : begin] in _LISTED and _precedes_place(text, end)


def _ends_address(text: str, begin: int, end: int) -> bool:
    """Return whether a code is after a place's name, at the end of a line of what is called an address."""
    if not _LINE_ENDS.match(text, end) or not _follows_name(text, begin):
        return False
    return _ADDRESS_BEFORE.search(text[max(0, begin - _ADDRESS_WINDOW) : begin].lower()) is not None


def _is_next_to_chinese_place(text: str, begin: int, end: int) -> bool:
    if _CHINESE_PLACE_BEFORE.search(text, max(0, begin - _WINDOW), begin):
        return _CODE_ENDS.match(text, end) is not None or text[end] in "，。；、（"
    return _CHINESE_PLACE_AFTER.match(text, end) is not None


_RULES = (
    (_FIVE_AND_FOUR, _follows(_STATE_BEFORE), 0.85),
    (_FOUR, _follows(_AUSTRALIAN_STATE_BEFORE), 0.8),
    (_DUTCH, lambda text, begin, end: _precedes_place(text, end) or _ends_street(text, begin, end), 0.85),
    (_BY_STREET, _ends_street, 0.8),
    (_BY_PLACE, _is_next_to_place, 0.75),
    (_BY_STREET, _ends_address, 0.75),
    (_FIVE_AND_FOUR, _is_residence, 0.75),
    (_SIX, _ends_address, 0.75),
    (_SIX, _is_next_to_place, 0.75),
    (_SIX, _is_next_to_chinese_place, 0.8),
)
"""A code's form, its required neighbour, confidence."""
_MORE_DIGITS = re.compile(r"[ \-][0-9]")
_CURRENCIES = ("$", "€", "£", "¥")
_LISTED = (", ", ",\n", "\n", "n ", "o ")
"""Separators before a code that a place follows: `, 10115 Berlin`, `in 10115 Berlin`, `to 10115 Berlin`."""


def _zip_code_span(text: str, begin: int, end: int, alone: float) -> PersonalDataSpan:
    return PersonalDataSpan("ZIP_CODE", begin, end, 0.9 if _ADDRESS_WORDS.near(text, begin, end) else alone)


_PLACE_AFTER = re.compile(r" ([^\W\d_]{2,25}(?:[ \-][^\W\d_]{2,25})?)")
_PLACE_WINDOW = 60
_MAX_WORDS = 3


def _follows_place(text: str, begin: int) -> bool:
    """Return whether the one to three capitalised words before `begin` in `text` name a place."""
    before = text[max(0, begin - _PLACE_WINDOW) : begin]
    name = before.rstrip(" ,")
    if len(name) == len(before):
        return False
    words = name.split(" ")[-_MAX_WORDS:]
    return any(_is_place(" ".join(words[first:])) for first in range(len(words)))


def _precedes_place(text: str, end: int) -> bool:
    """Return whether the one or two words after `end` in `text` name a place."""
    match = _PLACE_AFTER.match(text, end)
    return match is not None and (_is_place(match[1]) or _is_place(match[1].split(" ")[0]))


def _is_place(name: str) -> bool:
    return name[:1].isupper() and name.lower() in _places()


@cache
def _places() -> frozenset[str]:
    return frozenset(read_list("places"))


_STREETS = (
    r"Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Square|Sq|Terrace|Parkway|Pkwy"
    r"|Highway|Hwy|Circle|Cir|Crescent|Close|Alley|Trail|Way|Mews|Grove"
)
_STREET = re.compile(
    r"[0-9]{1,5}[A-Za-z]?(?:-[0-9]{1,4})?,? (?:[NSEW]\.? )?"
    rf"(?:[A-Z][A-Za-z'\-]{{1,20}} |[0-9]{{1,3}}(?:st|nd|rd|th) ){{1,3}}(?:{_STREETS})(?![A-Za-z])\.?"
    r"(?:,? (?:Apt|Apartment|Suite|Ste|Unit|Room|Rm|Floor|#)\.? ?#?[0-9A-Z][0-9A-Z\-]{0,5}(?![A-Za-z0-9]))?+"
)
_BOX_BEFORE = re.compile(r"(?<![A-Za-z])(?:P\. ?O\. ?|P ?O ?)Box $", re.IGNORECASE)
_BOX_WINDOW = 12
_MAX_HOUSE_NUMBER_CHARS = 5

_CHINESE_NUMBER = re.compile(
    r"(?:路|街|大道|巷|胡同|弄|村)[0-9一二三四五六七八九十百]{1,5}(?:号|弄)"
    r"(?:(?:院|附)?[0-9A-Za-z一二三四五六七八九十]{0,5}(?:号楼|栋|幢|座|单元|楼|层|室|号|房)){0,4}+"
)
_CHINESE_NAME = re.compile(r"[\u4e00-\u9fff]{1,24}$")
_CHINESE_BEFORE = re.compile(r".{0,24}(?:地址|住在|住址|位于|坐落|在|到|是|为|于|至|往|给|从|去)")
_MAX_CHINESE_NAME_CHARS = 24


def find_streets(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find STREET_ADDRESS, 0.85: house number and street, capitalised or Chinese, and post office boxes."""
    text = reading.text
    for begin, end in reading.runs:
        house = _STREET.match(text, begin) if end - begin <= _MAX_HOUSE_NUMBER_CHARS else None
        if house and text[begin - 1 : begin] not in (".", "$") and not follows_letter(text, begin):
            yield PersonalDataSpan("STREET_ADDRESS", begin, house.end(), 0.85)
        elif box := _BOX_BEFORE.search(text, max(0, begin - _BOX_WINDOW), begin):
            yield PersonalDataSpan("STREET_ADDRESS", box.start(), end, 0.85)
    if "号" in text or "弄" in text:
        yield from _find_chinese_streets(text)


def _find_chinese_streets(text: str) -> Iterator[PersonalDataSpan]:
    for match in _CHINESE_NUMBER.finditer(text):
        begin = _chinese_begin(text, match.start())
        if begin < match.start():
            yield PersonalDataSpan("STREET_ADDRESS", begin, match.end(), 0.85)


def _chinese_begin(text: str, end: int) -> int:
    """Return where the name begins that ends before `end`: after the last word that leads to a place."""
    name = _CHINESE_NAME.search(text, max(0, end - _MAX_CHINESE_NAME_CHARS), end)
    if name is None:
        return end
    lead = _CHINESE_BEFORE.match(text, name.start(), end)
    return lead.end() if lead else name.start()


RECOGNISERS = (
    Recogniser(("STREET_ADDRESS",), find_streets, fewest_digits=1),
    Recogniser(("ZIP_CODE",), find_zips, fewest_digits=2),
)

"""ZIP_CODE and STREET_ADDRESS, where their form or what stands beside them leaves no doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixway.guard.pii.recognisers.context import Words
from radixway.guard.pii.recognisers.reading import Reading, follows_letter, is_fraction
from radixway.pipeline import PersonalData

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
_FIVE_AND_FOUR = re.compile(r"[0-9]{5}(-[0-9]{4})?(?![0-9A-Za-z])(?![.,\-][0-9])")
_STATE_BEFORE = re.compile(rf"(?<![A-Za-z])(?:{_STATES}|{_STATE_NAMES})[ ,\n]{{1,8}}$")
_LAST_OF_LINE = re.compile(
    r"([0-9]{5,6}|(?!19|20)[0-9]{4}|[0-9]{2}-[0-9]{3}|[0-9]{3} [0-9]{2})[.,;]?[ ]{0,3}(?:\n|$)"
)
_PLACE_BEFORE = re.compile(r"(?<!box)(?<!psc)[^\W\d_][,.]?[ \n]{1,8}$", re.IGNORECASE)
_ADDRESS_BEFORE = re.compile(
    r"(?<![a-z])(?<!mail )(?<!ip )(?<!mac )(?<!web )(?<!memory )address(?:es)?(?: is|[:\n])"
    r"|(?:ship|deliver) to"
)
_ADDRESS_WINDOW = 160
_WORD_BEFORE = re.compile(
    r"(?:(?<![a-z])zip(?: ?code)?|post(?:al)? ?code|postcode|邮政编码|邮编)"
    r"s?(?: is| number| was|[ :=#\-]|是|为|\n){0,4}$"
)
_AFTER_WORD = re.compile(
    r"(?:[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]|[0-9]{4} ?[A-Z]{2}"
    r"|[0-9]{3,6}(?:[ \-][0-9]{2,4})?)(?![0-9A-Za-z])",
    re.IGNORECASE,
)
_WINDOW = 30
_SHORTEST_CODE = 2
_LONGEST_CODE = 6
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
_ADDRESS_WORDS = Words(
    "zip|zip ?code|postal|post ?code|address|lives? at|ship|deliver|mail(?:ing)?|london|uk|canada|ontario",
    "邮编 邮政编码 地址",
)

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
_LONGEST_HOUSE_NUMBER = 5

_CHINESE_NUMBER = re.compile(
    r"(?:路|街|大道|巷|胡同|弄|村)[0-9一二三四五六七八九十百]{1,5}(?:号|弄)"
    r"(?:(?:院|附)?[0-9A-Za-z一二三四五六七八九十]{0,5}(?:号楼|栋|幢|座|单元|楼|层|室|号|房)){0,4}+"
)
_CHINESE_NAME = re.compile(r"[\u4e00-\u9fff]{1,24}$")
_CHINESE_BEFORE = re.compile(r".{0,24}(?:地址|住在|住址|位于|坐落|在|到|是|为|于|至|往|给|从|去)")
_LONGEST_CHINESE_NAME = 24


def find_zips(reading: Reading) -> Iterator[PersonalData]:
    """Beside a state or a word for it 0.85 and 0.9; British and Canadian ones as they are written 0.75;
    five digits alone are none.
    """
    text = reading.text
    for begin, end in reading.runs:
        if _SHORTEST_CODE <= end - begin <= _LONGEST_CODE and (match := _numbered(text, begin)):
            yield match
        if begin and end - begin <= 2 and text[begin - 1].isascii() and text[begin - 1].isalpha():
            yield from _lettered(text, begin)


def _numbered(text: str, begin: int) -> PersonalData | None:
    if (text[begin - 1 : begin].isalnum() and text[begin - 1].isascii()) or is_fraction(text, begin):
        return None
    if _follows_word(text, begin) and (match := _AFTER_WORD.match(text, begin)):
        return PersonalData("ZIP_CODE", begin, match.end(), 0.9)
    match = _FIVE_AND_FOUR.match(text, begin)
    if match and _STATE_BEFORE.search(text, max(0, begin - _WINDOW), begin):
        return PersonalData("ZIP_CODE", begin, match.end(), 0.85)
    if match and match[1]:
        return _beside_address(text, begin, match.end(), 0.5)
    return _ends_address(text, begin)


def _ends_address(text: str, begin: int) -> PersonalData | None:
    """After a place's name, at the end of a line that belongs to what is called an address."""
    code = _LAST_OF_LINE.match(text, begin)
    if code is None or not _PLACE_BEFORE.search(text, max(0, begin - _WINDOW), begin):
        return None
    if not _ADDRESS_BEFORE.search(text[max(0, begin - _ADDRESS_WINDOW) : begin].lower()):
        return None
    return PersonalData("ZIP_CODE", begin, code.end(1), 0.75)


def _lettered(text: str, digits: int) -> Iterator[PersonalData]:
    """Codes whose one or two letters stand before `digits`."""
    for begin in {digits - 1, max(0, digits - 2)}:
        if follows_letter(text, begin) or not text[begin].isalpha():
            continue
        match = _UK.match(text, begin) or _CANADIAN.match(text, begin)
        if match:
            yield _beside_address(text, begin, match.end(), 0.75 if match[1] == " " else 0.5)
        elif (word := _AFTER_WORD.match(text, begin)) and _follows_word(text, begin):
            yield PersonalData("ZIP_CODE", begin, word.end(), 0.9)


def _follows_word(text: str, begin: int) -> bool:
    return _WORD_BEFORE.search(text[max(0, begin - _WINDOW) : begin].lower()) is not None


def _beside_address(text: str, begin: int, end: int, alone: float) -> PersonalData:
    return PersonalData("ZIP_CODE", begin, end, 0.9 if _ADDRESS_WORDS.near(text, begin, end) else alone)


def find_streets(reading: Reading) -> Iterator[PersonalData]:
    """House number and a street's name with a word for streets, as capitalised or Chinese; boxes: 0.85."""
    text = reading.text
    for begin, end in reading.runs:
        house = _STREET.match(text, begin) if end - begin <= _LONGEST_HOUSE_NUMBER else None
        if house and text[begin - 1 : begin] not in (".", "$") and not follows_letter(text, begin):
            yield PersonalData("STREET_ADDRESS", begin, house.end(), 0.85)
        elif box := _BOX_BEFORE.search(text, max(0, begin - _BOX_WINDOW), begin):
            yield PersonalData("STREET_ADDRESS", box.start(), end, 0.85)
    if "号" in text or "弄" in text:
        yield from _find_chinese_streets(text)


def _find_chinese_streets(text: str) -> Iterator[PersonalData]:
    for match in _CHINESE_NUMBER.finditer(text):
        begin = _chinese_begin(text, match.start())
        if begin < match.start():
            yield PersonalData("STREET_ADDRESS", begin, match.end(), 0.85)


def _chinese_begin(text: str, end: int) -> int:
    """Where the name begins that ends before `end`: after the last word that leads to a place."""
    name = _CHINESE_NAME.search(text, max(0, end - _LONGEST_CHINESE_NAME), end)
    if name is None:
        return end
    lead = _CHINESE_BEFORE.match(text, name.start(), end)
    return lead.end() if lead else name.start()

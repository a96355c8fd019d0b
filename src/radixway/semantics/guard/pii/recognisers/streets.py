"""STREET_ADDRESS, where house number and street leave no doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.plain_text import PlainText, Recogniser, follows_letter

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


def find_streets(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """House number and a street's name with a word for streets, as capitalised or Chinese; boxes: 0.85."""
    text = reading.text
    for begin, end in reading.runs:
        house = match_house(text, begin) if end - begin <= _LONGEST_HOUSE_NUMBER else None
        if house and text[begin - 1 : begin] not in (".", "$") and not follows_letter(text, begin):
            yield PersonalDataSpan("STREET_ADDRESS", begin, house.end(), 0.85)
        elif box := _BOX_BEFORE.search(text, max(0, begin - _BOX_WINDOW), begin):
            yield PersonalDataSpan("STREET_ADDRESS", box.start(), end, 0.85)
    if "号" in text or "弄" in text:
        yield from _find_chinese_streets(text)


def match_house(text: str, begin: int) -> re.Match[str] | None:
    """House number and street that begin there."""
    return _STREET.match(text, begin)


def _find_chinese_streets(text: str) -> Iterator[PersonalDataSpan]:
    for match in _CHINESE_NUMBER.finditer(text):
        begin = _chinese_begin(text, match.start())
        if begin < match.start():
            yield PersonalDataSpan("STREET_ADDRESS", begin, match.end(), 0.85)


def _chinese_begin(text: str, end: int) -> int:
    """Where the name begins that ends before `end`: after the last word that leads to a place."""
    name = _CHINESE_NAME.search(text, max(0, end - _LONGEST_CHINESE_NAME), end)
    if name is None:
        return end
    lead = _CHINESE_BEFORE.match(text, name.start(), end)
    return lead.end() if lead else name.start()


RECOGNISERS = (Recogniser(("STREET_ADDRESS",), find_streets, fewest_digits=1),)

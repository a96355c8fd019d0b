"""CREDIT_CARD, CN_BANK_CARD and IBAN_CODE: numbers that carry check digits."""

import re
from collections.abc import Container, Iterable, Iterator
from functools import cache

from stdnum import iban, luhn, numdb

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.gazetteers import read_list
from radixway.semantics.guard.pii.recognisers.plain_text import (
    ContextWords,
    PlainText,
    Recogniser,
    is_fraction,
    touches_letter,
)

_DIGITS = re.compile(r"[0-9]+")
_NOT_DIGIT = re.compile(r"[^0-9]+")
_SEPARATORS = (" ", "-", ".")

_SHAPES = frozenset((
    *((length,) for length in range(12, 20)),
    *((4, 4, 4, rest) for rest in (1, 2, 3, 4)),
    *((4, 4, 4, 4, rest) for rest in (1, 2, 3)),
    (4, 4, 5),
    (4, 6, 4),
    (4, 6, 5),
    (6, 10),
    (6, 13),
    (8, 8),
))  # fmt: skip
"""Group lengths of written card numbers."""
_MAX_GROUPS = 5
_ONE_BY_ONE = range(13, 20)

_ANY = range(12, 20)
_ISSUERS = tuple(
    (low, high, tuple(map(int, lengths.split(","))))
    for low, high, lengths, *_ in map(str.split, read_list("card_issuers"))
)
_RARER_ISSUERS = (
    ("50", "50", _ANY),  # Maestro
    ("56", "69", _ANY),
    ("81", "82", (16,)),  # RuPay
)
_ANY_ISSUER = ("1", "9", range(13, 20))
_UNIONPAY = ("62", "62", range(16, 20))

_CARD_WORDS = ContextWords(
    "(?:credit|bank)? ?card|visa|master ?card|amex|american express|maestro|discover|credit|debit|cc|atm",
    "卡号 银行卡 信用卡 借记卡 储蓄卡 卡片 银联 刷卡",
)

_IBAN_HEAD = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}")
_IBAN_REST = re.compile(r"(?:[ \-]?[A-Za-z0-9]){11,30}+")
_FIELD = re.compile(r"(\d{1,2})!")


def find_cards(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find CREDIT_CARD and CN_BANK_CARD by Luhn's check digit, an issuer's range and a card's groups.

    0.97, and 0.99 beside a word for cards; where the range says little (Maestro) 0.6 and 0.95; where it is
    nobody's 0.3 and 0.8. Less as well for digits one by one and beside a letter.
    """
    text = reading.text
    for cluster in reading.iter_clusters(_ANY.start):
        if len(cluster) in _ONE_BY_ONE and all(end - begin == 1 for begin, end in cluster):
            yield from _find_card(text, cluster[0][0], cluster[-1][1])
        for first in range(len(cluster)):
            shape: tuple[int, ...] = ()
            for begin, end in cluster[first : first + _MAX_GROUPS]:
                shape += (end - begin,)
                if shape in _SHAPES and _is_evenly_separated(text[cluster[first][0] : end]):
                    yield from _find_card(text, cluster[first][0], end)


def _is_evenly_separated(number: str) -> bool:
    separators = _DIGITS.split(number)[1:-1]
    return len(set(separators)) <= 1 and all(separator in _SEPARATORS for separator in separators)


def _find_card(text: str, begin: int, end: int) -> Iterator[PersonalDataSpan]:
    number = _NOT_DIGIT.sub("", text[begin:end])
    if is_fraction(text, begin) or not luhn.is_valid(number):
        return
    unionpay = _is_of(number, (_UNIONPAY,))
    plain = not touches_letter(text, begin, end) and end - begin < 2 * len(number) - 1
    if (unionpay or _is_of(number, _ISSUERS)) and plain:
        alone, near_word = 0.97, 0.99
    elif _is_of(number, _RARER_ISSUERS) or unionpay:
        alone, near_word = 0.6, 0.95
    elif _is_of(number, (_ANY_ISSUER,)):
        alone, near_word = 0.3, 0.8
    else:
        return
    confidence = near_word if _CARD_WORDS.near(text, begin, end) else alone
    yield PersonalDataSpan("CN_BANK_CARD" if unionpay else "CREDIT_CARD", begin, end, confidence)


def _is_of(number: str, issuers: Iterable[tuple[str, str, Container[int]]]) -> bool:
    return any(low <= number[: len(low)] <= high and len(number) in lengths for low, high, lengths in issuers)


def find_ibans(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find IBAN_CODE, 0.99: check digits agree (ISO 7064, mod 97), and the country's length and structure."""
    text = reading.text
    for digits, _ in reading.runs:
        head = _IBAN_HEAD.match(text, digits - 2) if digits > 1 else None
        if head is None or not (length := _iban_length(head[0][:2].upper())):
            continue
        begin, count = head.start(), 0
        rest = _IBAN_REST.match(text, head.end())
        if rest is None:
            continue
        for end in range(begin + 1, rest.end() + 1):
            count += text[end - 1] not in " -"
            if count == length:
                break
        if count == length and not text[end : end + 1].isalnum() and iban.is_valid(text[begin:end], False):
            yield PersonalDataSpan("IBAN_CODE", begin, end, 0.99)


@cache
def _iban_length(country: str) -> int:
    """Return the length of a whole number by the registry's structure of its rest; 0: no such country."""
    properties = numdb.get("iban").info(country)[0][1]
    return 4 + sum(map(int, _FIELD.findall(properties["bban"]))) if "bban" in properties else 0


RECOGNISERS = (
    Recogniser(("CREDIT_CARD", "CN_BANK_CARD"), find_cards, fewest_digits=12),
    Recogniser(("IBAN_CODE",), find_ibans, fewest_digits=12),
)

"""Structured personal data that is valid, and the same with one check digit wrong: made up, nobody's."""

from __future__ import annotations

import random
from datetime import date, timedelta

from stdnum import iban, luhn
from stdnum.cn import ric

_CARD_BEGINNINGS = (("4", 16), ("5105", 16), ("2223", 16), ("34", 15), ("6011", 16), ("3530", 16), ("36", 14))
_PROVINCES = ("110101", "310104", "440305", "510107", "610113")
_BANKS = (("GB", "4a14n"), ("DE", "18n"), ("FR", "23n"), ("NL", "4a10n"), ("NO", "11n"), ("CH", "17n"))
_AREAS = ("415", "212", "617", "312", "206")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def digits(source: random.Random, count: int) -> str:
    return "".join(source.choices("0123456789", k=count))


def card(source: random.Random) -> str:
    beginning, length = source.choice(_CARD_BEGINNINGS)
    return _with_luhn(beginning + digits(source, length - len(beginning) - 1))


def cn_bank_card(source: random.Random) -> str:
    return _with_luhn("6222" + digits(source, source.choice((16, 19)) - 5))


def iban_code(source: random.Random) -> str:
    country, structure = source.choice(_BANKS)
    bank = ""
    if "a" in structure:
        letters, structure = structure.split("a")
        bank = "".join(source.choices(_LETTERS, k=int(letters)))
    bank += digits(source, int(structure.removesuffix("n")))
    return country + iban.calc_check_digits(f"{country}00{bank}") + bank


def cn_id_card(source: random.Random) -> str:
    born = date(1940, 1, 1) + timedelta(days=source.randrange(28_000))
    number = source.choice(_PROVINCES) + born.strftime("%Y%m%d") + f"{source.randrange(1, 1000):03}"
    return number + ric.calc_check_digit(number + "0")


def ssn(source: random.Random) -> str:
    area = source.choice([n for n in range(1, 900) if n != 666])
    return f"{area:03}-{source.randrange(1, 100):02}-{source.randrange(1, 10_000):04}"


def phone(source: random.Random) -> str:
    number = source.choice(_AREAS) + f"555{source.randrange(100, 200):04}"
    forms = ("+1 {}-{}-{}", "({}) {}-{}", "{}-{}-{}", "+1{}{}{}")
    return source.choice(forms).format(number[:3], number[3:6], number[6:])


def cn_mobile(source: random.Random) -> str:
    return source.choice(("138", "139", "150", "186", "177")) + digits(source, 8)


def email(source: random.Random) -> str:
    name = "".join(source.choices(_LETTERS.lower(), k=6))
    return f"{name}.{source.randrange(100)}@{source.choice(('example.com', 'mail.example.co.uk', 'qq.com'))}"


def ip(source: random.Random) -> str:
    if source.random() < 0.3:
        return "2001:db8:" + ":".join(f"{source.randrange(1, 65536):x}" for _ in range(6))
    return ".".join(str(source.randrange(21, 127)) for _ in range(4))


VALID = {
    "CREDIT_CARD": card,
    "CN_BANK_CARD": cn_bank_card,
    "IBAN_CODE": iban_code,
    "CN_ID_CARD": cn_id_card,
    "US_SSN": ssn,
    "PHONE_NUMBER": phone,
    "EMAIL_ADDRESS": email,
    "IP_ADDRESS": ip,
}
"""A generator for each type."""

CHECKED = ("CREDIT_CARD", "CN_BANK_CARD", "IBAN_CODE", "CN_ID_CARD")
"""Those whose numbers carry check digits."""


def nearly(number: str) -> str:
    """The number with its last digit wrong, which any check digit tells."""
    last = number[-1]
    wrong = "0" if last == "X" else str((int(last) + 1) % 10)
    return number[:-1] + wrong


def _with_luhn(number: str) -> str:
    return number + luhn.calc_check_digit(number)

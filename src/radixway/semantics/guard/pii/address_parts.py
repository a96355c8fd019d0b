"""Parts of one address as one: a street, its flat, its place and code, with nothing but commas between.

A place on a line of its own stands for itself, as in the data that the head was trained on. In Chinese the
place comes first, with nothing between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from radixway.core.pipeline import PersonalDataSpan

_PARTS = frozenset(["STREET_ADDRESS", "GPE", "ZIP_CODE"])
_BETWEEN = re.compile(r"[\s,>]*(?:[A-Z]{2,3}[\s,>]*)?")
"""Also the letters of a state or an army's post."""
_STREET = re.compile(
    r" (?:street|road|avenue|lane|drive|boulevard|court|square|terrace|crescent|highway|parkway)\b",
    re.IGNORECASE,
)
"""What a street's name ends with, where the head took it for something else."""
_HAN = re.compile("[\u3400-\u9fff]")


def join_address_parts(found: Sequence[PersonalDataSpan], text: str) -> list[PersonalDataSpan]:
    """`found`, in order, with what belongs to a street joined to it; as sure as its surest street."""
    joined: list[PersonalDataSpan] = []
    begins = [*(each.begin for each in found), len(text)][1:]
    for each, free in zip(found, begins, strict=True):
        last = joined[-1] if joined else None
        if each.type == "STREET_ADDRESS" and (more := _STREET.match(text, each.end, free)):
            each = replace(each, end=more.end())
        if (
            last is not None
            and last.type == "STREET_ADDRESS"
            and each.type in _PARTS
            and _BETWEEN.fullmatch(text, last.end, each.begin)
            and (each.type != "GPE" or "\n" not in text[last.end : each.begin])
        ):
            sure = max(last.confidence, each.confidence if each.type == last.type else 0.0)
            joined[-1] = PersonalDataSpan(last.type, last.begin, each.end, sure)
        elif (
            last is not None
            and last.type == "GPE"
            and each.type == "STREET_ADDRESS"
            and last.end == each.begin
            and _HAN.match(text, each.begin)
        ):
            joined[-1] = PersonalDataSpan(each.type, last.begin, each.end, each.confidence)
        else:
            joined.append(each)
    return joined

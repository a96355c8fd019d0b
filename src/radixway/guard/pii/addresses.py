"""Parts of one address as one: a street, its flat, its place and code, with nothing but commas between.

A place on a line of its own stands for itself, as in the data that the head was trained on. In Chinese the
place comes first, with nothing between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from radixway.pipeline import PersonalData

_PARTS = frozenset(["STREET_ADDRESS", "GPE", "ZIP_CODE"])
_BETWEEN = re.compile(r"[\s,>]*(?:[A-Z]{2,3}[\s,>]*)?")
"""Also the letters of a state or an army's post."""
_HAN = re.compile("[\u3400-\u9fff]")


def whole_addresses(found: Sequence[PersonalData], text: str) -> list[PersonalData]:
    """`found`, in order, with what belongs to a street joined to it; as sure as its surest street."""
    joined: list[PersonalData] = []
    for each in found:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.type == "STREET_ADDRESS"
            and each.type in _PARTS
            and _BETWEEN.fullmatch(text, last.end, each.begin)
            and (each.type != "GPE" or "\n" not in text[last.end : each.begin])
        ):
            sure = max(last.confidence, each.confidence if each.type == last.type else 0.0)
            joined[-1] = PersonalData(last.type, last.begin, each.end, sure)
        elif (
            last is not None
            and last.type == "GPE"
            and each.type == "STREET_ADDRESS"
            and last.end == each.begin
            and _HAN.match(text, each.begin)
        ):
            joined[-1] = PersonalData(each.type, last.begin, each.end, each.confidence)
        else:
            joined.append(each)
    return joined

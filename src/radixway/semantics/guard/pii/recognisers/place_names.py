"""Names of places that a postal code may stand beside."""

from __future__ import annotations

import re
from functools import cache

from radixway.semantics.guard.pii.gazetteers import read_list

_AFTER = re.compile(r" ([^\W\d_]{2,25}(?:[ \-][^\W\d_]{2,25})?)")
_WINDOW = 60
_MOST_WORDS = 3


def follows_place(text: str, begin: int) -> bool:
    """Return whether the one to three capitalised words before `begin` in `text` name a place."""
    before = text[max(0, begin - _WINDOW) : begin]
    name = before.rstrip(" ,")
    if len(name) == len(before):
        return False
    words = name.split(" ")[-_MOST_WORDS:]
    return any(_is_place(" ".join(words[first:])) for first in range(len(words)))


def precedes_place(text: str, end: int) -> bool:
    """Return whether the one or two words after `end` in `text` name a place."""
    match = _AFTER.match(text, end)
    return match is not None and (_is_place(match[1]) or _is_place(match[1].split(" ")[0]))


def _is_place(name: str) -> bool:
    return name[:1].isupper() and name.lower() in _places()


@cache
def _places() -> frozenset[str]:
    return frozenset(read_list("places"))

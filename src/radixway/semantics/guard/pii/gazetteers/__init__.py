"""Lists of words that are known as names, places, or parts of addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).parent

List = Literal[
    "first_names",
    "last_names",
    "places",
    "nrp",
    "groups",
    "eponyms",
    "places_zh",
    "top_level_domains",
    "card_issuers",
]


def read_list(name: List) -> Iterator[str]:
    """Yield the lines of the list `name`, comments apart."""
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


@dataclass(slots=True, frozen=True)
class WordGazetteer:
    """Bits by word, and phrases by their first word."""

    bits: Mapping[str, int]
    """Bits by single lower-case word."""
    phrases: Mapping[str, tuple[tuple[tuple[str, ...], int], ...]]
    """First word → (the others, bits), the longest first."""

    @classmethod
    def from_lists(cls, lists: Mapping[int, Iterator[str]]) -> WordGazetteer:
        """Build it from `lists`: entries by their bit."""
        bits: dict[str, int] = {}
        phrases: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for bit, lines in lists.items():
            for line in lines:
                first, *rest = line.split()
                if rest:
                    phrases.setdefault(first, []).append((tuple(rest), bit))
                else:
                    bits[first] = bits.get(first, 0) | bit
        for found in phrases.values():
            found.sort(key=lambda phrase: len(phrase[0]), reverse=True)
        return cls(bits, {first: tuple(found) for first, found in phrases.items()})


def word_kinds(name: Literal["en", "zh"]) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of words in `name`, whose lines are a kind, a colon and words."""
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        kind, colon, words = line.partition(":")
        if colon and not line.startswith("#"):
            yield kind, words.split()

"""Lists of names and places: what a word is known as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).parent

List = Literal[
    "first_names", "last_names", "places", "nrp", "groups", "eponyms", "places_zh", "top_level_domains"
]


def read_list(name: List) -> Iterator[str]:
    """The lines of a list, comments apart."""
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


@dataclass(slots=True, frozen=True)
class WordGazetteer:
    """Bits by word, and phrases by their first word."""

    bits: Mapping[str, int]
    """Of single words, lower case."""
    phrases: Mapping[str, tuple[tuple[tuple[str, ...], int], ...]]
    """First word → (the others, bits), the longest first."""

    @classmethod
    def from_lists(cls, lists: Mapping[int, Iterator[str]]) -> WordGazetteer:
        """`lists`: entries by their bit."""
        bits: dict[str, int] = {}
        phrases: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for bit, lines in lists.items():
            for line in lines:
                first, *rest = line.split()
                if rest:
                    phrases.setdefault(first, []).append((tuple(rest), bit))
                else:
                    bits[first] = bits.get(first, 0) | bit
        longest_first = {
            first: tuple(sorted(found, key=_length, reverse=True)) for first, found in phrases.items()
        }
        return cls(bits, longest_first)


def word_kinds(name: Literal["en", "zh"]) -> Iterator[tuple[str, list[str]]]:
    """Kinds of words, and those of each kind."""
    return read_kinds(FOLDER / f"{name}.txt")


def read_kinds(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Lines of a kind, a colon and words."""
    for line in path.read_text("utf-8").splitlines():
        kind, colon, words = line.partition(":")
        if colon and not line.startswith("#"):
            yield kind, words.split()


def _length(phrase: tuple[tuple[str, ...], int]) -> int:
    return len(phrase[0])

"""What remains: content words that only one of two texts has, weighed by how much a word tells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from radixway.semantics.cache.verifier.parsed_text import ParsedText
from radixway.semantics.cache.verifier.stems import strip_ending


@dataclass(frozen=True, slots=True)
class ResidualWords:
    """Content that the texts share and do not share, in weights of words (`weight`)."""

    shared: float
    only_one: float
    only_other: float

    @property
    def unmatched(self) -> float:
        """Share of all content that only one text has, 0 to 1."""
        total = 2 * self.shared + self.only_one + self.only_other
        return (self.only_one + self.only_other) / total if total else 0.0


def compare_content(one: ParsedText, other: ParsedText) -> ResidualWords:
    """Compare the content of two texts as sets of stems; near spellings count as the same word."""
    mine, theirs = dict.fromkeys(one.content), dict.fromkeys(other.content)
    only_one = [stem for stem in mine if stem not in theirs]
    only_other = [stem for stem in theirs if stem not in mine]
    shared = sum(word_weight(stem) for stem in mine if stem in theirs)
    for stem in list(only_one):
        near = next((candidate for candidate in only_other if is_spelt_alike(stem, candidate)), None)
        if near is not None:
            only_one.remove(stem)
            only_other.remove(near)
            shared += word_weight(stem)
    joined_one, joined_other = "".join(one.words), "".join(other.words)
    only_one = [stem for stem in only_one if not (len(stem) > 3 and stem in joined_other)]
    only_other = [stem for stem in only_other if not (len(stem) > 3 and stem in joined_one)]
    return ResidualWords(shared, sum(map(word_weight, only_one)), sum(map(word_weight, only_other)))


def word_weight(stem: str) -> float:
    """How much a word tells: short ones less."""
    return 1.0 if len(stem) > 3 else 0.8


@lru_cache(maxsize=8192)
def is_spelt_alike(one: str, other: str) -> bool:
    """One slip of the keyboard apart in a word of five letters or more, or of one root (`invest`, `investor`)."""
    short, long = sorted((strip_ending(one), strip_ending(other)), key=len)
    if len(short) < 4 or not (short.isalpha() and long.isalpha()):
        return False
    if long.startswith(short) and len(long) - len(short) <= 3:
        return True
    return (
        len(short) >= 5 and len(long) - len(short) <= 1 and short[0] == long[0] and _is_one_edit(short, long)
    )


def _is_one_edit(short: str, long: str) -> bool:
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1] + short[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped == long[at:]

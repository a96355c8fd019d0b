"""Chinese: characters, their neighbours, and what names and places are made of.

MiniLM reads English, and takes most Chinese characters for one unknown piece. So a text with Chinese in it is
read a character at a time by a tagger of its own: hashed characters and pairs of them, and what lists say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders.base import EncoderError, Floats
from radixway.semantics.encoders.heads.head_file import HeadFile
from radixway.semantics.guard.pii.gazetteers import read_list, word_kinds
from radixway.semantics.guard.pii.sequence_tagger import TaggerConvolutions, feature_matrix

CHARACTERS, PAIRS = 1 << 13, 1 << 14
"""Rows that characters, and pairs of them, are hashed into."""

_UNIT = re.compile(r"[^\W\d_\u2e80-\u9fff\uf900-\ufaff]+|\d+|\S")
_WORD = re.compile(r"[^\W\d_\u2e80-\u9fff\uf900-\ufaff]+")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_WORD_LISTS = """
surnames double_surnames given provinces cities countries suffixes organisations
address honorifics before_names time places nrp
"""
_KINDS = _WORD_LISTS.split()
"""Word lists; each marks where a word begins and where it continues."""
_SHAPES = (
    *("han", "latin", "digit 1", "digit 2", "digit 4", "digit 6", "digits", "space before", "line before"),
    *(":", ",", ".", "(", '"', "-", "mark", "age"),
)
FEATURES = (*(f"{side} {kind}" for kind in _KINDS for side in ("begins", "in")), *_SHAPES)
BIT = {name: 1 << at for at, name in enumerate(FEATURES)}
_MARKS = {
    character: BIT[kind]
    for kind, characters in {
        ":": ":：",
        ",": ",，、;；",
        ".": ".。!！?？",
        "(": "()（）【】[]《》",
        '"': "\"'“”‘’「」",
        "-": "-—~/",
    }.items()
    for character in characters
}
_LENGTHS = {1: BIT["digit 1"], 2: BIT["digit 2"], 4: BIT["digit 4"], 6: BIT["digit 6"]}
_PRIME = 0x9E3779B1


@dataclass(slots=True, frozen=True)
class CharacterUnits:
    """The characters of a text; words of other scripts and numbers are one each."""

    begin: list[int]
    end: list[int]
    characters: NDArray[np.int64]
    """[units]: rows of the table of characters."""
    pairs: NDArray[np.int64]
    """[units]: rows of the table of pairs, each with the unit before it."""
    bits: NDArray[np.int64]
    """[units]: sums of `FEATURES`."""

    def __len__(self) -> int:
        return len(self.begin)


class WritingScript(Enum):
    """Scripts of a text, by which its tagger is chosen."""

    LATIN = auto()
    """No Chinese in it; Cyrillic and the like are meant too."""
    MOSTLY_LATIN = auto()
    MOSTLY_CHINESE = auto()
    CHINESE_ALONE = auto()
    """No word of any other script."""


def detect_script(text: str) -> WritingScript:
    """Compare the Chinese characters of `text` with its words in other scripts."""
    chinese = len(_HAN.findall(text))
    if not chinese:
        return WritingScript.LATIN
    words = len(_WORD.findall(text))
    if not words:
        return WritingScript.CHINESE_ALONE
    return WritingScript.MOSTLY_CHINESE if chinese > words else WritingScript.MOSTLY_LATIN


def has_chinese(text: str) -> bool:
    """Return whether `text` has a Chinese character."""
    return _HAN.search(text) is not None


def split_units(text: str, begin: int = 0, end: int | None = None) -> CharacterUnits:
    """Split `text[begin:end]` into the units that the tagger reads; `end` None: to the end."""
    matches = list(_UNIT.finditer(text, begin, len(text) if end is None else end))
    begins = [found.start() for found in matches]
    ends = [found.end() for found in matches]
    hashes = np.array([_code(found[0]) for found in matches], np.uint32)
    before = np.concatenate([np.zeros(1, np.uint32), hashes[:-1]]) if len(hashes) else hashes
    return CharacterUnits(
        begins,
        ends,
        characters=(_mix_hashes(hashes) % CHARACTERS).astype(np.int64),
        pairs=(_mix_hashes(before * np.uint32(31) + hashes) % PAIRS).astype(np.int64),
        bits=np.array(_feature_bits(text, begins, ends), np.int64),
    )


@dataclass(slots=True, frozen=True)
class ChineseTagger:
    """Tags the units of a text."""

    characters: Floats
    """[CHARACTERS, hidden]"""
    pairs: Floats
    """[PAIRS, pair size]"""
    mix: Floats
    """[pair size, hidden]"""
    features: Floats
    """[FEATURES, hidden]"""
    bias: Floats
    convolutions: TaggerConvolutions

    @classmethod
    def from_head(cls, head: HeadFile) -> ChineseTagger:
        """Read `head`. Raises EncoderError for shapes that do not fit, KeyError where an array is missing."""
        characters, pairs = (
            head.arrays[f"han_{name}"].astype(np.float32)
            * head.arrays[f"han_{name}_scale"].astype(np.float32)
            for name in ("characters", "pairs")
        )
        mix, features, bias = (
            head.arrays[f"han_{name}"].astype(np.float32) for name in ("mix", "features", "bias")
        )
        read = cls(characters, pairs, mix, features, bias, TaggerConvolutions.from_arrays(head.arrays, "han"))
        if (len(read.characters), len(read.pairs), len(read.features)) != (CHARACTERS, PAIRS, len(FEATURES)):
            raise EncoderError("the PII head's tables of Chinese have other sizes than this version's")
        return read

    def likelihoods(self, units: CharacterUnits) -> Floats:
        """Return [units, tags], rows adding up to 1."""
        seen = self.characters[units.characters] + self.pairs[units.pairs] @ self.mix
        seen += feature_matrix(units.bits, len(FEATURES)) @ self.features + self.bias
        return self.convolutions.likelihoods(np.maximum(seen, 0))


@dataclass(slots=True, frozen=True)
class _LexiconBits:
    bits: dict[str, int]
    """Word → the bit of its beginning; that of its going on is the next one."""
    sizes: dict[str, tuple[int, ...]]
    """First character → the lengths of the words that begin so."""


@cache
def _lexicon_bits() -> _LexiconBits:
    bits: dict[str, int] = {}
    for kind, words in word_kinds("zh"):
        _add_words(bits, kind, words)
    _add_words(bits, "places", read_list("places_zh"))
    for name in ("nrp", "groups"):
        _add_words(bits, "nrp", (entry for entry in read_list(name) if not entry.isascii()))
    sizes: dict[str, set[int]] = {}
    for word in bits:
        sizes.setdefault(word[0], set()).add(len(word))
    return _LexiconBits(bits, {first: tuple(sorted(found)) for first, found in sizes.items()})


def _add_words(bits: dict[str, int], kind: str, words: Iterable[str]) -> None:
    for word in words:
        bits[word] = bits.get(word, 0) | BIT[f"begins {kind}"]


def _feature_bits(text: str, begins: list[int], ends: list[int]) -> list[int]:
    lists = _lexicon_bits()
    bits = [_shape(text, begin, end) for begin, end in zip(begins, ends, strict=True)]
    last = 0
    for at, begin in enumerate(begins):
        gap = text[last:begin]
        if gap or not at:
            bits[at] |= BIT["line before"] if "\n" in gap or not at else BIT["space before"]
        last = ends[at]
        for size in lists.sizes.get(text[begin], ()):
            if known := lists.bits.get(text[begin : begin + size], 0):
                bits[at] |= known
                for inside in range(at + 1, min(at + size, len(bits))):
                    bits[inside] |= known << 1
    return bits


def _shape(text: str, begin: int, end: int) -> int:
    first = text[begin]
    if first.isdigit():
        return _LENGTHS.get(end - begin, BIT["digits"])
    if first.isalpha():
        return (BIT["han"] | (BIT["age"] if first in "岁龄" else 0)) if _HAN.match(first) else BIT["latin"]
    return _MARKS.get(first, BIT["mark"])


def _code(unit: str) -> int:
    if unit[0].isdigit():
        return min(len(unit), 12)
    return ord(unit[0]) if len(unit) == 1 else 20 + min(len(unit), 10)


def _mix_hashes(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    mixed = hashes * np.uint32(_PRIME)
    return mixed ^ (mixed >> np.uint32(15))

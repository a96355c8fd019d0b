"""A text as its words and pieces of words, hashed: what a sentence model of one language does not see.

Hashing instead of a vocabulary (Weinberger et al. 2009) keeps what ships small and needs no look-ups: all
n-grams of one length are hashed at once, over the array of code points.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

LATIN_SIZES = (4,)
"""Characters in a piece of a word, the space before and after it included."""
HAN_SIZES = (1, 2, 3, 4)
"""Characters in a piece of Chinese: a word has one to four, and nothing stands between words."""

_HAN = r"\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RUNS = re.compile(rf"[{_HAN}]+|[^\W{_HAN}]+|[=+*/^<>{{}}\[\]()%$#\\]")
_DIGITS = re.compile(r"\d+")
_SPACE = 32
_PRIME = 0x9E3779B1


@dataclass(slots=True, frozen=True)
class NgramCounts:
    """Counts of n-grams: buckets ascending, each once."""

    buckets: NDArray[np.int64]
    """[n]"""
    counts: NDArray[np.float32]
    """[n]"""

    def fold_buckets(self, buckets: int) -> NgramCounts:
        """The same in as many buckets or fewer (2ⁿ)."""
        found, places = np.unique(self.buckets & (buckets - 1), return_inverse=True)
        return NgramCounts(found, np.bincount(places, self.counts, len(found)).astype(np.float32))


@dataclass(slots=True, frozen=True)
class TextFeatures:
    """The features that heads read besides the sentence vector."""

    words: NgramCounts
    """Words, and pairs of words."""
    pieces: NgramCounts
    """Pieces of words of 4 characters, pieces of Chinese of 1–4."""
    han_share: float
    """Share of Chinese or Japanese among letters and digits: 0 to 1."""
    foreign_share: float
    """Share of letters and digits that are neither Latin, Greek nor Chinese: kana, Hangul, Cyrillic …"""

    def fold_buckets(self, buckets: int) -> TextFeatures:
        """Return the features of `text_features` for as many buckets or fewer (2ⁿ), without reading the text
        again."""
        return replace(self, words=self.words.fold_buckets(buckets), pieces=self.pieces.fold_buckets(buckets))


def text_features(text: str, buckets: int) -> TextFeatures:
    """Return the n-grams of `text`, case and numbers' values apart; hashed into `buckets` (2ⁿ) per kind."""
    folded = _DIGITS.sub(_replace_number, unicodedata.normalize("NFKC", text).lower())
    runs = _RUNS.findall(folded)
    letters = _code_points(f" {' '.join(runs)} ")
    han = _is_han(letters)
    visible = max(1, int(np.count_nonzero(letters != _SPACE)))
    return TextFeatures(
        words=_count_hashes(_word_hashes(runs), buckets),
        pieces=_count_hashes(_piece_hashes(letters, han), buckets),
        han_share=int(np.count_nonzero(han)) / visible,
        foreign_share=int(np.count_nonzero(_is_foreign(letters))) / visible,
    )


def _replace_number(digits: re.Match[str]) -> str:
    """Replace numbers by their length, which tells years from small counts."""
    return "0" * min(len(digits[0]), 5)


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)


def _is_han(letters: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return whether letters that `_RUNS` accepts are CJK, radicals to ideographs, without Hangul."""
    han: NDArray[np.bool_] = (
        (letters >= 0x2E80) & (letters <= 0xFAFF) & ~((letters >= 0xA000) & (letters < 0xF900))
    )
    return han


def _is_foreign(letters: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return whether letters that `_RUNS` accepts are from Cyrillic on, without radicals and ideographs."""
    ideographs = _is_han(letters) & ~((letters >= 0x3040) & (letters <= 0x31FF))
    foreign: NDArray[np.bool_] = (letters >= 0x400) & (letters <= 0xFFFF) & ~ideographs
    return foreign


def _word_hashes(runs: list[str]) -> NDArray[np.uint32]:
    words = [run.encode("utf-8", "replace") for run in runs if not "\u2e80" <= run[0] <= "\ufaff"]
    singles = [zlib.crc32(word) for word in words]
    pairs = [zlib.crc32(second, first) for first, second in zip(singles, words[1:], strict=False)]
    return _mix_hashes(np.array(singles + [pair ^ 0x5BD1E995 for pair in pairs], np.uint32))


def _piece_hashes(letters: NDArray[np.uint32], han: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return hashes of all pieces within one word with its spaces, or one run of Chinese."""
    gaps = np.concatenate([[0], np.cumsum(letters == _SPACE)])
    chinese = np.concatenate([[0], np.cumsum(han)])
    found = []
    hashes = np.zeros(len(letters), np.uint32)
    for size in range(1, max(LATIN_SIZES + HAN_SIZES) + 1):
        starts = len(letters) - size + 1
        if starts <= 0:
            break
        hashes = hashes[:starts] * np.uint32(_PRIME) + letters[size - 1 :]
        keep = np.zeros(starts, bool)
        inside_chinese = chinese[size:] - chinese[:starts]
        if size in HAN_SIZES:
            keep |= inside_chinese == size
        if size in LATIN_SIZES:
            gap_inside = gaps[size - 1 : size - 1 + starts] - gaps[1 : 1 + starts]
            keep |= (inside_chinese == 0) & (gap_inside == 0)
        found.append(hashes[keep] + np.uint32(size))
    return _mix_hashes(np.concatenate(found)) if found else np.zeros(0, np.uint32)


def _mix_hashes(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix bits with MurmurHash3's finaliser."""
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _count_hashes(hashes: NDArray[np.uint32], buckets: int) -> NgramCounts:
    found, counts = np.unique((hashes & np.uint32(buckets - 1)).astype(np.int64), return_counts=True)
    return NgramCounts(found, counts.astype(np.float32))

"""A tagger over words: convolutions over their vectors (Collobert et al. 2011), and from tags to spans.

Tags: `B-` begins a span, `I-` goes on (Ramshaw and Marcus 1995).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.encoders.base import EncoderError, Floats
from radixway.semantics.guard.pii.labels import SOFT_TYPES

TAGS = ("O", *(f"{side}-{name}" for name in SOFT_TYPES for side in "BI"))
"""A head's columns: O, then B and I of each type."""

_IMPOSSIBLE, _MIN_PROBABILITY = -1e30, 1e-9
_WORTH_A_LOOK = 0.02
"""Likelihood below which no word or type is considered."""


@dataclass(slots=True, frozen=True)
class TaggedSpan:
    """Words in a row that are one thing."""

    type: str
    begin: int
    """Start in words."""
    end: int
    confidence: float
    """The mean likelihood of its type over its words."""


def decode_spans(likely: Floats) -> list[TaggedSpan]:
    """Return the spans of the likeliest sequence (Viterbi's algorithm). `likely`: [words, tags]."""
    open_words = np.flatnonzero(likely[:, 0] < 1 - _WORTH_A_LOOK)
    rows = likely[open_words].tolist()
    found: list[TaggedSpan] = []
    run: list[list[float]] = []
    following = [*open_words.tolist(), -1]
    for row, at, after in zip(rows, following, following[1:], strict=False):
        run.append(row)
        if after != at + 1:
            found += _decode_run(run, at + 1 - len(run))
            run = []
    return found


def _decode_run(run: list[list[float]], offset: int) -> list[TaggedSpan]:
    """Return the spans of words in a row, the first of which is the `offset`th."""
    kinds = [
        kind
        for kind in range(len(SOFT_TYPES))
        if any(row[2 * kind + 1] + row[2 * kind + 2] > _WORTH_A_LOOK for row in run)
    ]
    tags = [0, *(tag for kind in kinds for tag in (2 * kind + 1, 2 * kind + 2))]
    path = _likeliest_path([[log(max(row[tag], _MIN_PROBABILITY)) for tag in tags] for row in run])
    spans = []
    at = 0
    while at < len(path):
        tag, begin = path[at], at
        at += 1
        if tag:
            while at < len(path) and path[at] and path[at] % 2 == 0:
                at += 1
            kind = kinds[(tag - 1) // 2]
            sure = sum(row[2 * kind + 1] + row[2 * kind + 2] for row in run[begin:at]) / (at - begin)
            spans.append(TaggedSpan(SOFT_TYPES[kind], offset + begin, offset + at, min(sure, 1.0)))
    return spans


def _likeliest_path(logs: list[list[float]]) -> list[int]:
    """Return the tags. `logs`: [words, 1 + 2 · types]; an I, at an even place, follows its B or itself."""
    beginnings = range(1, len(logs[0]), 2)
    score = [*logs[0]]
    for begin in beginnings:
        score[begin + 1] = _IMPOSSIBLE
    back: list[list[int]] = []
    for row in logs[1:]:
        best = max(range(len(score)), key=score.__getitem__)
        came, new = [best], [score[best] + row[0]]
        for begin in beginnings:
            inside = begin + 1 if score[begin + 1] >= score[begin] else begin
            came += best, inside
            new += score[best] + row[begin], score[inside] + row[begin + 1]
        back.append(came)
        score = new
    path = [max(range(len(score)), key=score.__getitem__)]
    for came in reversed(back):
        path.append(came[path[-1]])
    return path[::-1]


def feature_matrix(bits: NDArray[np.int64], features: int) -> Floats:
    """Return [rows, features]: the lowest `features` of each of `bits` as 0 or 1."""
    unpacked = np.unpackbits(bits.astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    matrix: Floats = unpacked[:, :features].astype(np.float32)
    return matrix


WIDTH = 5
"""Words that a convolution sees, two on either side."""


@dataclass(slots=True, frozen=True)
class TaggerConvolutions:
    """Two convolutions and a softmax, over vectors of words."""

    first: Floats
    """[WIDTH · hidden, hidden]"""
    first_bias: Floats
    second: Floats
    """[WIDTH · hidden, hidden]"""
    second_bias: Floats
    out: Floats
    """[hidden, tags]"""
    out_bias: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]], prefix: str) -> TaggerConvolutions:
        """Read arrays named `{prefix}_first` …. Raises EncoderError for shapes that do not fit, KeyError."""
        names = ("first", "first_bias", "second", "second_bias", "out", "out_bias")
        read = cls(*(arrays[f"{prefix}_{name}"].astype(np.float32) for name in names))
        hidden = len(read.first_bias)
        wide = (WIDTH * hidden, hidden)
        if read.first.shape != wide or read.second.shape != wide or read.out.shape[0] != hidden:
            raise EncoderError(f"the PII head's {prefix} convolutions do not fit each other")
        return read

    def likelihoods(self, hidden: Floats) -> Floats:
        """Return [words, tags], rows adding up to 1, of [words, hidden]."""
        seen = hidden + _positive(_convolve(hidden, self.first, self.first_bias))
        seen = seen + _positive(_convolve(seen, self.second, self.second_bias))
        logits = seen @ self.out + self.out_bias
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares: Floats = likely / likely.sum(axis=1, keepdims=True)
        return shares


def _convolve(rows: Floats, weights: Floats, bias: Floats) -> Floats:
    side = WIDTH // 2
    count, size = rows.shape
    padded = np.zeros((count + 2 * side, size), np.float32)
    padded[side : side + count] = rows
    windows: Floats = np.ndarray((count, WIDTH * size), np.float32, padded, strides=padded.strides)
    result: Floats = windows @ weights + bias
    return result


def _positive(values: Floats) -> Floats:
    result: Floats = np.maximum(values, 0)
    return result


_PARTS = frozenset(["STREET_ADDRESS", "GPE", "ZIP_CODE"])
_BETWEEN = re.compile(r"[\s,>]*(?:[A-Z]{2,3}[\s,>]*)?")
"""Including the letters of a state or an army's post."""
_STREET = re.compile(
    r" (?:street|road|avenue|lane|drive|boulevard|court|square|terrace|crescent|highway|parkway)\b",
    re.IGNORECASE,
)
"""The end of a street's name, where the head took it for something else."""
_HAN = re.compile("[\u3400-\u9fff]")


def join_address_parts(found: Sequence[PersonalDataSpan], text: str) -> list[PersonalDataSpan]:
    """Join what belongs to a street to it in `found`, which is in order; as sure as its surest street.

    Parts have nothing but commas between them. A place on a line of its own stands for itself, as in the data
    that the head was trained on. In Chinese the place comes first, with nothing between.
    """
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

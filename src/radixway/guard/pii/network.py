"""A tagger over words: each one's vector, then convolutions over its neighbours (Collobert et al. 2011)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radixway.encoders.encoding import EncoderError, Floats

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
        """Arrays named `{prefix}_first` …. Raises EncoderError for shapes that do not fit, KeyError."""
        names = ("first", "first_bias", "second", "second_bias", "out", "out_bias")
        read = cls(*(arrays[f"{prefix}_{name}"].astype(np.float32) for name in names))
        hidden = len(read.first_bias)
        wide = (WIDTH * hidden, hidden)
        if read.first.shape != wide or read.second.shape != wide or read.out.shape[0] != hidden:
            raise EncoderError(f"the PII head's {prefix} convolutions do not fit each other")
        return read

    def likelihoods(self, hidden: Floats) -> Floats:
        """[words, tags], rows adding up to 1, of [words, hidden]."""
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

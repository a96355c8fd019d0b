"""A text in parts: an attack may stand anywhere in it, and a mean over all of it would drown a short one.

blocks    0 1 2 3 4 5 6 7 8 9 …        32 pieces each, see `TextEncoding.blocks`
windows   [0 … 7] [4 … 11] …           of the whole text, where it has no more blocks
closer    [0 1] [1 2] [2 3] …          where there are more than two
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from radixway.encoders.encoding import Floats, Ints

WINDOW, STEP = 8, 4
"""Blocks."""
CLOSER = 2
CHARACTERS, OVERLAP = 1500, 200
"""Of the parts whose words are counted."""

Spans = NDArray[np.int64]


def segment_spans(blocks: int) -> tuple[Spans, Spans]:
    """[n, 2] and [m, 2]: the first block and one after the last, of each window and each closer look."""
    begins = np.arange(0, max(blocks - WINDOW, 0) + STEP, STEP) if blocks > WINDOW else np.zeros(1, np.int64)
    windows = np.stack([begins, np.minimum(begins + WINDOW, blocks)], axis=1)
    if blocks <= CLOSER:
        return windows, np.zeros((0, 2), np.int64)
    begins = np.arange(blocks - CLOSER + 1)
    return windows, np.stack([begins, begins + CLOSER], axis=1)


def pool_segments(blocks: Floats, tokens: Ints, parts: Spans) -> Floats:
    """[n, 5 · size]: of each part what `blocks` has of each block: means by tokens, and maxima."""
    fifth = blocks.shape[1] // 5
    means = np.r_[0 : 2 * fifth, 4 * fifth : 5 * fifth]
    totals = np.zeros((len(blocks) + 1, len(means)), np.float32)
    np.cumsum(blocks[:, means] * tokens[:, None].astype(np.float32), axis=0, out=totals[1:])
    counts = np.concatenate([[0], np.cumsum(tokens)]).astype(np.float32)
    begins, ends = parts[:, 0], parts[:, 1]
    found = np.empty((len(parts), 5 * fifth), np.float32)
    found[:, means] = (totals[ends] - totals[begins]) / (counts[ends] - counts[begins])[:, None]
    most = blocks[:, 2 * fifth : 4 * fifth]
    for row, (begin, end) in enumerate(parts):
        found[row, 2 * fifth : 4 * fifth] = most[begin:end].max(axis=0)
    return found


def split_passages(text: str) -> list[str]:
    """The text in parts of at most `CHARACTERS`, each repeating the end of the one before it."""
    if len(text) <= CHARACTERS:
        return [text]
    step = CHARACTERS - OVERLAP
    return [text[at : at + CHARACTERS] for at in range(0, len(text) - OVERLAP, step)]

"""Rows as numbers: parts of each text as the encoder sees them, its n-grams, and what wordings are in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jailbreak_head.rows import Row
from jailbreak_head.states import Blocks, read_blocks
from radixway.semantics.encoders import TextEncoder
from radixway.semantics.encoders.heads.ngrams import text_features
from radixway.semantics.guard.jailbreak import jailbreak_head
from radixway.semantics.guard.jailbreak.jailbreak_head import HAN_ALONE
from radixway.semantics.guard.jailbreak.patterns import find_patterns

BUCKETS = 1 << 15
CLOSER_TAKEN = 3
"""Of the closer looks at a harmless text one in so many is trained on: they overlap, and are many."""
FILLED = 0.3
"""Share of a part that an attack must fill for the part to count as one: what carries it is harmless."""


@dataclass(slots=True, frozen=True)
class Features:
    """All rows."""

    parts: NDArray[np.float32]
    """[parts, 5 · size]"""
    part_rows: NDArray[np.int64]
    """[parts]: whose they are."""
    part_labels: NDArray[np.int8]
    """[parts]: 1 attack, 0 not, -1 nobody can say."""
    is_closer: NDArray[np.bool_]
    """[parts]"""
    ngrams: sparse.csr_array
    """[passages, 2 · BUCKETS]: 1 + log count."""
    passage_rows: NDArray[np.int64]
    """[passages]"""
    han: NDArray[np.float64]
    """[rows]: how far each counts as Chinese, in [0, 1]."""
    evidence: NDArray[np.float64]
    """[rows]: of known wordings, see `Weights.wordings`."""


def read_features(rows: Sequence[Row], encoder: TextEncoder, cache: Path) -> Features:
    """Reads what `cache` does not have yet."""
    shares = [text_features(row.text, 1 << 10).han_share for row in rows]
    han = np.minimum(1.0, np.array(shares) / HAN_ALONE)
    known = read_blocks(encoder, [row.text for row, share in zip(rows, han, strict=True) if share < 1], cache)
    parts, part_rows, labels, closer = [], [], [], []
    for index, row in enumerate(rows):
        blocks = known.get(row.text) if han[index] < 1 else None
        if blocks is None or not len(blocks.tokens):
            continue
        windows, closer_looks = jailbreak_head.segment_spans(len(blocks.tokens))
        spans = np.concatenate([windows, closer_looks])
        parts.append(jailbreak_head.pool_segments(blocks.rows.astype(np.float32), blocks.tokens, spans))
        part_rows += [index] * len(spans)
        is_closer = [False] * len(windows) + [True] * len(closer_looks)
        labels += [_label(row, blocks, *span, each) for span, each in zip(spans, is_closer, strict=True)]
        closer += is_closer
    ngrams, passage_rows = _ngrams(rows)
    return Features(
        np.concatenate(parts),
        np.array(part_rows),
        np.array(labels, np.int8),
        np.array(closer),
        ngrams,
        passage_rows,
        han,
        np.array([_evidence(row.text) for row in rows]),
    )


def _label(row: Row, blocks: Blocks, begin: int, end: int, is_closer: bool) -> int:
    if not row.is_attack:
        return -1 if is_closer and begin % CLOSER_TAKEN else 0
    if row.end is None:
        return -1 if is_closer else 1
    first, last = int(blocks.spans[begin, 0]), int(blocks.spans[end - 1, 1])
    common = min(last, row.end) - max(first, row.begin)
    if common <= 0:
        return 0
    return 1 if common >= FILLED * (last - first) else -1


def _ngrams(rows: Sequence[Row]) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    whose, columns, values, passage_rows = [], [], [], []
    for index, row in enumerate(rows):
        for passage in jailbreak_head.split_passages(row.text):
            found = text_features(passage, BUCKETS)
            columns.append(np.concatenate([found.words.buckets, found.pieces.buckets + BUCKETS]))
            values.append(1 + np.log(np.concatenate([found.words.counts, found.pieces.counts])))
            whose.append(np.full(len(columns[-1]), len(passage_rows)))
            passage_rows.append(index)
    entries = np.concatenate(values).astype(np.float32), (np.concatenate(whose), np.concatenate(columns))
    return sparse.csr_array(entries, shape=(len(passage_rows), 2 * BUCKETS)), np.array(passage_rows)


def _evidence(text: str) -> float:
    return -sum(log(1 - min(confidence, 0.99)) for confidence in find_patterns(text).confidences.values())

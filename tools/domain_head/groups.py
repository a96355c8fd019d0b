"""Which texts are nearly the same: they must stand on one side of a split."""

import numpy as np
from scipy import sparse

from evaluation.grouping import DisjointSets
from radixway.semantics.encoders.heads.ngrams import text_features

ALIKE = 0.7
"""Cosine of two texts' rarer words, pairs of words and pieces of Chinese, above which they count as one."""
_BUCKETS = 1 << 20
_MOST_FREQUENT = 400  # texts; an n-gram in more of them tells nothing, and costs most of the time
_ROWS_AT_ONCE = 1000


def near_duplicates(texts: list[str]) -> list[str]:
    """For each text the name of its group: the group's first text in order of the alphabet."""
    alike = _rare_ngrams(texts)
    sets = DisjointSets(len(texts))
    for begin in range(0, len(texts), _ROWS_AT_ONCE):
        cosines = (alike[begin : begin + _ROWS_AT_ONCE] @ alike.T).tocoo()
        close = cosines.data > ALIKE
        for left, right in zip(cosines.row[close] + begin, cosines.col[close], strict=True):
            sets.join(int(left), int(right))
    seen: dict[str, int] = {}
    for index, text in enumerate(texts):
        sets.join(index, seen.setdefault(text, index))
    names: dict[int, str] = {}
    for index, text in enumerate(texts):
        root = sets.root(index)
        names[root] = min(names.get(root, text), text)
    return [names[sets.root(index)] for index in range(len(texts))]


def _rare_ngrams(texts: list[str]) -> sparse.csr_array:
    """[texts, buckets], rows of unit length, weighted by rarity."""
    rows, columns = [], []
    for index, text in enumerate(texts):
        features = text_features(text, _BUCKETS)
        buckets = features.words.buckets if features.han_share < 0.3 else features.pieces.buckets
        rows.append(np.full(len(buckets), index))
        columns.append(buckets)
    row, column = np.concatenate(rows), np.concatenate(columns)
    frequency = np.bincount(column, minlength=_BUCKETS)
    keep = frequency[column] <= _MOST_FREQUENT
    row, column = row[keep], column[keep]
    values = np.log(len(texts) / frequency[column])
    matrix = sparse.csr_array((values, (row, column)), shape=(len(texts), _BUCKETS))
    lengths = np.sqrt(matrix.multiply(matrix).sum(axis=1))
    return sparse.csr_array(matrix.multiply(1 / np.maximum(lengths, 1e-12)[:, None]))

"""Rows to what a tagger is taught: of every word the tags that it may have."""

import numpy as np
from numpy.typing import NDArray

from pii_head.rows import Row
from radixway.semantics.guard.pii.labels import SOFT_TYPES
from radixway.semantics.guard.pii.sequence_tagger import TAGS
from radixway.semantics.guard.pii.word_features import WordSpans

ANYTHING = (1 << len(TAGS)) - 1
"""Nothing is known, nothing is learnt."""


def allowed_tags(row: Row, words: WordSpans) -> NDArray[np.int64]:
    """[words]: bits of the tags that each may have.

    A corpus in which nobody looked for dates says of a number without a label that it is nothing, or a date.
    A word of which a span covers a part only teaches nothing.
    """
    allowed = np.full(len(words), 1, np.int64)
    for span in row.possible:
        allowed[_meeting(words, span.begin, span.end)] |= 0b11 << (2 * SOFT_TYPES.index(span.type) + 1)
    for span in row.spans:
        inside = np.flatnonzero(_meeting(words, span.begin, span.end))
        if not len(inside):
            continue
        begin_tag = 2 * SOFT_TYPES.index(span.type) + 1
        allowed[inside] = 1 << (begin_tag + 1)
        allowed[inside[0]] = 1 << begin_tag
        cut = inside[(words.begin[inside] < span.begin) | (words.end[inside] > span.end)]
        allowed[cut] = ANYTHING
    for begin, end in row.unknown:
        allowed[_meeting(words, begin, end)] = ANYTHING
    return allowed


def _meeting(words: WordSpans, begin: int, end: int) -> NDArray[np.bool_]:
    """[words]: which of them have a character of the stretch."""
    meeting: NDArray[np.bool_] = (words.end > begin) & (words.begin < end)
    return meeting

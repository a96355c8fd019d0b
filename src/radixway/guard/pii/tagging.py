"""Labels of words to spans: `B-` begins one, `I-` goes on (Ramshaw and Marcus 1995)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from radixway.encoders.encoding import Floats

SOFT_TYPES = ("PERSON", "ORGANIZATION", "GPE", "NRP", "AGE", "STREET_ADDRESS", "DATE_TIME", "ZIP_CODE")
"""What no pattern tells: types of which a head is asked."""
TAGS = ("O", *(f"{side}-{name}" for name in SOFT_TYPES for side in "BI"))
"""What a head says of a word, in the order of its columns: O, then B and I of each type."""

_SURELY_NOTHING = 0.985
"""Likelihood of O from which no span is looked for: nearly every word of nearly every text."""
_IMPOSSIBLE = -1e30


@dataclass(slots=True, frozen=True)
class TaggedSpan:
    """Words in a row that are one thing."""

    type: str
    begin: int
    """In words."""
    end: int
    confidence: float
    """The mean likelihood of its type over its words."""


def spans_of(likely: Floats) -> list[TaggedSpan]:
    """The likeliest sequence's spans, of [words, tags]; where nothing is likely nothing is looked for."""
    open_words = np.flatnonzero(likely[:, 0] < _SURELY_NOTHING)
    if not len(open_words):
        return []
    found: list[TaggedSpan] = []
    for run in np.split(open_words, np.flatnonzero(np.diff(open_words) > 1) + 1):
        begin = int(run[0])
        part = likely[begin : begin + len(run)]
        found += _spans(_likeliest_path(np.log(np.maximum(part, 1e-9)).tolist()), part, begin)
    return found


def _likeliest_path(logs: list[list[float]]) -> list[int]:
    """Tags by Viterbi's algorithm: an I follows a B or an I of its type, and nothing else is asked."""
    tags = range(len(logs[0]))
    score = [_IMPOSSIBLE if _is_inside(tag) else logs[0][tag] for tag in tags]
    back: list[list[int]] = []
    for row in logs[1:]:
        best = max(tags, key=score.__getitem__)
        came, new = [], []
        for tag in tags:
            origin = best
            if _is_inside(tag):
                origin = tag if score[tag] >= score[tag - 1] else tag - 1
            came.append(origin)
            new.append(score[origin] + row[tag])
        back.append(came)
        score = new
    path = [max(tags, key=score.__getitem__)]
    for came in reversed(back):
        path.append(came[path[-1]])
    return path[::-1]


def _is_inside(tag: int) -> bool:
    return tag > 0 and tag % 2 == 0


def _spans(path: list[int], likely: Floats, offset: int) -> list[TaggedSpan]:
    spans = []
    at = 0
    while at < len(path):
        kind = (path[at] - 1) // 2
        end = at + 1
        if path[at]:
            while end < len(path) and path[end] == 2 * kind + 2:
                end += 1
            sure = float(likely[at:end, 2 * kind + 1 : 2 * kind + 3].sum(axis=1).mean())
            spans.append(TaggedSpan(SOFT_TYPES[kind], offset + at, offset + end, min(sure, 1.0)))
        at = end
    return spans

"""What is added to each type's logits, so that 0.7 is the confidence from which findings are best counted."""

from collections.abc import Callable, Iterable

import numpy as np

from evaluation.pii import Labelled, LabelledText, SetFigures, count, merged
from pii_head.fit import Array
from pii_head.rows import Row
from radixway.semantics.encoders.base import Floats
from radixway.semantics.guard.pii.labels import SOFT_TYPES
from radixway.semantics.guard.pii.sequence_tagger import decode_spans

THRESHOLD = 0.7
STEPS = tuple(np.arange(0.0, 1.01, 0.25).tolist())
"""What is tried, in logits."""
NO_WORSE = 0.01
"""A difference in quality that a few rows make: the smallest shift within it is taken."""
MOST_FLAGGED = {"PERSON": 0.015, "STREET_ADDRESS": 0.01}
"""Of texts that name nobody, and have no address, at most such a share may be flagged."""

Read = tuple[Row, list[int], list[int], Floats]
"""A row, where its words begin and end, and their tags' likelihoods."""


def shifts(read: list[Read]) -> dict[str, float]:
    """By type: the smallest among those that flag few and have nearly the best overlap and exact F1."""
    tried = {step: _figures(read, step) for step in STEPS}
    best = {}
    for kind in SOFT_TYPES:
        flagged = MOST_FLAGGED.get(kind, 1)
        allowed = [step for step in STEPS if tried[step].share_flagged(kind) <= flagged] or [STEPS[0]]
        quality = {step: _quality(tried[step], kind) for step in allowed}
        good = [step for step in allowed if quality[step] >= max(quality.values()) - NO_WORSE]
        best[kind] = min(good, key=abs)
    return best


def shifted(bias: Array, by: dict[str, float]) -> Array:
    """[tags] plus each type's shift."""
    return (bias.astype(np.float32) + _of_tags(by)).astype(bias.dtype)


def read_rows(
    rows: Iterable[Row], read: Callable[[Row], tuple[list[int], list[int], Floats] | None]
) -> list[Read]:
    """Rows that have words, with what `read` says of them."""
    return [(row, *told) for row in rows if (told := read(row)) is not None]


def _quality(figures: SetFigures, kind: str) -> float:
    counts = figures.types.get(kind)
    return counts.overlap_f1 + counts.exact_f1 if counts else 0.0


def _figures(read: list[Read], step: float) -> SetFigures:
    """Of all rows together, every type shifted alike; a row is judged by the types it was annotated with."""
    figures = SetFigures()
    factors = np.exp(_of_tags(dict.fromkeys(SOFT_TYPES, step)))
    for row, begins, ends, likely in read:
        moved = likely * factors
        moved /= moved.sum(axis=1, keepdims=True)
        found = [
            Labelled(span.type, begins[span.begin], ends[span.end - 1])
            for span in decode_spans(moved)
            if span.confidence >= THRESHOLD
        ]
        free = row.source.startswith("free/")
        spans = tuple(Labelled(span.type, span.begin, span.end) for span in row.spans)
        judged = frozenset() if free else row.annotated
        text = LabelledText(row.text, spans, row.source, True if free else None)
        count(figures, text, merged(found, row.text), judged)
    return figures


def _of_tags(by: dict[str, float]) -> Floats:
    """[tags]: B and I of a type alike, 0 for O."""
    return np.array([0.0, *(by[kind] for kind in SOFT_TYPES for _ in "BI")], np.float32)

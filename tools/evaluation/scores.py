"""How good a classifier's readings are: accuracy, calibration, and what is taken for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from radixway.semantics.encoders.heads.domain_head import DomainReading

BINS = 15
"""Of confidence, for the calibration error (Guo et al. 2017)."""


@dataclass(slots=True, frozen=True)
class LabelScores:
    """Figures of one label."""

    rows: int
    """That have it."""
    precision: float
    """Share of the rows given it that have it; 0 where none was given it."""
    recall: float
    """Share of its rows that were given it; 0 where there are none."""
    f1: float
    """Harmonic mean of the two."""


@dataclass(slots=True, frozen=True)
class Scores:
    """Figures over one set of labelled texts."""

    rows: int
    accuracy: float
    top2: float
    """Share of rows whose label is among the two likeliest."""
    calibration_error: float
    """Expected: mean distance of confidence and accuracy over `BINS` bins, weighted by rows."""
    recall: dict[str, float]
    """Share of a label's rows that were found."""
    precision: dict[str, float]
    """Share of the rows given a label that have it."""
    confusion: dict[str, dict[str, int]]
    """Rows by label, then by the label they were given; what does not occur is left out."""

    def per_label(self) -> dict[str, LabelScores]:
        """Of each label that a row has or was given, in order of the alphabet."""
        found = {}
        for label in sorted({*self.recall, *self.precision}):
            recall, precision = self.recall.get(label, 0.0), self.precision.get(label, 0.0)
            f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
            rows = sum(self.confusion.get(label, {}).values())
            found[label] = LabelScores(rows, precision, recall, f1)
        return found


def score(labels: Sequence[str], readings: Sequence[DomainReading]) -> Scores:
    """Compare readings with what is true. Raises ValueError for no rows."""
    if not labels:
        raise ValueError("no rows to score")
    pairs = list(zip(labels, readings, strict=True))
    cells = Counter((label, reading.label) for label, reading in pairs)
    given, true = Counter(reading.label for reading in readings), Counter(labels)
    confusion: dict[str, dict[str, int]] = {}
    for (label, found), rows in sorted(cells.items()):
        confusion.setdefault(label, {})[found] = rows
    return Scores(
        rows=len(pairs),
        accuracy=sum(label == reading.label for label, reading in pairs) / len(pairs),
        top2=sum(label in _likeliest(reading, 2) for label, reading in pairs) / len(pairs),
        calibration_error=_calibration_error(pairs),
        recall={label: cells[label, label] / true[label] for label in sorted(true)},
        precision={label: cells[label, label] / given[label] for label in sorted(given)},
        confusion=confusion,
    )


def _likeliest(reading: DomainReading, count: int) -> list[str]:
    return sorted(reading.distribution, key=reading.distribution.__getitem__, reverse=True)[:count]


def _calibration_error(pairs: list[tuple[str, DomainReading]]) -> float:
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for label, reading in pairs:
        bins[min(int(reading.confidence * BINS), BINS - 1)].append(
            (reading.confidence, label == reading.label)
        )
    gaps = (abs(sum(confidence - right for confidence, right in each)) for each in bins)
    return sum(gaps) / len(pairs)

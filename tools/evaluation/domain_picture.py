"""A picture of a domain head's figures: how far its confidence can be trusted, and what it takes for what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evaluation.domain import SetFigures
from evaluation.scores import BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(figures: Mapping[str, SetFigures], path: Path) -> None:
    """Reliability and confusion of each set, a row each, as SVG or PNG. Raises ValueError for neither."""
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: pictures end in .svg or .png")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6 * len(figures)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(figures), 2, squeeze=False)
    for (left, right), (name, each) in zip(panels, figures.items(), strict=True):
        _draw_reliability(left, name, each)
        _draw_confusion(right, each)
    figure.savefig(path)


def _draw_reliability(axes: Axes, name: str, figures: SetFigures) -> None:
    """Accuracy over mean confidence of each bin that has rows; trusted on the diagonal (Guo et al. 2017)."""
    confidence = np.array([reading.confidence for _, reading in figures.readings])
    right = np.array([label == reading.label for label, reading in figures.readings])
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    filled = [bins == each for each in range(BINS) if (bins == each).any()]
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    axes.scatter(
        [confidence[each].mean() for each in filled],
        [right[each].mean() for each in filled],
        s=[max(12, 1500 * each.mean()) for each in filled],
        alpha=0.7,
    )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    scores = figures.scores
    axes.set_title(
        f"{name}: {scores.rows} rows, accuracy {scores.accuracy:.3f}, ECE {scores.calibration_error:.3f}"
    )


def _draw_confusion(axes: Axes, figures: SetFigures) -> None:
    """Rows are true labels, columns what they were read as; each row adds up to one."""
    confusion = figures.scores.confusion
    labels = sorted({*confusion, *(found for row in confusion.values() for found in row)})
    counts = np.array([[confusion.get(label, {}).get(found, 0) for found in labels] for label in labels])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right")
    axes.set_yticks(range(len(labels)), labels)
    axes.set(xlabel="read as", ylabel="is")
    for row, column in zip(*counts.nonzero(), strict=True):
        dark = shares[row, column] > 0.5
        axes.text(
            column,
            row,
            str(counts[row, column]),
            ha="center",
            va="center",
            fontsize=7,
            color="white" if dark else "black",
        )

"""A picture of tool selection: recall by how many tools are offered, and what a least score does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.tools import OFFERED, Recalls, ToolFigures

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(figures: ToolFigures, path: Path) -> None:
    """A panel for each kind of queries, one for thresholds, as SVG or PNG. Raises ValueError for neither."""
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: pictures end in .svg or .png")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = {
        "one tool wanted": figures.one,
        "several wanted, all found": figures.several,
        "one wanted of the query's own list": figures.lists,
    }
    asked = {title: recalls for title, recalls in kinds.items() if recalls.queries}
    figure = Figure(figsize=(5 * (len(asked) + 1), 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(asked) + 1, squeeze=False)[0]
    for axes, (title, recalls) in zip(panels, asked.items(), strict=False):
        _draw_recalls(axes, title, recalls)
    _draw_thresholds(panels[-1], figures)
    figure.savefig(path)


def _draw_recalls(axes: Axes, title: str, recalls: Recalls) -> None:
    for approach, shares in recalls.at.items():
        axes.plot(list(shares), list(shares.values()), marker="o", label=approach)
    axes.set(ylim=(0, 1), xlabel="tools offered", ylabel="queries that get all they want")
    axes.set_title(f"{title}: {recalls.queries} queries")
    axes.legend(fontsize=7)


def _draw_thresholds(axes: Axes, figures: ToolFigures) -> None:
    lines = {
        f"right in {OFFERED}": [row.right_without for row in figures.thresholds],
        "with examples": [row.right_with for row in figures.thresholds],
        "right, own list": [row.right_in_lists for row in figures.thresholds],
        "false offers": [row.false_offers for row in figures.thresholds],
    }
    for name, shares in lines.items():
        known = [
            (row.least_score, s) for row, s in zip(figures.thresholds, shares, strict=True) if s is not None
        ]
        if known:
            axes.plot(*zip(*known, strict=True), marker="o", label=name)
    axes.set(ylim=(0, 1), xlabel="least score", ylabel="share of queries")
    axes.legend(fontsize=7)

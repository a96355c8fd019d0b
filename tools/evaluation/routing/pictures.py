"""Quality over cost, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evaluation.routing.pools import PoolFigures
from evaluation.routing.tiers import TierFigures

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(path: Path, pools: Sequence[PoolFigures], tiers: Sequence[TierFigures]) -> None:
    """A panel for each pool and each pair of models, as SVG or PNG. Raises ValueError for neither."""
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: pictures end in .svg or .png")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = (len(pools) + len(tiers) + 1) // 2
    figure = Figure(figsize=(13, 4.5 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for panel, pool in zip(panels, pools, strict=False):
        _draw_pool(panel, pool)
    for panel, pair in zip(panels[len(pools) :], tiers, strict=False):
        _draw_tiers(panel, pair)
    for panel in panels[len(pools) + len(tiers) :]:
        panel.set_axis_off()
    figure.savefig(path)


def _draw_pool(axes: Axes, figures: PoolFigures) -> None:
    """Single models, ways of choosing, and `preference: cheap` by its least share."""
    for model, (quality, cost) in figures.singles.items():
        axes.scatter(cost, quality, color="grey", s=14)
        axes.annotate(model, (cost, quality), fontsize=5, color="grey")
    for name, routed in figures.routed.items():
        axes.scatter(routed.cost, routed.quality, s=40, marker="D", label=name)
    axes.plot(
        [cost for _, _, cost in figures.curve],
        [quality for _, quality, _ in figures.curve],
        marker=".",
        label="cheap, predicted category",
    )
    axes.set(
        title=f"{figures.pool}: {figures.questions} questions",
        xlabel="billions of active parameters per token",
        ylabel="answered rightly",
    )
    axes.legend(fontsize=7)


def _draw_tiers(axes: Axes, figures: TierFigures) -> None:
    shares = np.linspace(0, 1, len(figures.oracle))
    axes.plot([0, 1], [figures.weak_quality, figures.strong_quality], "--", color="grey", label="random")
    for name, scored in figures.scored.items():
        axes.plot(shares, scored.curve, label=f"{name}, APGR {scored.apgr:.3f}")
    axes.plot(shares, figures.oracle, ":", color="black", label="who needs it is known")
    axes.set(
        title=f"{figures.table}: {figures.weak} and {figures.strong}, learnt on {figures.trained_on}",
        xlabel=f"share of calls to {figures.strong}",
        ylabel="answered rightly",
    )
    axes.legend(fontsize=7)

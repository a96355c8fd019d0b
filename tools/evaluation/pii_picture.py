"""A picture of how well personal data is found: F1 by type, set by set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.pii import SetFigures


def draw(figures: Mapping[str, SetFigures], path: Path) -> None:
    """Two bars a type, overlap and exact F1, a row a set; as SVG or PNG. Raises ValueError for neither."""
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: pictures end in .svg or .png")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {name: each for name, each in figures.items() if each.types}
    if not shown:
        raise ValueError("nothing to draw: no row has a span")
    figure = Figure(figsize=(9, 3.2 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, each) in zip(
        figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown.items(), strict=True
    ):
        kinds = sorted(each.types)
        places = range(len(kinds))
        overlap, exact = (
            [each.types[kind].overlap_f1 for kind in kinds],
            [each.types[kind].exact_f1 for kind in kinds],
        )
        axes.bar([place - 0.2 for place in places], overlap, 0.4, label="overlap")
        axes.bar([place + 0.2 for place in places], exact, 0.4, label="exact")
        axes.set_xticks(list(places), kinds, rotation=30, ha="right")
        axes.set(ylim=(0, 1), ylabel="F1", title=f"{name}: {each.rows} rows")
        axes.legend(loc="lower right")
    figure.savefig(path)

"""Recall against false positives over all thresholds, and each family's share at the one in force."""

from __future__ import annotations

from pathlib import Path

from evaluation.jailbreak import Figures


def draw(figures: Figures, path: Path) -> None:
    """Into a .svg or .png. Raises ValueError for another ending; needs matplotlib."""
    from matplotlib.figure import Figure

    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: must end with .svg or .png")
    picture = Figure(figsize=(11, max(4, 0.28 * len(figures.families))), layout="constrained")
    curve, bars = picture.subplots(1, 2)
    points = figures.curve(200)
    recall = [each for _, each, _ in points if each is not None]
    wrong = [each for _, _, each in points if each is not None]
    if recall and wrong:
        curve.plot(wrong, recall)
        curve.plot([figures.false_positives or 0], [figures.recall or 0], "o", label=f"{figures.threshold:g}")
        curve.set_xlim(0, 0.2)
        curve.legend(title="threshold")
    curve.set_xlabel("harmless texts taken for attacks")
    curve.set_ylabel("attacks found")
    names = list(figures.families)[::-1]
    shares = [figures.families[name].flagged(figures.threshold) for name in names]
    colours = ["tab:red" if figures.families[name].is_attack else "tab:blue" for name in names]
    bars.barh(names, shares, color=colours)
    bars.set_xlabel("taken for attacks (red: they are)")
    picture.savefig(path)

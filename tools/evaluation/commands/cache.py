"""`evaluate.py cache`: how often the semantic cache is right."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixway.cli.terminal import exit_with_error, out

if TYPE_CHECKING:
    from evaluation.cache import CacheFigures, Judged, ListFigures


def cache(
    data: Annotated[
        Path | None,
        typer.Option(help="JSON lines of labelled pairs, .gz or not: {one, other, same} or {a, b, label}."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw recall over false hits: .svg, .png or .pdf.")
    ] = None,
) -> None:
    """Recall and false hits of the semantic cache, cosine alone beside it."""
    try:
        from evaluation import cache as measure
        from radixway.core.config import EncodersConfig
        from radixway.semantics.cache import verify
        from radixway.semantics.encoders import EncoderError, load_encoder
    except ImportError as error:
        exit_with_error(f"evaluate.py cache needs radixway[semantic]: {error}")
    try:
        pairs = measure.read_pairs(data or measure.PAIRS)
        encoder = load_encoder(EncodersConfig())
    except (measure.NotPairs, EncoderError) as error:
        exit_with_error(str(error))
    judged = measure.judge(pairs, encoder, verify)
    figures = measure.figures(judged)
    lists = [
        measure.list_figures(name, measure.judge(measure.read_list(path, same=same), encoder, verify))
        for name, path, same in (
            ("must hit", measure.MUST_HIT, True),
            ("must miss", measure.MUST_MISS, False),
        )
    ]
    _show(str(data or "shipped pairs"), figures, lists)
    if json_file is not None:
        written = {"figures": asdict(figures), "lists": [asdict(each) for each in lists]}
        json_file.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if plot is not None:
        _draw(plot, judged)


def _show(name: str, figures: CacheFigures, lists: list[ListFigures]) -> None:
    from rich.table import Table

    table = Table(title=f"{name}: {figures.same} pairs with one answer, {figures.different} with two")
    for heading in ("", "threshold", "recall", "false hits", "precision", "AUC"):
        table.add_column(heading, justify="left" if not heading else "right")
    for curve in figures.curves:
        for row, point in enumerate(curve.points):
            shares = (point.recall, point.false_hits, point.precision)
            first = row == 0
            table.add_row(
                curve.name if first else "",
                f"{point.threshold:.2f}",
                *map(_share, shares),
                _share(curve.auc) if first else "",
                end_section=row + 1 == len(curve.points),
            )
    out.print(table)
    for title, refused in (
        ("lost at 0.85, by reason", figures.refused_same),
        ("told apart at 0.85, by reason", figures.refused_different),
    ):
        out.print(f"{title}: " + (", ".join(f"{why} {count}" for why, count in refused.items()) or "none"))
    for each in lists:
        out.print(f"{each.name}: {each.hits} of {each.pairs} hit (cosine alone {each.hits_by_cosine})")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _draw(path: Path, judged: list[Judged]) -> None:
    """Recall over false hits: along the cosine, alone and with the verifier, and along its likelihood."""
    from evaluation.cache import NotPairs, trails

    try:
        from matplotlib.figure import Figure
    except ImportError:
        exit_with_error("--plot needs matplotlib, which radixway[simulate] brings")
    try:
        drawn = trails(judged)
    except NotPairs as error:
        exit_with_error(f"nothing to draw: {error}")
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, false_hits, recall in drawn:
        axes.plot(false_hits, recall, label=name)
    axes.set(xlabel="false hits", ylabel="recall", xlim=(0, 0.2), ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        exit_with_error(f"{path} cannot be drawn: {error}")

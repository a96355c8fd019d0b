"""`evaluate.py domain`: how well the domain head tells fourteen domains apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixway.cli.terminal import exit_with_error, out

if TYPE_CHECKING:
    from evaluation.domain import SetFigures


def domain(
    data: Annotated[
        list[Path] | None,
        typer.Option(help="JSONL with `question` and `category`, perhaps `set`; may be .gz. Again for more."),
    ] = None,
    head: Annotated[Path | None, typer.Option(help="A head's file; by default the one that ships.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them there: .svg or .png.")] = None,
    confusion: Annotated[bool, typer.Option(help="Say what each domain was taken for.")] = False,
) -> None:
    """Accuracy, calibration and figures per domain, on prompts that the head was not trained on."""
    try:
        figures = _figures(data, head)
        _tell(figures, confusion)
        if json_file:
            _write(figures, json_file)
        if plot:
            from evaluation.domain_picture import draw

            draw(figures, plot)
    except ModuleNotFoundError as error:
        exit_with_error(f"{error.name} is not installed: pip install 'radixway[semantic,simulate]'")
    except (OSError, ValueError) as error:
        exit_with_error(str(error))


def _figures(data: list[Path] | None, path: Path | None) -> Mapping[str, SetFigures]:
    from evaluation.domain import ROWS, evaluate_domain, read_rows
    from radixway.core.config import EncodersConfig
    from radixway.semantics.encoders import EncoderError, load_encoder
    from radixway.semantics.encoders.heads import DOMAIN_HEAD, DomainHead

    rows = [row for each in data or [ROWS] for row in read_rows(each)]
    try:
        encoder = load_encoder(EncodersConfig())
        return evaluate_domain(DomainHead.load_file(path or DOMAIN_HEAD, encoder), encoder, rows)
    except EncoderError as error:
        exit_with_error(str(error))


def _tell(figures: Mapping[str, SetFigures], confusion: bool) -> None:
    from rich.table import Table

    sets = Table("set", "rows", "accuracy", "in the first two", "ECE", box=None)
    for name, each in figures.items():
        scores = each.scores
        shares = (scores.accuracy, scores.top2, scores.calibration_error)
        sets.add_row(name, str(scores.rows), *(f"{share:.3f}" for share in shares))
    out.print(sets)
    for name, each in figures.items():
        columns = ["rows", "precision", "recall", "F1"] + ["taken for"] * confusion
        table = Table("domain", *columns, box=None, title=name, title_justify="left")
        for label, row in each.scores.per_label().items():
            cells = [str(row.rows), f"{row.precision:.2f}", f"{row.recall:.2f}", f"{row.f1:.2f}"]
            wrong = {found: n for found, n in each.scores.confusion.get(label, {}).items() if found != label}
            told = ", ".join(f"{found} {n}" for found, n in sorted(wrong.items(), key=lambda item: -item[1]))
            table.add_row(label, *cells, *([told] * confusion))
        out.print(table)


def _write(figures: Mapping[str, SetFigures], path: Path) -> None:
    import dataclasses
    import json

    told = {name: dataclasses.asdict(each.scores) for name, each in figures.items()}
    path.write_text(json.dumps(told, indent=1) + "\n", "utf-8")

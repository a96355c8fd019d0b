"""`evaluate.py guard pii`: how well personal data is found, and how often where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixway.cli.terminal import exit_with_error, out

if TYPE_CHECKING:
    from evaluation.pii import SetFigures


def pii(
    data: Annotated[
        list[Path] | None,
        typer.Option(help="JSONL with `text` and `spans` of type, begin, end; may be .gz. Again for more."),
    ] = None,
    head: Annotated[Path | None, typer.Option(help="A head's file; by default the one that ships.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="A token classifier's directory in place of the head.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Confidence from which a finding counts.")
    ] = 0.7,
    structured: Annotated[
        bool, typer.Option("--structured", help="The recognisers alone, of the types that have a form.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them there: .svg or .png.")] = None,
) -> None:
    """F1 per type, by overlap and to the character, and what is flagged in prompts that name nobody."""
    try:
        if structured:
            from evaluation.commands.pii_structured import tell_structured

            tell_structured(data or [], threshold, json_file)
            return
        figures = _figures(data, head, model, threshold)
        _tell(figures)
        if json_file:
            _write(figures, json_file)
        if plot:
            from evaluation.pii_picture import draw

            draw(figures, plot)
    except ModuleNotFoundError as error:
        exit_with_error(f"{error.name} is not installed: pip install 'radixway[semantic,simulate]'")
    except (OSError, ValueError) as error:
        exit_with_error(str(error))


def _figures(
    data: list[Path] | None, head: Path | None, model: Path | None, threshold: float
) -> Mapping[str, SetFigures]:
    import asyncio

    from evaluation.pii import ROWS, evaluate_pii, read_rows
    from radixway.core.config import EncodersConfig
    from radixway.core.pipeline import GuardUnavailableError
    from radixway.semantics.encoders import start_service
    from radixway.semantics.guard.pii.finder import DefaultPersonalDataFinder
    from radixway.semantics.guard.pii.pii_head import PII_HEAD

    rows = [row for each in data or [ROWS] for row in read_rows(each)]

    async def search() -> Mapping[str, SetFigures]:
        encoders = start_service(EncodersConfig())
        try:
            finder = DefaultPersonalDataFinder(
                encoders, head=head or PII_HEAD, model=model, threshold=threshold
            )
            return await evaluate_pii(finder.find, rows, threshold)
        finally:
            await encoders.aclose()

    try:
        return asyncio.run(search())
    except GuardUnavailableError as error:
        exit_with_error(str(error))


def _tell(figures: Mapping[str, SetFigures]) -> None:
    from rich.table import Table

    for name, each in figures.items():
        title = f"{name}: {each.rows} rows"
        table = Table("type", "spans", "precision", "recall", "overlap F1", "exact F1", box=None, title=title)
        table.title_justify = "left"
        kinds = sorted(each.types.items(), key=lambda item: -item[1].labelled)
        for kind, counts in [*kinds, ("all", each.overall())] if kinds else []:
            shares = (counts.precision, counts.recall, counts.overlap_f1, counts.exact_f1)
            table.add_row(kind, str(counts.labelled), *(f"{share:.3f}" for share in shares))
        if kinds:
            out.print(table)
        if each.free:
            shares_of = sorted(each.flagged, key=each.share_flagged, reverse=True)
            told = ", ".join(f"{kind} in {each.share_flagged(kind):.1%}" for kind in shares_of)
            out.print(f"{name}: of {each.free} rows without personal data flagged: {told or 'none'}")


def _write(figures: Mapping[str, SetFigures], path: Path) -> None:
    import json

    path.write_text(
        json.dumps({name: each.told() for name, each in figures.items()}, indent=1) + "\n", "utf-8"
    )

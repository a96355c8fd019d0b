"""`evaluate.py guard jailbreak`: how well the guard tells attacks on the prompt from other texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixway.cli.terminal import exit_with_error, out

if TYPE_CHECKING:
    from evaluation.jailbreak import Figures


def jailbreak(
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSONL with `text`, `label` (1, 0), perhaps `family`, `speaker`; may be .gz. Again for more."
        ),
    ] = None,
    threshold: Annotated[float, typer.Option(help="Risk from which a text is an attack.")] = 0.7,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them there: .svg or .png.")] = None,
) -> None:
    """Recall and false positives per family, over texts that nothing was trained on."""
    try:
        figures = _figures(data, threshold)
        _tell(figures)
        if json_file:
            _write(figures, json_file)
        if plot:
            from evaluation.jailbreak_picture import draw

            draw(figures, plot)
    except ModuleNotFoundError as error:
        exit_with_error(f"{error.name} is not installed: pip install 'radixway[semantic,simulate]'")
    except (OSError, ValueError) as error:
        exit_with_error(str(error))


def _figures(data: list[Path] | None, threshold: float) -> Figures:
    import asyncio

    from evaluation.jailbreak import ROWS, read_rows
    from radixway.core.pipeline import GuardUnavailableError

    rows = [row for each in data or [ROWS] for row in read_rows(each)]

    async def judge() -> Figures:
        from evaluation.jailbreak import evaluate_jailbreak
        from radixway.core.config import EncodersConfig
        from radixway.semantics.encoders import start_service
        from radixway.semantics.guard.jailbreak import build_attack_judge

        encoders = start_service(EncodersConfig())
        try:
            return await evaluate_jailbreak(build_attack_judge(encoders, threshold=threshold), rows)
        finally:
            await encoders.aclose()

    try:
        return asyncio.run(judge())
    except GuardUnavailableError as error:
        exit_with_error(str(error))


def _tell(figures: Figures) -> None:
    from rich.table import Table

    def share(value: float | None) -> str:
        return "–" if value is None else f"{value:.3f}"

    out.print(
        f"threshold {figures.threshold:g}: recall {share(figures.recall)}, "
        f"false positives {share(figures.false_positives)}, F1 {share(figures.f1)}"
    )
    table = Table("family", "rows", "recall", "false positives", box=None)
    for name, each in figures.families.items():
        flagged = share(each.flagged(figures.threshold))
        table.add_row(name, str(len(each.risks)), *((flagged, "") if each.is_attack else ("", flagged)))
    out.print(table)


def _write(figures: Figures, path: Path) -> None:
    import json

    families = {
        name: {"attacks": each.is_attack, "rows": len(each.risks), "flagged": each.flagged(figures.threshold)}
        for name, each in figures.families.items()
    }
    told = {
        "threshold": figures.threshold,
        "recall": figures.recall,
        "false_positives": figures.false_positives,
        "f1": figures.f1,
        "families": families,
        "curve": figures.curve(),
    }
    path.write_text(json.dumps(told, indent=1) + "\n", "utf-8")

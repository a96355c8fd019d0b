"""`evaluate.py choices`: whether realistic prompts get a sensible model, bare and wrapped, and its cost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from radixway.cli.terminal import exit_with_error, out


def choices(
    data: Annotated[Path | None, typer.Option(help="Other prompts, as data/choices/prompts.toml.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    show_wrong: Annotated[bool, typer.Option(help="Show prompts that get another model.")] = False,
) -> None:
    """Sensible models for fifty prompts in four shapes, under two configurations, and their cost."""
    from rich.table import Table

    from evaluation.choices import CONFIGURATIONS, PROMPTS, evaluate_choices, read_prompts

    document = {}
    table = Table("configuration", "shape", "rows", "sensible", "95 %", "cost / always dearest", box=None)
    for configuration in CONFIGURATIONS:
        try:
            found = asyncio.run(evaluate_choices(configuration, read_prompts(data or PROMPTS)))
        except (OSError, ValueError, KeyError) as error:
            exit_with_error(str(error))
        for shape, each in found.items():
            share, (low, high) = each.sensible, each.sensible.interval
            row = (str(share.rows), f"{share.value:.2f}", f"{low:.2f} to {high:.2f}", f"{each.cost:.2f}")
            table.add_row(configuration, shape, *row)
            if show_wrong:
                for text, model in each.wrong:
                    out.print(f"{configuration}, {shape}: {model}: {text}", highlight=False)
        document[configuration] = {
            shape: {"right": each.sensible.right, "rows": each.sensible.rows, "cost": each.cost}
            for shape, each in found.items()
        }
    out.print(table)
    if json_file:
        json_file.write_text(json.dumps(document, indent=1) + "\n", "utf-8")

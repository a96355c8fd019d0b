"""`evaluate.py conversations`: how follow-ups and changes of subject are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from radixway.cli.terminal import exit_with_error, out


def conversations(
    data: Annotated[Path | None, typer.Option(help="A TOML file as data/conversations.toml.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    show_wrong: Annotated[
        bool, typer.Option(help="Show the conversations looked at that are wrong.")
    ] = False,
) -> None:
    """Follow-ups and changes of subject that are seen, and hard conversations that stay as hard."""
    from rich.table import Table

    from evaluation.conversations import CONVERSATIONS, evaluate_conversations, wrong_turns

    file = data or CONVERSATIONS
    try:
        shares = evaluate_conversations(file)
    except (OSError, ValueError, KeyError) as error:
        exit_with_error(f"{file}: {error}")
    table = Table("last turn", "rows", "right", "95 %", box=None)
    for name, share in shares.items():
        low, high = share.interval
        table.add_row(name, str(share.rows), f"{share.value:.3f}", f"{low:.2f} to {high:.2f}")
    out.print(table)
    for wrong in wrong_turns(file) if show_wrong else ():
        out.print(json.dumps(wrong, ensure_ascii=False))
    if json_file:
        document = {name: {"right": share.right, "rows": share.rows} for name, share in shares.items()}
        json_file.write_text(json.dumps(document, indent=1) + "\n", "utf-8")

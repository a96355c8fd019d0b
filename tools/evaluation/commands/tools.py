"""`evaluate.py tools`: how often the right tool is among those offered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixway.cli.terminal import exit_with_error, out

if TYPE_CHECKING:
    from evaluation.tools import Recalls, ToolFigures


def tools(
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSONL, may be .gz, of {query, tool} or {messages, tools, expected}. Again for more."
        ),
    ] = None,
    tools_file: Annotated[
        Path | None, typer.Option("--tools", help="JSONL of {tool, description}: the database.")
    ] = None,
    examples: Annotated[int, typer.Option(help="At most so many example queries for a tool.", min=0)] = 30,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them there: .svg or .png.")] = None,
) -> None:
    """Recall with and without example queries, the tokens that are left, and what a least score costs."""
    try:
        figures = _figures(data, tools_file, examples)
        _tell(figures)
        if json_file:
            import dataclasses
            import json

            json_file.write_text(json.dumps(dataclasses.asdict(figures), indent=1) + "\n", "utf-8")
        if plot:
            from evaluation.tools_picture import draw

            draw(figures, plot)
    except ModuleNotFoundError as error:
        extra = "simulate" if error.name == "matplotlib" else "semantic"
        exit_with_error(f"{error.name} is not installed: pip install 'radixway[{extra}]'")
    except (OSError, ValueError) as error:
        exit_with_error(str(error))


def _figures(data: list[Path] | None, tools_file: Path | None, examples: int) -> ToolFigures:
    from evaluation.tool_queries import read_queries, read_tools
    from evaluation.tools import QUERIES, TOOLS, evaluate_tools
    from radixway.core.config import EncodersConfig
    from radixway.semantics.encoders import EncoderError, load_encoder

    queries = [query for path in data or QUERIES for query in read_queries(path)]
    try:
        encoder = load_encoder(EncodersConfig())
    except EncoderError as error:
        exit_with_error(str(error))
    return evaluate_tools(encoder, read_tools(tools_file or TOOLS), queries, examples=examples)


def _tell(figures: ToolFigures) -> None:
    from rich.table import Table

    out.print(f"{figures.tools} tools, {figures.examples:.1f} examples each on average")
    _tell_recalls("one tool wanted", figures.one)
    _tell_recalls("several wanted, all found", figures.several)
    _tell_recalls("one wanted of the query's own list", figures.lists)
    shares = ", ".join(f"{share:.1%} for {depth}" for depth, share in figures.tokens.items())
    out.print(f"\nshare of the tool tokens that is left: {shares}")
    out.print("\nwhat a least score does")
    columns = ("least score", "right in 5", "with examples", "offered", "right, own list", "false offers")
    table = Table(*columns, box=None)
    for row in figures.thresholds:
        shares_at = (
            row.right_without,
            row.right_with,
            row.offered_with,
            row.right_in_lists,
            row.false_offers,
        )
        table.add_row(
            f"{row.least_score:.2f}", *("" if each is None else f"{each:.3f}" for each in shares_at)
        )
    out.print(table)


def _tell_recalls(title: str, recalls: Recalls) -> None:
    from rich.table import Table

    if not recalls.queries:
        return
    depths = next(iter(recalls.at.values()))
    out.print(f"\n{title}: {recalls.queries} queries")
    table = Table("", *(f"R@{depth}" for depth in depths), box=None)
    for approach, shares in recalls.at.items():
        table.add_row(approach, *(f"{share:.3f}" for share in shares.values()))
    out.print(table)

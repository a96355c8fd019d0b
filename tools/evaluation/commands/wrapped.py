"""`evaluate.py wrapped`: how well questions are read in the shapes in which applications send them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radixway.cli.terminal import exit_with_error, out

if TYPE_CHECKING:
    from evaluation.wrapped import Share


def wrapped(
    data: Annotated[
        list[Path] | None,
        typer.Option(help="JSONL with `question` and `category`, perhaps `set`; may be .gz. Again for more."),
    ] = None,
    shapes: Annotated[
        Path | None, typer.Option(help="TOML with other shapes; the form is that of data/shapes.toml.")
    ] = None,
    rows: Annotated[int, typer.Option(help="At most so many of each set and language.")] = 350,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
) -> None:
    """Accuracy of the domain for bare questions and in twenty shapes: JSON, retrieval, agents, e-mails …"""
    from evaluation.domain import ROWS, read_rows
    from evaluation.wrapped import SHAPES, evaluate_wrapped, language_of

    try:
        labelled = [row for each in data or [ROWS] for row in read_rows(each)]
        is_right = _domain_reader()
    except (OSError, ValueError) as error:
        exit_with_error(str(error))
    sets: dict[str, list[tuple[str, str]]] = {}
    for row in labelled:
        name = f"{row.set}, {language_of(row.text)}"
        if len(sets.setdefault(name, [])) < rows:
            sets[name].append((row.text, row.label))
    figures = {name: evaluate_wrapped(each, is_right, shapes or SHAPES) for name, each in sets.items()}
    for name, shares in figures.items():
        _tell(name, shares)
    if json_file:
        document = {
            name: {shape: {"right": share.right, "rows": share.rows} for shape, share in shares.items()}
            for name, shares in figures.items()
        }
        json_file.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _domain_reader() -> Callable[[Mapping[str, Any], str], bool]:
    """Return a check of the domain of a body's question. Raises ValueError without an encoder."""
    from radixway.core.config import EncodersConfig
    from radixway.semantics.encoders import EncoderError, load_encoder
    from radixway.semantics.encoders.heads import DOMAIN_HEAD, DomainHead
    from radixway.semantics.signals.question import read_question

    try:
        encoder = load_encoder(EncodersConfig())
        head = DomainHead.load_file(DOMAIN_HEAD, encoder)
    except EncoderError as error:
        raise ValueError(str(error)) from None

    @cache
    def domain_of(text: str) -> str:
        return head.classify_domain(text, encoder.encode([text])[0]).label

    return lambda body, label: domain_of(read_question(body).text) == label


def _tell(name: str, shares: Mapping[str, Share]) -> None:
    from rich.table import Table

    from evaluation.wrapped import BARE, Share

    others = [share for shape, share in shares.items() if shape != BARE]
    every = Share(sum(share.right for share in others), sum(share.rows for share in others))
    table = Table("shape", "rows", "right", "95 %", box=None, title=name, title_justify="left")
    for shape, share in {**shares, "all but bare": every}.items():
        if share.rows:
            low, high = share.interval
            table.add_row(shape, str(share.rows), f"{share.value:.3f}", f"{low:.2f} to {high:.2f}")
    out.print(table)

"""`evaluate.py guard pii --structured`: the recognisers alone, of the types that have a form."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radixway.cli.terminal import out

if TYPE_CHECKING:
    from evaluation.pii_structured import StructuredFigures


def tell_structured(data: Sequence[Path], threshold: float, json_file: Path | None) -> None:
    """Precision and recall per type, and rows where something was found that is not labelled.

    `data`: none for the set that ships. Raises ValueError for what cannot be read.
    """
    from evaluation.pii import ROWS, LabelledText, read_rows
    from evaluation.pii_structured import count_structured

    sets: dict[str, list[LabelledText]] = {}
    for row in (row for each in data or [ROWS] for row in read_rows(each)):
        sets.setdefault(row.set, []).append(row)
    figures = {name: count_structured(rows, threshold) for name, rows in sets.items()}
    for name, each in figures.items():
        _tell(name, each)
    if json_file:
        json_file.write_text(json.dumps(_told(figures), indent=1) + "\n", "utf-8")


def _tell(name: str, figures: StructuredFigures) -> None:
    from rich.table import Table

    table = Table("type", "spans", "found", "precision", "recall", "exact", box=None, title=name)
    table.title_justify = "left"
    kinds = sorted(figures.types.items(), key=lambda item: -item[1].labelled)
    for kind, counts in [*kinds, ("all", figures.overall)] if kinds else []:
        shares = (_share(counts.precision), _share(counts.recall), str(counts.exact))
        table.add_row(kind, str(counts.labelled), str(counts.found), *shares)
    if kinds:
        out.print(table)
    share = f"{figures.flagged} of {figures.rows} rows ({figures.flagged_share:.2%})"
    out.print(f"{name}: {share} flagged for what is not labelled")


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.3f}"


def _told(figures: Mapping[str, StructuredFigures]) -> dict[str, object]:
    """Counts by set and type, without the texts' places."""
    return {
        name: {
            "rows": each.rows,
            "flagged": each.flagged,
            "types": {kind: dataclasses.asdict(counts) for kind, counts in each.types.items()},
        }
        for name, each in figures.items()
    }

"""How benchmarks show their figures: a table for people, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

Cell = str | int | float | None


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print `rows` under `columns`: the first column to the left, the others to the right, None as –."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    rule = "  ".join("─" * width for width in widths)
    print(f"\n{title}\n{rule}")
    for line in [list(columns), *cells]:
        first, *others = line
        padded = [first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))]
        print("  ".join(padded).rstrip())
        if line == list(columns):
            print(rule)


def write_json(path: Path | str, data: Mapping[str, object]) -> None:
    """Write `data` to `path`, making the folder if need be."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _text(cell: Cell) -> str:
    """Three significant digits, never an exponent."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        digits = 2 if abs(cell) < 10 else 1 if abs(cell) < 100 else 0
        return f"{cell:,.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell

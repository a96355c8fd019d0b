"""A console that survives the reader of its output, and tables for terminals of any width."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text


class ServerConsole(Console):
    """Falls silent when its reader is gone (`radixway up | head -1`), where rich would end the process."""

    def on_broken_pipe(self) -> None:
        """Everything written to the same stream from now on is lost, without an error."""
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self.file.fileno())


_GAP = 2
_MIN_TEXT_WIDTH = 12
"""Narrowest text column."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The heading of a column, and its treatment where the terminal is narrow."""

    name: str
    is_number: bool = False
    """On the right, and never folded."""
    is_id: bool = False
    """Never folded, so that it can be copied."""
    drop_order: int = 0
    """Order of leaving out columns, highest first; 0 stays."""


class FittedTable:
    """Rows of text. Where a terminal is too narrow for them, columns that may go are left out, texts are
    folded, and at last each row is printed as lines of its own. A pipe gets all columns in long lines."""

    def __init__(self, *columns: TableColumn) -> None:
        self._columns = columns
        self._rows: list[tuple[str, ...]] = []
        self._styles: list[str] = []

    def add_row(self, *cells: str, style: str = "") -> None:
        """A cell for each column, shown in `style` (rich's) on a terminal."""
        assert len(cells) == len(self._columns)
        self._rows.append(tuple(map(printable, cells)))
        self._styles.append(style)

    def print_to(self, console: Console) -> None:
        """Print it on `console`, as wide as the terminal, or as COLUMNS says."""
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else console.width if console.is_terminal else None
        text = Text("\n").join(Text(line, style) for line, style in self._styled_lines(width))
        console.print(text, soft_wrap=True)

    def lines(self, width: int | None) -> list[str]:
        """The table in lines of at most `width` characters; None: as long as they get."""
        return [line for line, _ in self._styled_lines(width)]

    def _styled_lines(self, width: int | None) -> list[tuple[str, str]]:
        shown = list(range(len(self._columns)))
        dropped: list[int] = []
        while True:
            widths = self._fit_widths(shown, width, fold=False)
            droppable = [at for at in shown if self._columns[at].drop_order]
            if widths is not None or not droppable:
                break
            dropped.append(max(droppable, key=lambda at: self._columns[at].drop_order))
            shown.remove(dropped[-1])
        widths = widths or self._fit_widths(shown, width, fold=True)
        if widths is None:
            return self._record_lines()
        rows = (self._header_lines(shown, widths), *self._row_lines(shown, widths))
        lines = [(line, style) for row, style in zip(rows, ("", *self._styles), strict=True) for line in row]
        if dropped:
            names = ", ".join(self._columns[at].name for at in sorted(dropped))
            lines.append((f" no room for: {names}", ""))
        return lines

    def _fit_widths(self, shown: Sequence[int], width: int | None, *, fold: bool) -> list[int] | None:
        cells = [max((cell_len(row[at]) for row in self._rows), default=0) for at in shown]
        names = [self._columns[at].name for at in shown]
        full = [max(cell, cell_len(name)) for cell, name in zip(cells, names, strict=True)]
        if width is None or _total_width(full) <= width:
            return full
        # The words of a heading may stand below each other.
        words = [max(map(cell_len, name.split()), default=0) for name in names]
        widths = [max(cell, word) for cell, word in zip(cells, words, strict=True)]
        columns = [self._columns[at] for at in shown]
        texts = [at for at, column in enumerate(columns) if not (column.is_number or column.is_id)]
        while fold and _total_width(widths) > width:
            widest = max(texts, key=lambda at: widths[at], default=None)
            if widest is None or widths[widest] <= max(_MIN_TEXT_WIDTH, words[widest]):
                return None
            widths[widest] -= 1
        return widths if _total_width(widths) <= width else None

    def _header_lines(self, shown: Sequence[int], widths: Sequence[int]) -> list[str]:
        names = (self._columns[at].name for at in shown)
        stacks = [_wrap_name(name, width) for name, width in zip(names, widths, strict=True)]
        return self._join_columns(shown, widths, stacks)

    def _row_lines(self, shown: Sequence[int], widths: Sequence[int]) -> list[list[str]]:
        return [
            self._join_columns(
                shown,
                widths,
                [
                    chop_cells(row[at], width) if width else [""]
                    for at, width in zip(shown, widths, strict=True)
                ],
            )
            for row in self._rows
        ]

    def _join_columns(
        self, shown: Sequence[int], widths: Sequence[int], stacks: Sequence[Sequence[str]]
    ) -> list[str]:
        lines = []
        for depth in range(max(map(len, stacks), default=0)):
            line = ""
            for at, width, stack in zip(shown, widths, stacks, strict=True):
                text = stack[depth] if depth < len(stack) else ""
                padding = " " * (width - cell_len(text))
                padded = padding + text if self._columns[at].is_number else text + padding
                line += (" " if not line else " " * _GAP) + padded
            lines.append(line.rstrip())
        return lines

    def _record_lines(self) -> list[tuple[str, str]]:
        width = max(cell_len(column.name) for column in self._columns)
        lines: list[tuple[str, str]] = []
        for row, style in zip(self._rows, self._styles, strict=True):
            lines += [("", "")] if lines else []
            for column, cell in zip(self._columns, row, strict=True):
                name = column.name + " " * (width - cell_len(column.name))
                lines.append((f" {name}{' ' * _GAP}{cell}".rstrip(), style))
        return lines


def printable(text: str) -> str:
    """Return foreign `text` in one line without control characters."""
    return "".join(char if char.isprintable() else "·" for char in text)


def _total_width(widths: Sequence[int]) -> int:
    return 1 + sum(widths) + _GAP * (len(widths) - 1)


def _wrap_name(name: str, width: int) -> list[str]:
    lines = [""]
    for word in name.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines

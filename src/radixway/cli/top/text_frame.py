"""One frame for scripts and logs: as text of 80 columns or more, or as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from radixway.cli.top.gateway_view import PartUnavailable, TopView
from radixway.cli.top.tables import (
    REQUEST_COLUMNS,
    TILES,
    UNKNOWN,
    WORKER_COLUMNS,
    request_row,
    sparkline,
    strip_control,
    worker_row,
)

_A_ROW = 4


def render_text(view: TopView, words: str = "", *, width: int = 80, rows: int = 10) -> str:
    """Return the frame of `view` in lines of at most `width`, with at most `rows` workers and requests."""
    return "\n".join(line.rstrip() for line in _render_lines(view, words, max(width, 40), rows))


def render_json(view: TopView, words: str = "") -> dict[str, Any]:
    """Return the frame of `view` as JSON values.

    Rates are per second, times in seconds, shares from 0 to 1, unknowns null.
    """
    workers: Any = None
    if not isinstance(view.workers, PartUnavailable):
        workers = [
            msgspec.to_builtins(worker)
            | (asdict(figures) if (figures := view.worker_figures.get(worker.name)) is not None else {})
            for worker in view.filter_workers(words)
        ]
    closed = {
        name: part.why
        for name, part in (("workers", view.workers), ("requests", view.requests))
        if isinstance(part, PartUnavailable)
    }
    return {
        "gateway": view.url,
        "away": view.away,
        "figures": None if view.figures is None else asdict(view.figures),
        "workers": workers,
        "requests": None if "requests" in closed else msgspec.to_builtins(view.filter_requests(words)),
        "closed": closed,
    }


def headline(view: TopView) -> str:
    """Return the state of the gateway of `view`, in a line."""
    if view.away is not None:
        return f"{view.url}  away: {view.away}"
    if view.figures is None:
        return f"{view.url}  waiting for a second look"
    return f"{view.url}  {view.figures.ready:.0f} of {view.figures.workers:.0f} workers ready"


def _render_lines(view: TopView, words: str, width: int, rows: int) -> Iterator[str]:
    yield strip_control(f"radixway top  {headline(view)}", width)
    yield ""
    past = view.past
    figures = {tile: UNKNOWN if view.figures is None else tile.says(view.figures) for tile in TILES}
    longest = max(len(text) for tile, says in figures.items() for text in (tile.label, says))
    a_row = max(min(_A_ROW, (width + 1) // (longest + 1)), 1)
    cell = (width - a_row + 1) // a_row
    for first in range(0, len(TILES), a_row):
        shown = TILES[first : first + a_row]
        says = [figures[tile] for tile in shown]
        lines = [
            sparkline([None if view is None else tile.draws(view) for view in past], cell) for tile in shown
        ]
        yield _join_cells([tile.label for tile in shown], cell)
        yield _join_cells(says, cell)
        if len(past) > 1:
            yield _join_cells(lines, cell)
    yield ""
    figures_of = view.worker_figures.get
    workers = [worker_row(worker, figures_of(worker.name)) for worker in view.filter_workers(words)]
    yield from _render_table(WORKER_COLUMNS, workers, view.workers, width, rows)
    yield ""
    requests = [request_row(request) for request in view.filter_requests(words)]
    yield from _render_table(REQUEST_COLUMNS, requests, view.requests, width, rows)


def _join_cells(texts: Sequence[str], width: int) -> str:
    return " ".join(text[:width].ljust(width) for text in texts)


def _render_table(
    columns: Sequence[str], rows: list[list[str]], part: object, width: int, max_rows: int
) -> Iterator[str]:
    """Render as many whole columns as fit."""
    shown = rows[:max_rows]
    sizes = [max(map(len, [name, *(row[at] for row in shown)])) for at, name in enumerate(columns[:-1])]
    while sum(sizes) + len(sizes) - 1 > width:
        sizes.pop()

    def line(texts: Sequence[str]) -> str:
        text = " ".join(text.ljust(size) for text, size in zip(texts, sizes, strict=False))
        left = width - len(text) - 1
        if len(sizes) < len(texts) - 1 or left <= 0:
            return text
        return f"{text} {strip_control(texts[-1], left)}"

    yield line(columns)
    if isinstance(part, PartUnavailable):
        yield strip_control(f"not shown: {part.why}", width)
    elif not rows:
        yield "none"
    for row in shown:
        yield line(row)
    if len(rows) > max_rows:
        yield f"and {len(rows) - max_rows} more"

"""One frame for scripts and logs: as text of 80 columns or more, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from radixway.top.gateway import Refusal
from radixway.top.tables import REQUEST_COLUMNS, WORKER_COLUMNS, request_row, worker_row
from radixway.top.tiles import TILES
from radixway.top.view import View
from radixway.top.words import UNKNOWN, plain, spark

_A_ROW = 4


def as_text(view: View, words: str = "", *, width: int = 80, rows: int = 10) -> str:
    """The frame in lines of at most `width`, with at most so many workers and so many requests."""
    return "\n".join(line.rstrip() for line in _lines(view, words, max(width, 40), rows))


def as_json(view: View, words: str = "") -> dict[str, Any]:
    """The same as JSON values: rates are per second, times in seconds, shares from 0 to 1, unknowns null."""
    workers: Any = None
    if not isinstance(view.workers, Refusal):
        workers = [
            msgspec.to_builtins(worker)
            | (asdict(figures) if (figures := view.worker_figures.get(worker.name)) is not None else {})
            for worker in view.workers_like(words)
        ]
    closed = {
        name: part.why
        for name, part in (("workers", view.workers), ("requests", view.requests))
        if isinstance(part, Refusal)
    }
    return {
        "gateway": view.url,
        "away": view.away,
        "figures": None if view.figures is None else asdict(view.figures),
        "workers": workers,
        "requests": None if "requests" in closed else msgspec.to_builtins(view.requests_like(words)),
        "closed": closed,
    }


def headline(view: View) -> str:
    """The gateway and how it is, in a line."""
    if view.away is not None:
        return f"{view.url}  away: {view.away}"
    if view.figures is None:
        return f"{view.url}  waiting for a second look"
    return f"{view.url}  {view.figures.ready:.0f} of {view.figures.workers:.0f} workers ready"


def _lines(view: View, words: str, width: int, rows: int) -> Iterator[str]:
    yield plain(f"radixway top  {headline(view)}", width)
    yield ""
    past = view.past
    cell = (width - _A_ROW + 1) // _A_ROW
    for first in range(0, len(TILES), _A_ROW):
        shown = TILES[first : first + _A_ROW]
        says = [UNKNOWN if view.figures is None else tile.says(view.figures) for tile in shown]
        lines = [spark([None if each is None else tile.draws(each) for each in past], cell) for tile in shown]
        yield _cells([tile.label for tile in shown], cell)
        yield _cells(says, cell)
        if len(past) > 1:
            yield _cells(lines, cell)
    yield ""
    yield from _table(
        WORKER_COLUMNS,
        [worker_row(worker, view.worker_figures.get(worker.name)) for worker in view.workers_like(words)],
        view.workers,
        width,
        rows,
    )
    yield ""
    rows_of_requests = [request_row(request) for request in view.requests_like(words)]
    yield from _table(REQUEST_COLUMNS, rows_of_requests, view.requests, width, rows)


def _cells(texts: Sequence[str], width: int) -> str:
    return " ".join(text[:width].ljust(width) for text in texts)


def _table(
    columns: Sequence[tuple[str, int]], rows: list[list[str]], part: object, width: int, most: int
) -> Iterator[str]:
    def line(texts: Sequence[str]) -> str:
        whole = " ".join(
            (plain(text, size).ljust(size) if size else text)
            for text, (_, size) in zip(texts, columns, strict=True)
        )
        return plain(whole, width)

    yield line([name for name, _ in columns])
    if isinstance(part, Refusal):
        yield plain(f"not shown: {part.why}", width)
    elif not rows:
        yield "none"
    for row in rows[:most]:
        yield line(row)
    if len(rows) > most:
        yield f"and {len(rows) - most} more"

"""Components that several pages share: cards, chips, facts, small tables. All that they show is text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from nicegui import ui

Mood = Literal["", "good", "warn", "bad"]


@contextmanager
def draw_card(title: str) -> Iterator[None]:
    """Draw a card with the heading `title`."""
    with ui.element("section").classes("rw-card"):
        with ui.element("h2"):
            ui.label(title)
        yield


def draw_chip(text: str, mood: Mood = "") -> ui.element:
    """Draw a short `text` that stands out, coloured by `mood`."""
    with ui.element("span").classes(f"rw-chip {mood or 'plain'}") as made:
        ui.label(text)
    return made


def draw_empty(text: str) -> None:
    """Draw `text` in place of a list that is empty."""
    ui.label(text).classes("rw-empty")


def draw_facts(rows: Iterable[tuple[str, str]]) -> None:
    """Draw `rows` of names and values, line by line."""
    with ui.element("dl").classes("rw-facts"):
        for name, value in rows:
            with ui.element("dt"):
                ui.label(name)
            with ui.element("dd"):
                ui.label(value)


def draw_table(heads: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = ()) -> None:
    """A few rows; `marked`: which of them stand out. Wide ones scroll by themselves."""
    with ui.element("div").classes("rw-scroll"), ui.element("table").classes("rw-small-table"):
        with ui.element("thead"), ui.element("tr"):
            for head in heads:
                with ui.element("th").props("scope=col"):
                    ui.label(head)
        with ui.element("tbody"):
            for at, row in enumerate(rows):
                with ui.element("tr") as line:
                    if at < len(marked) and marked[at]:
                        line.classes("rw-chosen")
                    for cell in row:
                        with ui.element("td"):
                            ui.label(cell)

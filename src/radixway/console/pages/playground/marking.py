"""A text with what was found in it marked by type. Positions are in characters, as the gateway tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nicegui import ui


class MarkedPiece(NamedTuple):
    """A part of a text, and what it is; None: nothing particular."""

    text: str
    type: str | None
    confidence: float = 0.0


def split_marked(text: str, entities: Sequence[Mapping[str, Any]]) -> Iterator[MarkedPiece]:
    """The whole text, in order. Of findings that overlap the first one counts."""
    at = 0
    for entity in sorted(entities, key=lambda each: each["start_position"]):
        begin, end = entity["start_position"], entity["end_position"]
        if begin < at or end <= begin:
            continue
        if begin > at:
            yield MarkedPiece(text[at:begin], None)
        yield MarkedPiece(text[begin:end], str(entity["type"]), float(entity["confidence"]))
        at = end
    if at < len(text):
        yield MarkedPiece(text[at:], None)


def draw_marked(text: str, entities: Sequence[Mapping[str, Any]]) -> None:
    """The text, its findings in colours and with their types."""
    with ui.element("div").classes("rw-text rw-marked"):
        for piece in split_marked(text, entities):
            if piece.type is None:
                ui.label(piece.text).classes("rw-piece")
                continue
            with ui.element("mark").props(f'title="{piece.confidence:.2f}"'):
                ui.label(piece.text).classes("rw-piece")
                ui.label(piece.type).classes("rw-mark-type")

"""Two texts compared, line by line."""

from __future__ import annotations

from difflib import unified_diff

from nicegui import ui

_LOOKS = {"+": "rw-added", "-": "rw-removed", "@": "rw-hunk"}
_CONTEXT = 3


def draw_diff(before: str, after: str, same: str) -> None:
    """What is new and what is gone; `same`: what is said where nothing differs."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=_CONTEXT))[2:]
    if not lines:
        ui.label(same).classes("rw-muted")
        return
    with ui.element("div").classes("rw-diff"):
        for line in lines:
            ui.label(line).classes(f"rw-diff-line {_LOOKS.get(line[:1], '')}")

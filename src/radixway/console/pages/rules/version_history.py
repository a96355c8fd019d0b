"""Two texts compared, line by line.

Texts that were in force, and the way back to them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Any

from nicegui import ui

from radixway.console.components import draw_card, draw_chip, draw_empty
from radixway.console.page import PageVisit

_LOOKS = {"+": "rw-added", "-": "rw-removed", "@": "rw-hunk"}
_CONTEXT = 3


def draw_diff(before: str, after: str, same: str) -> None:
    """Draw the lines added and removed from `before` to `after`; `same` is shown where nothing differs."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=_CONTEXT))[2:]
    if not lines:
        ui.label(same).classes("rw-muted")
        return
    with ui.element("div").classes("rw-diff"):
        for line in lines:
            ui.label(line).classes(f"rw-diff-line {_LOOKS.get(line[:1], '')}")


Past = Mapping[str, Any]


class VersionHistory:
    """Drawn where it is made. `back` puts a version into force again."""

    def __init__(self, visit: PageVisit, back: Callable[[str], Awaitable[None]]) -> None:
        self._visit = visit
        self._back = back
        with draw_card(visit.say("rules.past")):
            self._list = ui.element("div").classes("rw-stack")

    def show_versions(self, past: Sequence[Past], current: str | None, text: str, *, editable: bool) -> None:
        """`text`: that of the version `current`, with which the others are compared."""
        say = self._visit.say
        self._list.clear()
        with self._list:
            if not past:
                draw_empty(say("rules.past.none"))
            for each in past:
                at = f"{datetime.fromtimestamp(each['saved_at'], UTC):%Y-%m-%d %H:%M:%S} UTC"
                with ui.element("div").classes("rw-row rw-past"):
                    ui.label(at).classes("rw-number")
                    ui.label(each["version"][:8]).classes("rw-mono rw-muted")
                    if each["version"] == current:
                        draw_chip(say("rules.past.current"), "good")
                        continue
                    version = each["version"]
                    ui.button(
                        say("rules.past.look"),
                        on_click=lambda version=version: self._show_version(version, text),
                    ).props("flat dense")
                    if editable:
                        ui.button(
                            say("rules.past.back"), on_click=lambda version=version: self._back(version)
                        ).props("flat dense")

    async def _show_version(self, version: str, text: str) -> None:
        async with self._visit.catch_call_errors():
            old = await self._visit.gateway.get_json(f"/config/semantic/rules/{version}")
            with (
                self._visit.around,
                ui.dialog() as dialog,
                ui.element("div").classes("rw-card rw-question wide"),
            ):
                with ui.element("h2"):
                    ui.label(self._visit.say("rules.difference"))
                draw_diff(text, old, self._visit.say("rules.same"))
                ui.button(self._visit.say("frame.close"), on_click=dialog.close).props("flat")
            await dialog
            dialog.delete()

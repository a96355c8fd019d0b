"""The text of the rules, and its mistakes by line while one writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import background_tasks, ui

from radixway.console.page import Visit

_TELL_COLOURS = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const tell = () => emitEvent("rules-dark", dark.matches);
dark.addEventListener("change", tell);
tell();
"""
_PAUSE_S = 0.4
"""After the last key before a text is checked."""


class Editor:
    """Drawn where it is made. `on_change` is called when a text was checked."""

    def __init__(self, visit: Visit, text: str, on_change: Callable[[], None], *, editable: bool) -> None:
        self._visit = visit
        self._on_change = on_change
        self._checking: asyncio.Task[None] | None = None
        self.mistakes: Sequence[Mapping[str, Any]] = ()
        self.is_checked = False
        """What stands there now was found to be without mistakes, or with these."""
        dark = bool(visit.preferences.dark)
        self._code = ui.codemirror(
            text,
            language="YAML",
            theme="githubDark" if dark else "githubLight",
            indent="  ",
            line_wrapping=False,
            on_change=self._changed,
        ).classes("rw-editor")
        self._code.set_enabled(editable)
        self._said = ui.element("div").classes("rw-stack").props('aria-live="polite" id="rw-mistakes"')
        if visit.preferences.dark is None:
            ui.on("rules-dark", lambda event: self._wear(bool(event.args)))
            ui.timer(0, lambda: ui.run_javascript(_TELL_COLOURS), once=True)
        self._changed()

    @property
    def text(self) -> str:
        """As it stands there."""
        return str(self._code.value or "")

    def put(self, text: str) -> None:
        """Another text in its place."""
        self._code.value = text

    def _wear(self, dark: bool) -> None:
        self._code.theme = "githubDark" if dark else "githubLight"

    def _changed(self) -> None:
        self.is_checked = False
        self._on_change()
        if self._checking is not None:
            self._checking.cancel()
        self._checking = background_tasks.create(self._check(), name="rules-check")

    async def _check(self) -> None:
        await asyncio.sleep(_PAUSE_S)
        with self._said:
            async with self._visit.trying():
                text = self.text
                if text.strip():
                    told = await self._visit.gateway.post("/config/semantic/check", {"text": text})
                    self.mistakes = told["mistakes"]
                else:
                    line = {"line": None, "path": "", "message": self._visit.say("rules.nothing")}
                    self.mistakes = [line]
                self.is_checked = True
                self.show(self.mistakes)
        self._on_change()

    def show(self, mistakes: Sequence[Mapping[str, Any]]) -> None:
        """The mistakes, and the lines in which they are."""
        count = self.text.count("\n") + 1
        lines = {each["line"] for each in mistakes if each["line"] and each["line"] <= count}
        self._code.decorations = [
            {"kind": "line", "line": line, "class": "rw-bad-line"} for line in sorted(lines)
        ]
        self._said.clear()
        with self._said:
            if not mistakes:
                ui.label(self._visit.say("rules.good")).classes("rw-small rw-good")
            for each in mistakes:
                self._mistake(each)

    def _mistake(self, mistake: Mapping[str, Any]) -> None:
        say = self._visit.say
        with ui.element("div").classes("rw-mistake"):
            if mistake["line"] is not None:
                ui.label(say("rules.line", line=mistake["line"])).classes("rw-number rw-mistake-line")
            with ui.element("div"):
                if mistake["path"]:
                    ui.label(mistake["path"]).classes("rw-mono")
                ui.label(mistake["message"])

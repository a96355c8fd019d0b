"""The text of the rules, and its mistakes by line while one writes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from nicegui import background_tasks, ui

from radixway.console.components import to_json
from radixway.console.page import PageVisit

_TELL_COLOURS = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const tell = () => emitEvent("rules-dark", dark.matches);
dark.addEventListener("change", tell);
tell();
"""
_PAUSE_S = 0.4
"""Pause after the last key before a text is checked."""
_BROWSER_TIMEOUT_S = 30.0
"""Time for a browser over a slow line."""


class RulesEditor:
    """Drawn where it is made. The browser alone has the text: the server reads it and calls the editor's
    methods, but never sets the element's properties, because its own, older text would be sent with them.

    `on_change` is called when the text is about to change and when it was read and checked.
    """

    def __init__(self, visit: PageVisit, text: str, on_change: Callable[[], None], *, editable: bool) -> None:
        self._visit = visit
        self._on_change = on_change
        self._editable = editable
        self._checking: asyncio.Task[None] | None = None
        self.mistakes: Sequence[Mapping[str, Any]] = ()
        self.is_checked = False
        """`text` is what stands there, and was found to be without mistakes, or with these."""
        self.text = with_newlines(text)
        """Text as last read."""
        dark = bool(visit.preferences.dark)
        self._code = ui.codemirror(
            text,
            language="YAML",
            theme="githubDark" if dark else "githubLight",
            indent="  ",
            line_wrapping=False,
        ).classes("rw-editor")
        self._code.set_enabled(editable)
        self._code.on("update:value", self.check_soon, args=[], throttle=_PAUSE_S / 2)
        self._mistake_list = (
            ui.element("div").classes("rw-stack").props('aria-live="polite" id="rw-mistakes"')
        )
        if visit.preferences.dark is None:
            ui.on("rules-dark", lambda event: self._set_theme(bool(event.args)))
            ui.timer(0, lambda: ui.run_javascript(_TELL_COLOURS), once=True)

    async def read_text(self) -> str:
        """Return the text as it stands in the browser, which is `text` then. Raises TimeoutError."""
        code = f"radixway.editor({self._code.id}).state.doc.toString()"
        text = await self._code.client.run_javascript(code, timeout=_BROWSER_TIMEOUT_S)
        if text is None:
            raise TimeoutError("the page is closed")
        self.text = str(text)
        return self.text

    async def replace_text(self, text: str) -> None:
        """Put `text` in place of what stands there. Raises TimeoutError."""
        await self._code.run_method("setEditorValue", with_newlines(text), timeout=_BROWSER_TIMEOUT_S)
        self.check_soon()

    @asynccontextmanager
    async def lock_editing(self) -> AsyncIterator[None]:
        """Let nothing be typed meanwhile. Raises TimeoutError."""
        await self._code.run_method("setDisabled", True, timeout=_BROWSER_TIMEOUT_S)
        try:
            yield
        finally:
            self._code.run_method("setDisabled", not self._editable)

    def mark_saved(self, text: str) -> None:
        """Have the browser ask before it leaves any text but `text`."""
        saved = to_json(with_newlines(text))
        self._code.client.run_javascript(f"radixway.ask_before_leaving({self._code.id}, {saved})")

    def _set_theme(self, dark: bool) -> None:
        self._code.run_method("setTheme", "githubDark" if dark else "githubLight")

    def check_soon(self) -> None:
        """Check the text as soon as nothing more is typed."""
        self.is_checked = False
        self._on_change()
        if self._checking is not None:
            self._checking.cancel()
        self._checking = background_tasks.create(self._check_text(), name="rules-check")

    async def _check_text(self) -> None:
        await asyncio.sleep(_PAUSE_S)
        with self._mistake_list, suppress(TimeoutError):
            text = await self.read_text()
            async with self._visit.catch_call_errors():
                if text.strip():
                    data = await self._visit.gateway.post_json("/config/semantic/check", {"text": text})
                    self.mistakes = data["mistakes"]
                else:
                    message = self._visit.say("rules.nothing")
                    self.mistakes = [{"line": None, "path": "", "message": message}]
                self.is_checked = True
                self.show_mistakes(self.mistakes)
            self._on_change()

    def show_mistakes(self, mistakes: Sequence[Mapping[str, Any]]) -> None:
        """Show `mistakes`, and mark the lines in which they are."""
        count = self.text.count("\n") + 1
        lines = {mistake["line"] for mistake in mistakes if mistake["line"] and mistake["line"] <= count}
        marks = [{"kind": "line", "line": line, "class": "rw-bad-line"} for line in sorted(lines)]
        self._code.run_method("setDecorations", marks)
        self._mistake_list.clear()
        with self._mistake_list:
            if not mistakes:
                ui.label(self._visit.say("rules.good")).classes("rw-small rw-good")
            for mistake in mistakes:
                self._draw_mistake(mistake)

    def _draw_mistake(self, mistake: Mapping[str, Any]) -> None:
        say = self._visit.say
        with ui.element("div").classes("rw-mistake"):
            if mistake["line"] is not None:
                ui.label(say("rules.line", line=mistake["line"])).classes("rw-number rw-mistake-line")
            with ui.element("div"):
                if mistake["path"]:
                    ui.label(mistake["path"]).classes("rw-mono")
                ui.label(mistake["message"])


def with_newlines(text: str) -> str:
    """Return `text` with its lines ended as the editor ends them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")

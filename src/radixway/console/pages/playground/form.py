"""The form of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from nicegui import ui

from radixway.console.page import PageVisit

AUTO = "auto"


class FormError(Exception):
    """A field cannot be read; the visitor is shown the text."""


class PromptForm:
    """The fields, drawn where it is made."""

    def __init__(self, visit: PageVisit, models: Sequence[str]) -> None:
        say = self._say = visit.say
        names = [AUTO, *(name for name in models if name != AUTO)]
        self.prompt = ui.textarea(say("playground.prompt"), placeholder=say("playground.prompt.hint"))
        self.prompt.props("outlined autogrow stack-label data-search").classes("rw-prompt")
        self.system = ui.textarea(say("playground.system")).props("outlined autogrow dense")
        with ui.element("div").classes("rw-fields"):
            self.model = ui.select(names, value=AUTO, label=say("playground.model")).props("outlined dense")
            self.most = ui.number(say("playground.most"), value=256, min=1, precision=0)
            self.most.props("outlined dense")
            self.heat = ui.number(say("playground.temperature"), min=0, step=0.1)
            self.heat.props("outlined dense clearable")
        with ui.expansion(say("playground.more")).classes("rw-more").props("dense"):
            self.tools = ui.textarea(say("playground.tools"), placeholder="[]")
            self.tools.props("outlined autogrow dense stack-label spellcheck=false").classes("rw-mono")
            self.extra = ui.textarea(say("playground.extra"), placeholder='{"top_p": 0.9}')
            self.extra.props("outlined autogrow dense stack-label spellcheck=false").classes("rw-mono")
            self._key = ui.input(say("playground.key")).props("outlined dense type=password autocomplete=off")

    @property
    def text(self) -> str:
        """The prompt."""
        return self.prompt.value or ""

    @property
    def key(self) -> str | None:
        """A tenant's, in whose name is to be asked; None: one's own."""
        return (self._key.value or "").strip() or None

    def request_body(self) -> dict[str, Any]:
        """Of the chat completion. Raises FormError."""
        if not self.text.strip():
            raise FormError(self._say("playground.empty"))
        messages = [{"role": "user", "content": self.text}]
        if (self.system.value or "").strip():
            messages.insert(0, {"role": "system", "content": self.system.value})
        body: dict[str, Any] = {"model": self.model.value or AUTO, "messages": messages}
        if self.most.value is not None:
            body["max_tokens"] = int(self.most.value)
        if self.heat.value is not None:
            body["temperature"] = float(self.heat.value)
        tools = self._parse_json(self.tools.value, list, "playground.tools")
        if tools:
            body["tools"] = tools
        return body | (self._parse_json(self.extra.value, dict, "playground.extra") or {})

    def _parse_json(self, text: str | None, kind: type, label: str) -> Any:
        if not (text or "").strip():
            return None
        try:
            return msgspec.json.decode(text or "", type=kind)
        except msgspec.DecodeError as error:
            raise FormError(self._say("playground.no_json", field=self._say(label), why=str(error))) from None

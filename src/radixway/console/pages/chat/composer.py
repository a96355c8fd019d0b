"""The input of a chat: the text, and options of its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from nicegui import ui

from radixway.console.page import PageVisit

AUTO = "auto"
_TAKE = "const text = radixway.take_text({id}); if (text !== null) emit(text);"
_ENTER = (
    "(e) => {{ if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {{ e.preventDefault(); {take} }} }}"
)
_CLICK = "() => {{ {take} }}"


class MessageComposer:
    """Drawn where it is made. `send` is called with what stood there: the browser takes it away before
    anything else is typed. What was not said is to be `put_back`.
    """

    def __init__(
        self,
        visit: PageVisit,
        models: Sequence[str],
        plugins: Sequence[Mapping[str, Any]],
        send: Callable[[str], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        say = visit.say
        named = {str(each["url"]): _plugin_name(each) for each in plugins}
        with ui.element("div").classes("rw-composer"):
            with ui.element("div").classes("rw-row rw-tight rw-nowrap"):
                self._text = ui.textarea(placeholder=say("chat.say")).props("outlined autogrow rows=1")
                self._text.classes("rw-grow").props(f'aria-label="{say("chat.say")}"')
                take = _TAKE.format(id=self._text.id)
                self._text.on("keydown", lambda event: send(event.args), js_handler=_ENTER.format(take=take))
                self._send = ui.button(icon="send").props("unelevated")
                self._send.on("click", lambda event: send(event.args), js_handler=_CLICK.format(take=take))
                self._send.props(f'aria-label="{say("chat.send")}"')
                self._stop = ui.button(icon="stop", on_click=stop).props("unelevated color=negative")
                self._stop.props(f'aria-label="{say("chat.stop")}"')
            with ui.expansion(say("chat.how")).classes("rw-more").props("dense"):
                with ui.element("div").classes("rw-fields"):
                    first = AUTO if AUTO in models else next(iter(models), None)
                    self._model = ui.select(list(models), value=first, label=say("chat.model"))
                    self._heat = ui.number(say("chat.temperature"), min=0, step=0.1)
                    self._most = ui.number(say("chat.most"), value=512, min=1, precision=0)
                    self._plugins = ui.select(named, multiple=True, label=say("chat.plugins"))
                    for field in (self._model, self._heat, self._most, self._plugins):
                        field.props("outlined dense")
                    self._heat.props("clearable")
                    self._plugins.props("use-chips")
                self._system = ui.textarea(say("chat.system")).props("outlined autogrow dense")
        self.set_in_flight(False)

    def put_back(self, text: str) -> None:
        """Put `text` back, as it could not be sent."""
        put = f"radixway.put_back_text({self._text.id}, {msgspec.json.encode(text).decode()})"
        self._text.client.run_javascript(put)

    def select_model(self, model: str | None) -> None:
        """Ask for that model, as the answer before did."""
        if model in (self._model.options or ()):
            self._model.value = model

    def set_in_flight(self, under_way: bool) -> None:
        """Show the stop button while an answer is `under_way`."""
        self._send.set_visibility(not under_way)
        self._stop.set_visibility(under_way)

    def answer_options(self) -> dict[str, Any]:
        """Return the chosen options of an answer."""
        sampling: dict[str, Any] = {}
        if self._heat.value is not None:
            sampling["temperature"] = float(self._heat.value)
        if self._most.value is not None:
            sampling["max_new_tokens"] = int(self._most.value)
        wish: dict[str, Any] = {"reply": "later", "sampling_parameters": sampling}
        if self._model.value:
            wish["model"] = self._model.value
        wish["plugins"] = [{"url": url, "enabled": True} for url in self._plugins.value or ()]
        if (self._system.value or "").strip():
            wish["system_prompt"] = self._system.value
        return wish


def _plugin_name(plugin: Mapping[str, Any]) -> str:
    config = plugin.get("plugin_config") or {}
    return str(config.get("name_for_human") or config.get("name_for_model") or plugin["url"])

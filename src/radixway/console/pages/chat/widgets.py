"""The list of chats, and the input of the one that is open."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from nicegui import ui

from radixway.console.components import draw_icon_button, format_date, to_json
from radixway.console.page import PageVisit
from radixway.console.pages.chat.attachments import AttachmentTray
from radixway.console.pages.chat.chat_service import OperatorAccount

_CHATS_PER_PAGE = 30
_AUTO = "auto"
_ENTER = (
    "(e) => {{ if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {{ e.preventDefault(); {run} }} }}"
)


class ChatList:
    """The latest chats, or those in which a text was found. Drawn where it is made."""

    def __init__(self, visit: PageVisit, account: OperatorAccount, open_id: str | None) -> None:
        self._visit = visit
        self._account = account
        self._open_id = open_id
        self._after: str | None = None
        say = visit.say
        with ui.element("div").classes("rw-row rw-tight"):
            self._search = ui.input(placeholder=say("chat.search")).classes("rw-grow")
            self._search.on_value_change(self.reload_chats).props("outlined dense clearable data-search")
            self._search.props(f'debounce=300 aria-label="{say("chat.search")}"')
            new = draw_icon_button("edit_square", say("chat.new"), props="unelevated dense")
            new.on_click(lambda: ui.navigate.to("/chat"))
        self._list = ui.element("nav").props(f'aria-label="{say("chat.chats")}"').classes("rw-chats")
        self._more = ui.button(say("chat.more"), on_click=self._show_more).props("flat dense")

    async def reload_chats(self) -> None:
        """Ask for the chats again, from the newest on."""
        async with self._visit.catch_call_errors():
            text = (self._search.value or "").strip()
            if text:
                found = await self._account.get_json("/v1/chats/search", q=text[:200], limit=_CHATS_PER_PAGE)
                self._more.set_visibility(False)
                self._list.clear()
                self._draw_hits(found["hits"])
                return
            self._after = None
            page = await self._fetch_page()
            self._list.clear()
            self._draw_chats(page)

    def mark_open(self, chat_id: str) -> None:
        """Mark the chat `chat_id` as the open one."""
        self._open_id = chat_id

    async def _show_more(self) -> None:
        async with self._visit.catch_call_errors():
            self._draw_chats(await self._fetch_page())

    async def _fetch_page(self) -> Sequence[Mapping[str, Any]]:
        page = await self._account.get_json("/v1/chats", limit=_CHATS_PER_PAGE, after=self._after)
        self._after = page["next"]
        self._more.set_visibility(self._after is not None)
        chats: Sequence[Mapping[str, Any]] = page["chats"]
        return chats

    def _draw_chats(self, chats: Sequence[Mapping[str, Any]]) -> None:
        with self._list:
            if not chats:
                ui.label(self._visit.say("chat.none")).classes("rw-muted rw-small")
            for chat in chats:
                self._draw_link(chat["id"], chat["title"], format_date(chat["modified_at"]))

    def _draw_hits(self, hits: Sequence[Mapping[str, Any]]) -> None:
        with self._list:
            if not hits:
                ui.label(self._visit.say("chat.nothing_found")).classes("rw-muted rw-small")
            for hit in hits:
                message = hit["message"]
                self._draw_link(message["chat_id"], hit["chat_title"], hit["snippet"], message["id"])

    def _draw_link(
        self, chat_id: str, title: str | None, below: str = "", message: str | None = None
    ) -> None:
        through = "" if message is None else f"?through={quote(message)}"
        address = self._visit.link(f"/chat/{quote(chat_id)}{through}")
        with ui.element("a").props(f'href="{address}"') as anchor:
            if chat_id == self._open_id and message is None:
                anchor.props('aria-current="page"')
            ui.label(title or self._visit.say("chat.untitled")).classes("rw-cut")
            if below:
                ui.label(below).classes("rw-cut rw-small rw-muted")


class MessageComposer:
    """The input of a chat and the options of its answer, drawn where it is made.

    `send` is called with what stood there: the browser takes it away before anything else is typed. What
    could not be sent is to be `put_back`. `stop` ends the answer in progress.
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
        named = {str(plugin["url"]): _plugin_name(plugin) for plugin in plugins}
        with ui.element("div").classes("rw-composer"):
            self.attachments = AttachmentTray(visit)
            with ui.element("div").classes("rw-row rw-tight rw-nowrap"):
                self._text = ui.textarea(placeholder=say("chat.say")).classes("rw-grow")
                self._text.props(f'outlined autogrow rows=1 aria-label="{say("chat.say")}"')
                run = f"radixway.send_text({self._text.id}, emit)"
                self._text.on("keydown", lambda event: send(event.args), js_handler=_ENTER.format(run=run))
                self._send = draw_icon_button("send", say("chat.send"), props="unelevated")
                self._send.on("click", lambda event: send(event.args), js_handler=f"() => {run}")
                self._stop = draw_icon_button("stop", say("chat.stop"), stop, props="unelevated")
                self._stop.props("color=negative")
            with ui.element("div").classes("rw-row rw-tight"):
                self.attachments.draw_button()
                first = _AUTO if _AUTO in models else next(iter(models), None)
                self._model = ui.select(list(models), value=first, label=say("chat.model"))
                self._model.props("outlined dense options-dense").classes("rw-select")
            with ui.expansion(say("chat.how")).classes("rw-more").props("dense"):
                with ui.element("div").classes("rw-fields"):
                    self._temperature = ui.number(say("chat.temperature"), min=0, step=0.1)
                    self._max_tokens = ui.number(say("chat.most"), value=512, min=1, precision=0)
                    self._plugins = ui.select(named, multiple=True, label=say("chat.plugins"))
                    for field in (self._temperature, self._max_tokens, self._plugins):
                        field.props("outlined dense")
                    self._temperature.props("clearable")
                    self._plugins.props("use-chips")
                self._system = ui.textarea(say("chat.system")).props("outlined autogrow dense")
        self.set_in_flight(False)

    def put_back(self, text: str) -> None:
        """Put `text` back, as it could not be sent."""
        put = f"radixway.put_back_text({self._text.id}, {to_json(text)})"
        self._text.client.run_javascript(put)

    def select_model(self, model: str | None) -> None:
        """Ask for that model, as the answer before did."""
        if model in (self._model.options or ()):
            self._model.value = model

    def set_in_flight(self, in_flight: bool) -> None:
        """Show the stop button while an answer is `in_flight`."""
        self._send.set_visibility(not in_flight)
        self._stop.set_visibility(in_flight)

    def answer_options(self) -> dict[str, Any]:
        """Return the chosen options of an answer."""
        sampling: dict[str, Any] = {}
        if self._temperature.value is not None:
            sampling["temperature"] = float(self._temperature.value)
        if self._max_tokens.value is not None:
            sampling["max_new_tokens"] = int(self._max_tokens.value)
        options: dict[str, Any] = {"reply": "later", "sampling_parameters": sampling}
        if self._model.value:
            options["model"] = self._model.value
        options["plugins"] = [{"url": url, "enabled": True} for url in self._plugins.value or ()]
        if (self._system.value or "").strip():
            options["system_prompt"] = self._system.value
        return options


def _plugin_name(plugin: Mapping[str, Any]) -> str:
    config = plugin.get("plugin_config") or {}
    return str(config.get("name_for_human") or config.get("name_for_model") or plugin["url"])

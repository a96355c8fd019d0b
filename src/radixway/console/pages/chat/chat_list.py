"""The list of chats: the latest, or those in which something was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from nicegui import ui

from radixway.console.page import PageVisit
from radixway.console.pages.chat.account import OperatorAccount

_PAGE = 30


class ChatList:
    """Drawn where it is made."""

    def __init__(self, visit: PageVisit, account: OperatorAccount, open_id: str | None) -> None:
        self._visit = visit
        self._account = account
        self._open_id = open_id
        self._after: str | None = None
        say = visit.say
        with ui.element("div").classes("rw-row rw-tight"):
            self._search = ui.input(placeholder=say("chat.search")).props(
                "outlined dense clearable data-search"
            )
            self._search.classes("rw-grow").on_value_change(self.reload_chats)
            self._search.props(f'debounce=300 aria-label="{say("chat.search")}"')
            new = ui.button(icon="edit_square").props(f'unelevated dense aria-label="{say("chat.new")}"')
            new.on_click(lambda: ui.navigate.to("/chat"))
        self._list = ui.element("nav").props(f'aria-label="{say("chat.chats")}"').classes("rw-chats")
        self._more = ui.button(say("chat.more"), on_click=self._show_more).props("flat dense")

    async def reload_chats(self) -> None:
        """Ask again, from the top."""
        async with self._visit.catch_call_errors():
            text = (self._search.value or "").strip()
            if text:
                found = await self._account.get_json("/v1/chats/search", q=text[:200], limit=_PAGE)
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
        page = await self._account.get_json("/v1/chats", limit=_PAGE, after=self._after)
        self._after = page["next"]
        self._more.set_visibility(self._after is not None)
        chats: Sequence[Mapping[str, Any]] = page["chats"]
        return chats

    def _draw_chats(self, chats: Sequence[Mapping[str, Any]]) -> None:
        with self._list:
            if not chats:
                ui.label(self._visit.say("chat.none")).classes("rw-muted rw-small")
            for chat in chats:
                self._draw_link(chat["id"], chat["title"] or self._visit.say("chat.untitled"), None)

    def _draw_hits(self, hits: Sequence[Mapping[str, Any]]) -> None:
        with self._list:
            if not hits:
                ui.label(self._visit.say("chat.nothing_found")).classes("rw-muted rw-small")
            for hit in hits:
                message = hit["message"]
                title = hit["chat_title"] or self._visit.say("chat.untitled")
                self._draw_link(message["chat_id"], title, hit["snippet"], message["id"])

    def _draw_link(self, chat_id: str, title: str, below: str | None, message: str | None = None) -> None:
        through = "" if message is None else f"?through={quote(message)}"
        address = self._visit.link(f"/chat/{quote(chat_id)}{through}")
        with ui.element("a").props(f'href="{address}"') as link:
            if chat_id == self._open_id and message is None:
                link.props('aria-current="page"')
            ui.label(title).classes("rw-cut")
            if below is not None:
                ui.label(below).classes("rw-cut rw-small rw-muted")

"""The list: newest first, searched as one types, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from radixway.console.page import PageVisit
from radixway.console.pages.requests.filters import AGES, FLAGS, STATUSES, RequestFilters
from radixway.console.pages.requests.rows import BODY, request_cells, request_columns
from radixway.console.texts import TextCatalog

_ROWS = 50
_AGAIN_S = 2.0


async def build_request_list(visit: PageVisit) -> None:
    """Build filters above a page of requests, for `visit`; the first page refreshes by itself."""
    say = visit.say
    filters = RequestFilters.from_query(visit.request.query_params)
    listing = _RequestList(visit, filters)
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1"):
            ui.label(say("requests.title"))
        listing.live = ui.switch(say("requests.live"), value=True)
    _FilterBar(visit, filters, listing.turn_to_first)
    listing.draw_table()
    await listing.reload_page()
    visit.refresh_every(_AGAIN_S, listing.poll_first_page)


class _RequestList:
    """A page of requests, and the way to the next."""

    def __init__(self, visit: PageVisit, filters: RequestFilters) -> None:
        self._visit = visit
        self._filters = filters
        self._next: str | None = None
        self._asked = 0
        self.live: ui.switch
        self._table: ui.table
        self._said: ui.label
        self._newer: ui.button
        self._older: ui.button

    def draw_table(self) -> None:
        """The table and its buttons, empty so far."""
        say = self._visit.say
        self._table = ui.table(columns=request_columns(say), rows=[], row_key="id").classes(
            "rw-table rw-requests"
        )
        self._table.props(
            f'flat dense :pagination="{{rowsPerPage: 0}}" hide-bottom aria-label="{say("requests.title")}"'
        )
        self._table.add_slot("body", BODY)
        with ui.element("div").classes("rw-row"):
            self._said = ui.label().classes("rw-muted rw-small").props("role=status")
            ui.space()
            self._newer = ui.button(say("requests.newer"), on_click=self._previous_page).props(
                "flat icon=west"
            )
            self._older = ui.button(say("requests.older"), on_click=self._next_page).props(
                "flat icon-right=east"
            )

    async def reload_page(self) -> None:
        """Ask again; an answer that others were asked for after is not shown, however late it comes."""
        say, filters = self._visit.say, self._filters
        self._asked += 1
        number = self._asked
        data = await self._visit.gateway.get_json("/requests", **filters.api_query(_ROWS))
        if number != self._asked:
            return
        self._next = data["next"]
        rows = [request_cells(say, self._visit.link, row) for row in data["requests"]]
        if rows != self._table.rows:
            self._table.rows = rows
        self._said.set_text(self._summary_text(say, data))
        self._newer.set_enabled(bool(filters.cursors))
        self._older.set_enabled(self._next is not None)

    async def poll_first_page(self) -> None:
        """The first page shows what has come since; others stay as they are."""
        if self.live.value and not self._filters.cursors:
            await self.reload_page()

    async def turn_to_first(self) -> None:
        """Something else is looked for."""
        ui.navigate.history.replace(self._visit.link("/requests") + self._filters.page_query())
        async with self._visit.catch_call_errors():
            await self.reload_page()

    async def _next_page(self) -> None:
        if self._next is not None:
            self._filters.cursors.append(self._next)
            async with self._visit.catch_call_errors():
                await self.reload_page()

    async def _previous_page(self) -> None:
        if self._filters.cursors:
            self._filters.cursors.pop()
            async with self._visit.catch_call_errors():
                await self.reload_page()

    def _summary_text(self, say: TextCatalog, data: dict[str, Any]) -> str:
        if not data["requests"]:
            return say(
                "requests.none" if data["next"] is None else "requests.none_yet", examined=data["examined"]
            )
        return say(
            "requests.page",
            page=len(self._filters.cursors) + 1,
            shown=len(data["requests"]),
            kept=data["kept"],
        )


class _FilterBar:
    """What is looked for."""

    def __init__(
        self, visit: PageVisit, filters: RequestFilters, changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._say = visit.say
        self._filters = filters
        self._changed = changed
        say = visit.say
        with (
            ui.element("div")
            .classes("rw-row rw-filters")
            .props(f'role=search aria-label="{say("requests.search")}"')
        ):
            search = ui.input(
                placeholder=say("requests.search"),
                value=filters.get_filter("q"),
                on_change=self._filter_setter("q"),
            )
            search.props(
                f'outlined dense clearable debounce=100 data-search aria-label="{say("requests.search")}"'
            ).classes("rw-fill")
            self._draw_select("status", {name: say(f"requests.status.{name}") for name in STATUSES})
            flags = {flag: say(f"requests.flag.{flag}") for flag in FLAGS}
            self._draw_select("flags", flags, several=True)
            self._draw_select("age", {name: say(f"requests.age.{name}") for name in AGES})
            for name in ("model", "worker", "tenant", "surface", "category"):
                if filters.get_filter(name):
                    self._draw_chip(name)

    def _draw_select(self, name: str, options: dict[str, str], *, several: bool = False) -> None:
        value: Any = self._filters.flags if several else self._filters.get_filter(name) or None
        if not several and value not in options:
            value = None
        select = ui.select(
            options,
            value=value,
            multiple=several,
            label=self._say(f"requests.{name}"),
            on_change=self._filter_setter(name),
        )
        select.props("outlined dense clearable options-dense").classes("rw-select")

    def _draw_chip(self, name: str) -> None:
        """A filter that an address brought and that can only be taken away."""

        async def drop() -> None:
            self._filters.set_filter(name, "")
            chip.delete()
            await self._changed()

        text = f"{self._say(f'requests.{name}')}: {self._filters.get_filter(name)}"
        chip = (
            ui.button(text, on_click=drop)
            .props("flat dense no-caps icon-right=close")
            .classes("rw-chip plain")
        )
        chip.props(f'aria-label="{self._say("requests.drop")}"')

    def _filter_setter(self, name: str) -> Callable[[Any], Awaitable[None]]:
        async def put(event: Any) -> None:
            self._filters.set_filter(name, event.value)
            await self._changed()

        return put

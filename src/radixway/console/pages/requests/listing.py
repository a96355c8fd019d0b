"""The list: newest first, searched as one types, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from radixway.console.page import Visit
from radixway.console.pages.requests.filters import AGES, FLAGS, STATUSES, Filters
from radixway.console.pages.requests.rows import BODY, columns, row_of
from radixway.console.texts import Say

_ROWS = 50
_AGAIN_S = 2.0


async def build(visit: Visit) -> None:
    """Filters above, a page of requests below; the first page goes on by itself."""
    say = visit.say
    filters = Filters.of(visit.request.query_params)
    listing = _Listing(visit, filters)
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1"):
            ui.label(say("requests.title"))
        listing.live = ui.switch(say("requests.live"), value=True)
    _Choosing(visit, filters, listing.turn_to_first)
    listing.draw()
    await listing.refresh()
    visit.every(_AGAIN_S, listing.go_on)


class _Listing:
    """A page of requests, and the way to the next."""

    def __init__(self, visit: Visit, filters: Filters) -> None:
        self._visit = visit
        self._filters = filters
        self._next: str | None = None
        self._asked = 0
        self.live: ui.switch
        self._table: ui.table
        self._said: ui.label
        self._newer: ui.button
        self._older: ui.button

    def draw(self) -> None:
        """The table and its buttons, empty so far."""
        say = self._visit.say
        self._table = ui.table(columns=columns(say), rows=[], row_key="id").classes("rw-table rw-requests")
        self._table.props(
            f'flat dense :pagination="{{rowsPerPage: 0}}" hide-bottom aria-label="{say("requests.title")}"'
        )
        self._table.add_slot("body", BODY)
        with ui.element("div").classes("rw-row"):
            self._said = ui.label().classes("rw-muted rw-small").props("role=status")
            ui.space()
            self._newer = ui.button(say("requests.newer"), on_click=self._turn_back).props("flat icon=west")
            self._older = ui.button(say("requests.older"), on_click=self._turn_on).props(
                "flat icon-right=east"
            )

    async def refresh(self) -> None:
        """Ask again; an answer that others were asked for after is not shown, however late it comes."""
        say, filters = self._visit.say, self._filters
        self._asked += 1
        number = self._asked
        told = await self._visit.gateway.get("/requests", **filters.query(_ROWS))
        if number != self._asked:
            return
        self._next = told["next"]
        rows = [row_of(say, self._visit.link, row) for row in told["requests"]]
        if rows != self._table.rows:
            self._table.rows = rows
        self._said.set_text(self._in_words(say, told))
        self._newer.set_enabled(bool(filters.cursors))
        self._older.set_enabled(self._next is not None)

    async def go_on(self) -> None:
        """The first page shows what has come since; others stay as they are."""
        if self.live.value and not self._filters.cursors:
            await self.refresh()

    async def turn_to_first(self) -> None:
        """Something else is looked for."""
        ui.navigate.history.replace(self._visit.link("/requests") + self._filters.address())
        async with self._visit.trying():
            await self.refresh()

    async def _turn_on(self) -> None:
        if self._next is not None:
            self._filters.cursors.append(self._next)
            async with self._visit.trying():
                await self.refresh()

    async def _turn_back(self) -> None:
        if self._filters.cursors:
            self._filters.cursors.pop()
            async with self._visit.trying():
                await self.refresh()

    def _in_words(self, say: Say, told: dict[str, Any]) -> str:
        if not told["requests"]:
            return say(
                "requests.none" if told["next"] is None else "requests.none_yet", examined=told["examined"]
            )
        return say(
            "requests.page",
            page=len(self._filters.cursors) + 1,
            shown=len(told["requests"]),
            kept=told["kept"],
        )


class _Choosing:
    """What is looked for."""

    def __init__(self, visit: Visit, filters: Filters, changed: Callable[[], Awaitable[None]]) -> None:
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
                placeholder=say("requests.search"), value=filters.get("q"), on_change=self._putting("q")
            )
            search.props(
                f'outlined dense clearable debounce=100 data-search aria-label="{say("requests.search")}"'
            ).classes("rw-fill")
            self._select("status", {name: say(f"requests.status.{name}") for name in STATUSES})
            flags = {flag: say(f"requests.flag.{flag}") for flag in FLAGS}
            self._select("flags", flags, several=True)
            self._select("age", {name: say(f"requests.age.{name}") for name in AGES})
            for name in ("model", "worker", "tenant", "surface", "category"):
                if filters.get(name):
                    self._chip(name)

    def _select(self, name: str, options: dict[str, str], *, several: bool = False) -> None:
        value: Any = self._filters.flags if several else self._filters.get(name) or None
        if not several and value not in options:
            value = None
        select = ui.select(
            options,
            value=value,
            multiple=several,
            label=self._say(f"requests.{name}"),
            on_change=self._putting(name),
        )
        select.props("outlined dense clearable options-dense").classes("rw-select")

    def _chip(self, name: str) -> None:
        """A filter that an address brought and that can only be taken away."""

        async def drop() -> None:
            self._filters.put(name, "")
            chip.delete()
            await self._changed()

        text = f"{self._say(f'requests.{name}')}: {self._filters.get(name)}"
        chip = (
            ui.button(text, on_click=drop)
            .props("flat dense no-caps icon-right=close")
            .classes("rw-chip plain")
        )
        chip.props(f'aria-label="{self._say("requests.drop")}"')

    def _putting(self, name: str) -> Callable[[Any], Awaitable[None]]:
        async def put(event: Any) -> None:
            self._filters.put(name, event.value)
            await self._changed()

        return put

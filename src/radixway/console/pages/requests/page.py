"""*Requests*: the list, newest first, searched as one types, page by page; its address keeps the filters."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from radixway.console.components import draw_page_title, draw_row_table, table_columns
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.requests.explanation import (
    build_explanation,
    format_count,
    format_milliseconds,
    request_cost,
    row_mood,
)
from radixway.console.texts import TextCatalog

_FLAGS = (
    *("error", "blocked", "guard", "cache_hit", "retried", "fallback", "overflow", "hedged", "queued"),
    *("split", "resumed", "stream", "broken", "client_left"),
)
_FLAG_MOODS = {
    "blocked": "bad",
    "error": "bad",
    "broken": "bad",
    "client_left": "warn",
    "cache_hit": "good",
}
_STATUSES = ("2xx", "4xx", "5xx", "499")
_AGES: Mapping[str, int] = {"5m": 300, "1h": 3600, "24h": 86_400}
"""How long ago a request began at most, in seconds, by name."""
_FILTERS = ("q", "status", "flags", "age", "model", "worker", "tenant", "surface", "category", "least_ms")
_FIGURES = ("ttft", "total", "prompt", "answer", "cost")
_COLUMNS = ("time", "status", "id", "tenant", "model", "worker", *_FIGURES, "flags")
_ID_CHARS = 10
_ROWS_PER_PAGE = 50
_REFRESH_S = 2.0


async def build_requests_page(visit: PageVisit) -> None:
    """Build the explanation where the address of `visit` names a request, else the list."""
    if "request_id" in visit.request.path_params:
        await build_explanation(visit)
    else:
        await _build_request_list(visit)


async def _build_request_list(visit: PageVisit) -> None:
    """Build filters above a page of requests, for `visit`; the first page refreshes by itself."""
    say = visit.say
    filters = RequestFilters.from_query(visit.request.query_params)
    with draw_page_title(say("requests.title")):
        live = ui.switch(say("requests.live"), value=True)
    filter_row = ui.element("div").classes("rw-row rw-filters")
    listing = _RequestList(visit, filters, live)
    with filter_row.props(f'role=search aria-label="{say("requests.search")}"'):
        _FilterBar(visit, filters, listing.turn_to_first)
    await listing.reload_page()
    visit.refresh_every(_REFRESH_S, listing.poll_first_page)


@dataclass(slots=True)
class RequestFilters:
    """Filters of `/requests`; empty ones are left out."""

    values: dict[str, str] = field(default_factory=dict)
    cursors: list[str] = field(default_factory=list)
    """Cursor of each visited page after the first."""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> RequestFilters:
        """Read the filters of an address's `query`; invalid ones are left out."""
        values = {name: query[name][:200] for name in _FILTERS if query.get(name)}
        flags = [flag for flag in values.pop("flags", "").split(",") if flag in _FLAGS]
        if flags:
            values["flags"] = ",".join(flags)
        if values.get("age") not in _AGES:
            values.pop("age", None)
        if "least_ms" in values and not _is_number(values["least_ms"]):
            del values["least_ms"]
        return cls(values)

    def set_filter(self, name: str, value: Any) -> None:
        """Set the filter `name` to `value`, and return to the first page."""
        text = ",".join(value) if isinstance(value, list) else str(value or "").strip()
        if text:
            self.values[name] = text[:200]
        else:
            self.values.pop(name, None)
        self.cursors.clear()

    def page_query(self) -> str:
        """Return the query of the page's address, with its question mark; empty where there is no filter."""
        return f"?{urlencode(self.values)}" if self.values else ""

    def api_query(self, limit: int) -> dict[str, Any]:
        """Return the query of `/requests` for `limit` rows."""
        query: dict[str, Any] = dict(self.values, limit=limit)
        age = query.pop("age", None)
        if age is not None:
            query["since"] = time.time() - _AGES[age]
        if self.cursors:
            query["cursor"] = self.cursors[-1]
        return query


class _RequestList:
    """A page of requests with a link to the next."""

    def __init__(self, visit: PageVisit, filters: RequestFilters, live: ui.switch) -> None:
        """Draw the table and its buttons, empty so far; `live`: the first page refreshes by itself."""
        self._visit = visit
        self._filters = filters
        self._live = live
        self._next: str | None = None
        self._reloads = 0
        say = visit.say
        self._table = draw_row_table(table_columns(say, "requests", _COLUMNS, _FIGURES), "request_row.html")
        self._table.classes("rw-requests").props(f'flat dense aria-label="{say("requests.title")}"')
        self._table.props(':pagination="{rowsPerPage: 0}" hide-bottom')
        with ui.element("div").classes("rw-row"):
            self._summary = ui.label().classes("rw-muted rw-small").props("role=status")
            ui.space()
            self._newer = ui.button(say("requests.newer"), on_click=self._previous_page)
            self._newer.props("flat icon=west")
            self._older = ui.button(say("requests.older"), on_click=self._next_page)
            self._older.props("flat icon-right=east")

    async def reload_page(self) -> None:
        """Ask again; an answer that another reload has overtaken is not shown, however late it comes."""
        say, filters = self._visit.say, self._filters
        self._reloads += 1
        number = self._reloads
        data = await self._visit.gateway.get_json("/requests", **filters.api_query(_ROWS_PER_PAGE))
        if number != self._reloads:
            return
        self._next = data["next"]
        rows = [_request_cells(say, self._visit.link, row) for row in data["requests"]]
        if rows != self._table.rows:
            self._table.rows = rows
        self._summary.set_text(self._summary_text(data))
        self._newer.set_enabled(bool(filters.cursors))
        self._older.set_enabled(self._next is not None)

    async def poll_first_page(self) -> None:
        """Show what has come since on the first page; others stay as they are."""
        if self._live.value and not self._filters.cursors:
            await self.reload_page()

    async def turn_to_first(self) -> None:
        """Show what other filters find."""
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

    def _summary_text(self, data: Mapping[str, Any]) -> str:
        say, shown = self._visit.say, len(data["requests"])
        if not shown:
            key = "requests.none" if data["next"] is None else "requests.none_yet"
            return say(key, examined=data["examined"])
        return say("requests.page", page=len(self._filters.cursors) + 1, shown=shown, kept=data["kept"])


class _FilterBar:
    """The fields by which requests are found; `changed` is called with every change."""

    def __init__(
        self, visit: PageVisit, filters: RequestFilters, changed: Callable[[], Awaitable[None]]
    ) -> None:
        say = self._say = visit.say
        self._filters = filters
        self._changed = changed
        search = ui.input(placeholder=say("requests.search"), value=filters.values.get("q", ""))
        search.on_value_change(self._filter_setter("q")).classes("rw-fill")
        search.props(f'outlined dense clearable debounce=100 aria-label="{say("requests.search")}"')
        search.props("data-search")
        self._draw_select("status", {name: say(f"requests.status.{name}") for name in _STATUSES})
        flags = {flag: say(f"requests.flag.{flag}") for flag in _FLAGS}
        self._draw_select("flags", flags, several=True)
        self._draw_select("age", {name: say(f"requests.age.{name}") for name in _AGES})
        for name in ("model", "worker", "tenant", "surface", "category"):
            if name in filters.values:
                self._draw_chip(name)

    def _draw_select(self, name: str, options: dict[str, str], *, several: bool = False) -> None:
        chosen = [value for value in self._filters.values.get(name, "").split(",") if value in options]
        value = chosen if several else next(iter(chosen), None)
        select = ui.select(options, value=value, multiple=several, label=self._say(f"requests.{name}"))
        select.on_value_change(self._filter_setter(name)).classes("rw-select")
        select.props("outlined dense clearable options-dense")

    def _draw_chip(self, name: str) -> None:
        """Draw a filter that an address brought and that can only be taken away."""

        async def drop() -> None:
            self._filters.set_filter(name, "")
            chip.delete()
            await self._changed()

        text = f"{self._say(f'requests.{name}')}: {self._filters.values[name]}"
        chip = ui.button(text, on_click=drop).classes("rw-chip plain")
        chip.props(f'flat dense no-caps icon-right=close aria-label="{self._say("requests.drop")}"')

    def _filter_setter(self, name: str) -> Callable[[Any], Awaitable[None]]:
        async def set_filter(event: Any) -> None:
            self._filters.set_filter(name, event.value)
            await self._changed()

        return set_filter


def _request_cells(say: TextCatalog, url_of: Callable[[str], str], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return `row` of `/requests` as the cells of `request_row.html`; `url_of` makes links."""
    request_id, status = row["id"], row["status"]
    short = request_id if len(request_id) <= _ID_CHARS + 1 else request_id[:_ID_CHARS] + "…"
    cached = row["cached_tokens"]
    return {
        "id": request_id,
        "short": short,
        "link": url_of(f"/requests/{quote(request_id, safe='')}"),
        "began_at": row["began_at"],
        "status_said": str(status) if status is not None else "–",
        "looks": row_mood(row),
        "error": row["error"] or "",
        "why": row["blocked_by"] or "",
        "tenant": row["tenant"] or "–",
        "model": row["model"] or row["asked"] or "–",
        "worker": row["worker"] or "–",
        "provider": row["provider"] or "",
        "ttft": format_milliseconds(row["ttft_ms"]),
        "total": format_milliseconds(row["total_ms"]),
        "prompt": format_count(row["prompt_tokens"]),
        "cached": say("requests.cached", tokens=format_count(cached)) if cached else "",
        "answer": format_count(row["completion_tokens"]),
        "cost": request_cost(row),
        "marks": [(say(f"requests.flag.{flag}"), _FLAG_MOODS.get(flag, "")) for flag in row["flags"]],
    }


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


PAGE = ConsolePage(
    name="requests",
    path="/requests",
    icon="receipt_long",
    key="r",
    build=build_requests_page,
    also=("/requests/{request_id:path}",),
)

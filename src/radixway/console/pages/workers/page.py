"""The table of workers, and all that is known of one beside it."""

from collections.abc import Iterator, Mapping
from typing import Any

from nicegui import events, ui

from radixway.console.components import (
    draw_icon_button,
    draw_page_title,
    draw_row_table,
    draw_text,
    table_columns,
)
from radixway.console.gateway_watch import GatewayWatch
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.workers.actions import WorkerActions, open_add_form
from radixway.console.texts import TextCatalog
from radixway.core.http.gateway_client import describe_trouble
from radixway.core.telemetry.scrapes import MetricsScrape, WorkerStats

_ROWS_PER_PAGE = 50
_STATE_MOODS = {"joining": "", "ready": "good", "stale": "warn", "down": "bad", "draining": "warn"}
_BREAKER_MOODS = {"closed": "", "half_open": "warn", "open": "bad"}
_COLUMNS = ("name", "state", "models", "load", "kv", "hits", "tokens", "version", "breaker")


async def build_workers_page(visit: PageVisit) -> None:
    """Build the table of all workers for `visit`; a click on one shows its details."""
    say, watch = visit.say, visit.watch
    actions = WorkerActions(visit)
    with draw_page_title(say("workers.title")):
        count = ui.label().classes("rw-muted rw-number")
        search = ui.input(placeholder=say("workers.search")).props("outlined dense clearable data-search")
        search.props(f'aria-label="{say("workers.search")}" type=search').classes("rw-search")
        options = {state: say(f"workers.state.{state}") for state in _STATE_MOODS}
        state = ui.select({"": say("workers.state.any")} | options, value="")
        state.props(f'outlined dense aria-label="{say("workers.state")}"')
        add = ui.button(say("workers.add"), icon="add").props("unelevated")
        add.on_click(lambda: open_add_form(visit, actions))
    columns = table_columns(say, "workers", _COLUMNS, right=("hits", "tokens"))
    table = draw_row_table(
        [column | {"sortable": True} for column in columns],
        "worker_row.html",
        key="url",
        pagination={"rowsPerPage": _ROWS_PER_PAGE, "sortBy": "name"},
    )
    table.props('flat binary-state-sort :rows-per-page-options="[25, 50, 100, 0]"')
    table.props(f'no-data-label="{say("workers.none")}"')
    details = WorkerDetails(visit, actions)

    def show() -> None:
        rows = [worker_cells(say, worker, watch.by_worker.get(worker["name"])) for worker in watch.workers]
        ready = sum(row["state"] == "ready" for row in rows)
        count.set_text(say("workers.count", ready=ready, all=len(rows)))
        wanted = (search.value or "").lower()
        shown = [row for row in rows if wanted in row["found_by"] and state.value in ("", row["state"])]
        if shown != table.rows:
            table.rows = shown
        details.update_panel()

    async def act(event: events.GenericEventArguments) -> None:
        name, url = event.args
        worker = _find_worker(watch, url)
        if worker is None:
            return
        if name == "details":
            details.open_worker(url)
        else:
            await actions.confirm_and_run(name, worker)

    table.on("act", act)
    search.on_value_change(show)
    state.on_value_change(show)
    visit.on_new_sample(show)


def worker_cells(say: TextCatalog, worker: Mapping[str, Any], figures: WorkerStats | None) -> dict[str, Any]:
    """Return `worker`, as `/list_workers` has it, and its `figures` as the cells of `worker_row.html`."""
    in_flight = worker["in_flight"] + worker["in_flight_elsewhere"]
    capacity = worker["max_in_flight"] or worker["max_batch_size"]
    kv = figures.kv_usage if figures is not None else None
    hits = figures.reported_hits if figures is not None else None
    tokens = figures.completion_tokens_per_s if figures is not None else 0.0
    models = ", ".join(worker["models"])
    return {
        "url": worker["url"],
        "name": worker["name"],
        "provider": worker["provider"] or "",
        "state": worker["state"],
        "trouble": describe_trouble(worker["state"], worker["last_error"], worker.get("error_kind")),
        "state_said": say(f"workers.state.{worker['state']}"),
        "looks": _STATE_MOODS[worker["state"]],
        "models": models,
        "load": in_flight,
        "full": min(in_flight / capacity, 1.0) if capacity else min(in_flight, 1) * 0.5,
        "load_said": f"{in_flight} / {capacity}" if capacity else f"{in_flight}",
        "kv": None if kv is None else round(kv, 3),
        "hits": -1 if hits is None else round(hits, 3),
        "hits_said": "–" if hits is None else f"{hits:.0%}",
        "tokens": round(tokens, 1),
        "tokens_said": f"{tokens:.0f}" if tokens else "–",
        "version": worker["weight_version"] or "–",
        "breaker": worker["breaker"],
        "breaker_said": say(f"workers.breaker.{worker['breaker']}"),
        "breaker_looks": _BREAKER_MOODS[worker["breaker"]],
        "found_by": " ".join((worker["url"], worker["provider"] or "", models, *worker["pools"])).lower(),
    }


class WorkerDetails:
    """A side panel that follows the latest reading."""

    def __init__(self, visit: PageVisit, actions: WorkerActions) -> None:
        self._visit = visit
        self._actions = actions
        self._url: str | None = None
        self._shown: list[tuple[str, str]] = []
        self._state: str | None = None
        self._dialog = ui.dialog().props(
            "position=right full-height transition-show=fade transition-hide=fade"
        )
        with self._dialog, ui.card().classes("rw-side"):
            with ui.element("div").classes("rw-page-title"):
                self._title = draw_text("", "h2", "rw-mono")
                draw_icon_button("close", visit.say("frame.close"), self._dialog.close)
            self._buttons = ui.element("div").classes("rw-row")
            self._facts = ui.element("dl").classes("rw-facts")

    def open_worker(self, url: str) -> None:
        """Show the worker of `url`."""
        self._url, self._state, self._shown = url, None, []
        self.update_panel()
        self._dialog.open()

    def update_panel(self) -> None:
        """Show the latest reading; close the panel if the worker has left."""
        if self._url is None:
            return
        worker = _find_worker(self._visit.watch, self._url)
        if worker is None:
            self._dialog.close()
            self._url = None
            return
        if worker["state"] != self._state:
            self._state = worker["state"]
            self._title.set_text(worker["name"])
            self._draw_buttons(worker)
        facts = list(_worker_facts(self._visit, worker))
        if facts != self._shown:
            self._shown = facts
            self._facts.clear()
            with self._facts:
                for label, value in facts:
                    draw_text(label, "dt")
                    draw_text(value, "dd")

    def _draw_buttons(self, worker: Mapping[str, Any]) -> None:
        self._buttons.clear()
        with self._buttons:
            for name in ("resume" if worker["state"] == "draining" else "drain", "remove"):
                button = ui.button(self._visit.say(f"workers.{name}")).props("outline")
                button.on_click(lambda name=name: self._run_action(name))

    async def _run_action(self, name: str) -> None:
        worker = _find_worker(self._visit.watch, self._url)
        if worker is not None:
            await self._actions.confirm_and_run(name, worker)


def _find_worker(watch: GatewayWatch, url: str | None) -> Mapping[str, Any] | None:
    """Return the worker of `url` as it was last read; None if it has left."""
    return next((worker for worker in watch.workers if worker["url"] == url), None)


def _worker_facts(visit: PageVisit, worker: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    say = visit.say

    def fact(key: str, value: Any) -> tuple[str, str]:
        return say(f"workers.{key}"), str(value)

    yield fact("address", worker["url"])
    yield fact("state", say(f"workers.state.{worker['state']}"))
    if worker["provider"]:
        yield fact("provider", worker["provider"])
    yield fact("models", ", ".join(worker["models"]) or "–")
    if worker["last_error"]:
        yield fact("error", worker["last_error"])
    yield fact("load", worker["in_flight"])
    if worker["in_flight_elsewhere"]:
        yield fact("elsewhere", worker["in_flight_elsewhere"])
    yield fact("answered", f"{worker['total']:,}")
    if worker["max_batch_size"]:
        yield fact("batch", worker["max_batch_size"])
    if worker["kv_tokens"]:
        yield fact("capacity", say("workers.capacity.tokens", count=f"{worker['kv_tokens']:,}"))
    figures = visit.watch.by_worker.get(worker["name"])
    if figures is not None:
        if figures.kv_usage is not None:
            yield fact("kv", f"{figures.kv_usage:.0%}")
        if figures.reported_hits is not None:
            yield fact("hits", f"{figures.reported_hits:.0%}")
        yield fact("tokens", f"{figures.completion_tokens_per_s:.1f}")
    if visit.watch.latest is not None:
        yield from _reported_facts(say, worker["name"], visit.watch.latest)
    yield fact("breaker", say(f"workers.breaker.{worker['breaker']}"))
    yield fact("version", worker["weight_version"] or "–")
    yield fact("role", worker["role"])
    if worker["pools"]:
        yield fact("pools", ", ".join(worker["pools"]))
    yield fact("sources", ", ".join(worker["sources"]) or "–")
    events = worker["kv_events"]
    reason = f" ({events['reason']})" if events["reason"] else ""
    yield fact("events", f"{events['state']}{reason}")


def _reported_facts(say: TextCatalog, name: str, latest: MetricsScrape) -> Iterator[tuple[str, str]]:
    """Yield what the metrics of the worker `name` say, where it has any."""
    for key in ("running", "waiting"):
        value = latest.totals_by("worker", f"radixway_worker_{key}").get(name)
        if value is not None:
            yield say(f"workers.{key}"), f"{value:.0f}"
    capacity = latest.totals_by("tier", "radixway_worker_tier_tokens", worker=name)
    cached = latest.totals_by("tier", "radixway_worker_tier_cached_tokens", worker=name)
    for tier, tokens in capacity.items():
        share = say("workers.tier.of", held=f"{cached.get(tier, 0):,.0f}", all=f"{tokens:,.0f}")
        yield say("workers.tier", tier=tier), share


PAGE = ConsolePage(name="workers", path="/workers", icon="dns", key="w", build=build_workers_page)

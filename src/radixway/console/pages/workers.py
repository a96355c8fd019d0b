"""*Workers*: who answers requests, how they are, and adding and taking them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import events, ui

from radixway.console.page import ConsolePage, PageVisit
from radixway.console.worker_actions import WorkerActions, open_add_dialog
from radixway.console.worker_details import WorkerDetails
from radixway.console.worker_rows import BODY, STATES, worker_cells, worker_columns

_ROWS_PER_PAGE = 50


async def build_workers_page(visit: PageVisit) -> None:
    """Build the table of all workers for `visit`; a click on one shows its details."""
    say, watch = visit.say, visit.watch
    actions = WorkerActions(visit)
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1"):
            ui.label(say("workers.title"))
        count = ui.label().classes("rw-muted rw-number")
        search = ui.input(placeholder=say("workers.search")).props("outlined dense clearable data-search")
        search.props(f'aria-label="{say("workers.search")}" type=search').classes("rw-search")
        options = {"": say("workers.state.any")} | {state: say(f"workers.state.{state}") for state in STATES}
        state = ui.select(options, value="").props(f'outlined dense aria-label="{say("workers.state")}"')
        add = ui.button(say("workers.add"), icon="add").props("unelevated")
        add.on_click(lambda: open_add_dialog(visit, actions))
    table = ui.table(
        columns=worker_columns(say),
        rows=[],
        row_key="url",
        pagination={"rowsPerPage": _ROWS_PER_PAGE, "sortBy": "name"},
    ).classes("rw-table")
    table.props('flat binary-state-sort :rows-per-page-options="[25, 50, 100, 0]"')
    table.props(f'no-data-label="{say("workers.none")}"')
    table.add_slot("body", BODY)
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
        what, url = event.args
        worker = _find_worker(visit, url)
        if worker is None:
            return
        if what == "details":
            details.open_worker(url)
        else:
            await actions.confirm_and_run(what, worker)

    table.on("act", act)
    search.on_value_change(show)
    state.on_value_change(show)
    visit.on_new_sample(show)


def _find_worker(visit: PageVisit, url: str) -> Mapping[str, Any] | None:
    """The worker as it was last read; None if it has left."""
    return next((worker for worker in visit.watch.workers if worker["url"] == url), None)


PAGE = ConsolePage(name="workers", path="/workers", icon="dns", key="w", build=build_workers_page)

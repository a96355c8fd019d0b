"""*Workers*: who answers requests, how they are, and adding and taking them out."""

from __future__ import annotations

from nicegui import ui

from radixway.console.page import Page, Visit


async def build(visit: Visit) -> None:
    """The table of all workers."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"), ui.element("h1"):
        ui.label(say("workers.title"))
    table = ui.table(
        columns=[{"name": "url", "label": say("workers.url"), "field": "url"}], rows=[], row_key="url"
    )

    async def refresh() -> None:
        table.rows = (await visit.gateway.get("/list_workers"))["workers"]

    await refresh()
    visit.every(2.0, refresh)


PAGE = Page(name="workers", path="/workers", icon="dns", key="w", build=build)

"""*Prefixes*: a drawing of what prompts have in common, how it is drawn, and the same as a table."""

from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from radixway.console.charts import chart_options, draw_chart
from radixway.console.components import draw_empty, draw_page_title, draw_row_table, draw_text, table_columns
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.prefixes.charts import HeatScale, prefix_rows, prefix_tree

_CHOICES = {
    "source": ("requests", "caches", "trajectories"),
    "view": ("sunburst", "tree"),
    "size": ("requests", "tokens"),
    "most": ("60", "200", "500"),
}
"""Choices by query parameter; the first is the default."""
_COLUMNS = ("prefix", "begin", "heat", "tenants", "workers", "held_by", "last_used", "hidden")
_REFRESH_S = 5.0


async def build_prefixes_page(visit: PageVisit) -> None:
    """Build the page for `visit`: a drawing, and the same as a table."""
    say = visit.say
    chosen = {
        name: given if (given := visit.request.query_params.get(name)) in values else values[0]
        for name, values in _CHOICES.items()
    }
    if "source" not in visit.request.query_params:
        some = await visit.gateway.get_json("/prefixes", most=1)
        if not some["prefixes"]:  # where there is one worker, it alone knows
            chosen["source"] = "caches"
    data: dict[str, Any] = {}
    with draw_page_title(say("prefixes.title")):
        live = ui.switch(say("prefixes.live"), value=False)
    ui.label(say("prefixes.hint")).classes("rw-muted")

    async def choose(name: str, value: str) -> None:
        chosen[name] = value
        ui.navigate.history.replace(f"{visit.link('/prefixes')}?{urlencode(chosen)}")
        async with visit.catch_call_errors():
            await refresh()

    with ui.element("div").classes("rw-row rw-filters"):
        for name, values in _CHOICES.items():
            _draw_toggle(visit, name, values, chosen[name], choose)
    with ui.element("section").classes("rw-card"):
        with ui.element("div").classes("rw-row"):
            summary = ui.label().classes("rw-muted rw-small").props("role=status")
            ui.space()
            legend = ui.element("div").classes("rw-row rw-legend")
        drawing = ui.element("div").classes("rw-full")
    with ui.element("section").classes("rw-stack"):
        draw_text(say("prefixes.table"), "h2")
        columns = table_columns(say, "prefixes", _COLUMNS, right=("begin", "heat"))
        table = draw_row_table(columns, "prefix_row.html").classes("rw-prefixes")
        table.props(f'flat dense hide-bottom aria-label="{say("prefixes.table")}"')
        table.props(':pagination="{rowsPerPage: 0}"')

    async def refresh() -> None:
        fresh = await visit.gateway.get_json(
            "/prefixes", source=chosen["source"], most=chosen["most"], levels=12
        )
        shown = fresh | {"chosen": dict(chosen)}
        if shown == data:
            return
        data.clear()
        data.update(shown)
        _draw_chart(visit, fresh, chosen, drawing, legend)
        summary.set_text(_summary_text(visit, fresh))
        table.rows = prefix_rows(say, fresh["prefixes"])

    async def go_on() -> None:
        if live.value:
            await refresh()

    await refresh()
    visit.refresh_every(_REFRESH_S, go_on)


def _draw_toggle(visit: PageVisit, name: str, values: tuple[str, ...], value: str, choose: Any) -> None:
    say = visit.say
    texts = {choice: choice if name == "most" else say(f"prefixes.{name}.{choice}") for choice in values}
    label = say(f"prefixes.{name}")

    async def chose(event: Any) -> None:
        await choose(name, event.value)

    with ui.element("div").classes("rw-row").props(f'role=group aria-label="{label}"'):
        ui.label(label).classes("rw-label")
        ui.toggle(texts, value=value, on_change=chose).props("dense no-caps unelevated").classes("rw-toggle")


def _draw_chart(
    visit: PageVisit, data: dict[str, Any], chosen: dict[str, str], drawing: ui.element, legend: ui.element
) -> None:
    say, prefixes = visit.say, data["prefixes"]
    drawing.clear()
    legend.clear()
    if not prefixes:
        with drawing:
            draw_empty(say(f"prefixes.nothing.{data['source']}"))
        return
    tops = prefix_tree(say, prefixes, chosen["size"])
    with drawing:
        if chosen["view"] == "tree":
            root = {"name": say("prefixes.all"), "children": tops, "itemStyle": {"color": "var(--rw-muted)"}}
            options = chart_options("tree", {"series": {"data": [root]}})
            height_px = max(360, min(1600, 18 * len(prefixes)))
            chart = draw_chart(options, say("prefixes.drawing")).classes("rw-tree")
            chart.style(f"height: {height_px}px")
        else:
            options = chart_options("sunburst", {"series": {"data": tops}})
            draw_chart(options, say("prefixes.drawing"), renderer="canvas").classes("rw-burst")
    with legend:
        ui.label(say(f"prefixes.heat.{data['source']}")).classes("rw-label")
        for colour, min_heat in HeatScale.from_prefixes(prefixes).legend_steps():
            with ui.element("span").classes("rw-row rw-tight"):
                ui.element("i").classes("rw-heat").style(f"background: {colour}").props("aria-hidden=true")
                ui.label(f"≥ {min_heat}").classes("rw-small rw-number")


def _summary_text(visit: PageVisit, data: dict[str, Any]) -> str:
    say = visit.say
    words = [say("prefixes.shown", count=len(data["prefixes"]))]
    if data["requests"] is not None:
        words.append(say("prefixes.made_of", requests=data["requests"], tokens=data["prompt_tokens"]))
    if data["silent"]:
        words.append(say("prefixes.silent", workers=", ".join(data["silent"])))
    return " ".join(words)


PAGE = ConsolePage(name="prefixes", path="/prefixes", icon="account_tree", key="x", build=build_prefixes_page)

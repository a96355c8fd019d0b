"""*Usage*: requests, tokens and costs by tenant, model, category, day or key, as a chart and as a table."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from radixway.console.charts import axis_options, chart_options, draw_chart
from radixway.console.components import (
    draw_card,
    draw_empty,
    draw_how_to_enable,
    draw_page_title,
    draw_table,
    draw_tile,
    to_json,
)
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.texts import TextCatalog
from radixway.core.config.tenants import format_cost

_GROUPS = ("tenant", "model", "category", "day")
_DEFAULT_GROUPS = ("tenant", "model")
_KEY_GROUPS = ("key", "user", "team")
_DAYS = ("1", "7", "30", "90")
_FIGURES = ("requests", "failed", "prompt_tokens", "cached_tokens", "completion_tokens")
_TILES = ("requests", "prompt_tokens", "completion_tokens", "cost")
_BARS = 12
_ROWS = 200

Row = Mapping[str, Any]


async def build_usage_page(visit: PageVisit) -> None:
    """Build the page for `visit`; what is chosen stands in its address."""
    say, query = visit.say, visit.request.query_params
    days = query["days"] if query.get("days") in _DAYS else "30"
    chosen = [name for name in query.get("by", "").split(",") if name in _GROUPS] or list(_DEFAULT_GROUPS)
    choice: dict[str, Any] = {"days": days, "by": chosen}
    with draw_page_title(say("usage.title")):
        options = {number: say(f"usage.days.{number}") for number in _DAYS}
        period = ui.select(options, value=days, label=say("usage.period")).props("outlined dense")
        groups = {name: say(f"usage.{name}") for name in _GROUPS}
        by = ui.select(groups, value=chosen, multiple=True, label=say("usage.by"))
        by.props("outlined dense use-chips").classes("rw-select-wide")
    content = ui.element("div").classes("rw-stack")

    async def show() -> None:
        async with visit.catch_call_errors():
            today = datetime.now(UTC).date()
            first = today - timedelta(days=int(choice["days"]) - 1)
            fields = ",".join(choice["by"])
            span = {"from": first, "to": today}
            data = await visit.gateway.find_json("/usage", **span, by=fields)
            if data is None:
                content.clear()
                with content:
                    draw_how_to_enable(say, "usage")
                return
            by_day = await visit.gateway.get_json("/usage", **span, by="day")
            spend = await _fetch_spend(visit, span)
            content.clear()
            with content:
                _draw_report(say, choice["by"], data["usage"], by_day["usage"])
                if spend:
                    with draw_card(say("usage.by_key"), say("usage.by_key.hint")):
                        _draw_rows(say, _KEY_GROUPS, spend)

    async def choose() -> None:
        choice["days"], choice["by"] = period.value, list(by.value or _DEFAULT_GROUPS)
        address = urlencode({"days": choice["days"], "by": ",".join(choice["by"])}, safe=",")
        ui.navigate.history.replace(f"{visit.link('/usage')}?{address}")
        await show()

    await show()
    period.on_value_change(choose)
    by.on_value_change(choose)


async def _fetch_spend(visit: PageVisit, span: Mapping[str, Any]) -> Sequence[Row]:
    """Return the keys made at run time that spent most in `span`; nothing where there are none."""
    found = await visit.gateway.find_json("/spend", **span, by=",".join(_KEY_GROUPS))
    if found is None:
        return ()
    rows = _costliest(found["spend"])
    names: dict[str, str] = {}
    for id in {row["key"] for row in rows if row["key"]}:
        if (key := await visit.gateway.find_json(f"/keys/{quote(id, safe='')}")) is not None:
            names[id] = f"{key['alias'] or id} ({key['shown']})"
    return [{**row, "key": names.get(row["key"], row["key"])} for row in rows]


def _costliest(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["cost"], reverse=True)[:_ROWS]


def _draw_rows(say: TextCatalog, by: Sequence[str], rows: Sequence[Row]) -> None:
    """Draw `rows`, which are grouped by the columns `by`."""
    heads = [say(f"usage.{name}") for name in (*by, *_FIGURES, "cost")]
    draw_table(heads, [_row_cells(by, row) for row in rows])


def _draw_report(say: TextCatalog, by: Sequence[str], rows: Sequence[Row], days: Sequence[Row]) -> None:
    """Draw the totals of `rows`, the costs of `days`, the costliest groups, and every row."""
    if not rows:
        with ui.element("div").classes("rw-card"):
            draw_empty(say("usage.none"))
        return
    with ui.element("div").classes("rw-tiles"):
        for name in _TILES:
            draw_tile(say(f"usage.{name}"), _total_text(rows, name))
    with ui.element("div").classes("rw-grid wide"):
        with draw_card(say("usage.cost_by_day")):
            costs = _sum_costs(days, ["day"])
            draw_chart(
                _day_options(dict(sorted(costs.items())), _currency(rows)), say("usage.cost_by_day")
            ).classes("rw-chart")
        with draw_card(say("usage.costliest")):
            costs = _sum_costs(rows, by)
            draw_chart(_cost_options(costs, _currency(rows)), say("usage.costliest")).classes("rw-chart")
    hint = say("usage.cut", count=_ROWS, total=f"{len(rows):,}") if len(rows) > _ROWS else ""
    with draw_card(say("usage.table"), hint):
        _draw_rows(say, by, _costliest(rows) if hint else rows)


def _row_cells(by: Sequence[str], row: Row) -> list[str]:
    figures = [f"{row[name]:,}" for name in _FIGURES]
    return [
        *(str(row[name] or "–") for name in by),
        *figures,
        f"{format_cost(row['cost'])} {row['currency']}",
    ]


def _total_text(rows: Sequence[Row], name: str) -> str:
    """Return the total of `name`; costs by currency."""
    if name != "cost":
        return f"{sum(row[name] for row in rows):,}"
    totals: dict[str, float] = {}
    for row in rows:
        if row["cost"]:
            totals[row["currency"]] = totals.get(row["currency"], 0.0) + row["cost"]
    return " + ".join(f"{format_cost(cost)} {currency}" for currency, cost in totals.items()) or "0"


def _sum_costs(rows: Sequence[Row], by: Sequence[str]) -> dict[str, float]:
    """Return costs by the names of the groups `by`."""
    costs: dict[str, float] = {}
    for row in rows:
        name = " · ".join(str(row[field] or "–") for field in by)
        costs[name] = costs.get(name, 0.0) + row["cost"]
    return costs


def _currency(rows: Sequence[Row]) -> str:
    """Return the currencies of `rows`, mostly one."""
    return " / ".join(dict.fromkeys(str(row["currency"]) for row in rows if row["cost"]))


def _cost_formatter(currency: str) -> str:
    """Return the formatter of an axis, as JavaScript, in which a name is a name whatever stands in it."""
    return f"v => +v.toPrecision(3) + {to_json(f' {currency}')}"


def _day_options(costs: Mapping[str, float], currency: str) -> dict[str, Any]:
    """Return a chart with a bar for each day of `costs`."""
    return chart_options(
        "moving",
        {
            "legend": {"show": False},
            "xAxis": {
                "type": "category",
                "data": list(costs),
                "axisLabel": {":formatter": "v => v.slice(5)"},
            },
            "yAxis": {"axisLabel": {":formatter": _cost_formatter(currency)}},
            "series": [{"type": "bar", "barMaxWidth": 22, "data": list(costs.values())}],
        },
    )


def _cost_options(costs: Mapping[str, float], currency: str) -> dict[str, Any]:
    """Return a chart with a bar for each of the costliest groups."""
    top = sorted(costs.items(), key=lambda pair: pair[1])[-_BARS:]
    return chart_options(
        "bars",
        {
            "xAxis": axis_options("value", _cost_formatter(currency), splitNumber=2),
            "yAxis": {"data": [name for name, _ in top]},
            "series": {
                "data": [cost for _, cost in top],
                "color": "var(--rw-accent)",
                "label": {":formatter": "p => +p.value.toPrecision(3)"},
            },
        },
    )


PAGE = ConsolePage(name="usage", path="/usage", icon="payments", key="b", build=build_usage_page)

"""*Guard*: what was found, by kind and over time, what was done about it, and the audit log."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from nicegui import ui

from radixway.console.charts import axis_options, chart_options, draw_chart
from radixway.console.components import (
    draw_card,
    draw_empty,
    draw_how_to_enable,
    draw_page_title,
    draw_row_table,
    draw_table,
    format_time,
    table_columns,
)
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.texts import TextCatalog

_ENTRIES = 500
_KINDS = 12
_BUCKETS = 24
_REFRESH_S = 5.0
_COLUMNS = ("time", "action", "rule", "found", "tenant", "model", "request")
_ACTION_MOODS = {"block": "bad", "error": "bad", "mask": "warn", "redact": "warn", "report": "plain"}
_RULES = ("pii", "jailbreak", "answers", "rules")

Entry = Mapping[str, Any]


async def build_guard_page(visit: PageVisit) -> None:
    """Build the page for `visit`: charts of the latest incidents above the audit log."""
    say = visit.say
    with draw_page_title(say("guard.title")):
        rule = ui.select({"": say("guard.any_rule")} | {name: say(f"guard.rule.{name}") for name in _RULES})
        rule.set_value("")
        rule.props(f'outlined dense aria-label="{say("guard.rule")}"').classes("rw-select")
    ui.label(say("guard.hint")).classes("rw-muted")
    data = await visit.gateway.find_json("/audit", limit=_ENTRIES)
    if data is None:
        draw_how_to_enable(say, "guard")
        return
    shown: list[Entry] = []
    with ui.element("div").classes("rw-grid wide"):
        with draw_card(say("guard.kinds")):
            kinds = ui.element("div")
        with draw_card(say("guard.over_time")):
            over_time = ui.element("div")
        with draw_card(say("guard.done")):
            done = ui.element("div")
    with ui.element("section").classes("rw-stack"):
        columns = table_columns(say, "guard", _COLUMNS)
        table = draw_row_table(columns, "audit_row.html", key="seq", pagination={"rowsPerPage": 50})
        table.classes("rw-single")
        table.props(f'flat dense aria-label="{say("guard.log")}" no-data-label="{say("guard.none")}"')
        ui.label(say("guard.log.where", path=data["log"]["path"])).classes("rw-muted rw-small")

    def show(entries: Sequence[Entry]) -> None:
        incidents = [entry for entry in entries if entry.get("kind") == "incident"]
        for place in (kinds, over_time, done):
            place.clear()
        with kinds:
            _draw_kinds(say, incidents)
        with over_time:
            _draw_over_time(say, incidents)
        with done:
            _draw_actions(say, incidents)
        table.rows = [_entry_cells(visit, entry) for entry in entries]

    async def refresh() -> None:
        fresh = await visit.gateway.get_json("/audit", limit=_ENTRIES, rule=rule.value or None)
        if fresh["entries"] != shown:
            shown[:] = fresh["entries"]
            show(shown)

    async def choose() -> None:
        async with visit.catch_call_errors():
            await refresh()

    shown[:] = data["entries"]
    show(shown)
    rule.on_value_change(choose)
    visit.refresh_every(_REFRESH_S, refresh)


def _draw_kinds(say: TextCatalog, incidents: Sequence[Entry]) -> None:
    """Draw a bar for each kind of finding, the most frequent on top."""
    counts: Counter[str] = Counter()
    for entry in incidents:
        types = {str(finding["type"]) for finding in entry.get("findings") or ()}
        counts.update(types or {str(entry["rule"])})
    if not counts:
        draw_empty(say("guard.nothing"))
        return
    latest = counts.most_common(_KINDS)[::-1]
    options = chart_options(
        "bars",
        {
            "xAxis": axis_options(
                "value", "v => v", minInterval=1, name=say("guard.incidents"), nameLocation="middle"
            )
            | {"nameGap": 24, "nameTextStyle": {"color": "var(--rw-muted)", "fontSize": 11}},
            "grid": {"bottom": 24},
            "yAxis": {"data": [kind for kind, _ in latest]},
            "series": {"data": [count for _, count in latest], "color": "var(--rw-accent)"},
        },
    )
    draw_chart(options, say("guard.kinds")).classes("rw-chart")


def _draw_over_time(say: TextCatalog, incidents: Sequence[Entry]) -> None:
    """Draw how many incidents there were from the first to the last, in equal steps."""
    times = [_entry_seconds(entry) for entry in incidents]
    if not times:
        draw_empty(say("guard.nothing"))
        return
    first, step_s = min(times), max((max(times) - min(times)) / _BUCKETS, 60.0)
    counts = Counter(int((at - first) / step_s) for at in times)
    points = [
        [round((first + bucket * step_s) * 1000), counts.get(bucket, 0)] for bucket in range(max(counts) + 1)
    ]
    options = chart_options(
        "moving",
        {
            "legend": {"show": False},
            "yAxis": {"minInterval": 1, "name": say("guard.incidents")},
            "grid": {"top": 32},
            "xAxis": {
                "axisLabel": {":formatter": "v => new Date(v).toISOString().slice(5, 16).replace('T', ' ')"}
            },
            "series": [{"type": "bar", "barMaxWidth": 22, "data": points}],
        },
    )
    draw_chart(options, say("guard.over_time")).classes("rw-chart")


def _draw_actions(say: TextCatalog, incidents: Sequence[Entry]) -> None:
    """Draw how often each rule did what."""
    counts = Counter((str(entry["rule"]), str(entry["action"])) for entry in incidents)
    if not counts:
        draw_empty(say("guard.nothing"))
        return
    rows = [(rule, action, str(count)) for (rule, action), count in counts.most_common()]
    draw_table([say("guard.rule"), say("guard.action"), say("guard.incidents")], rows)


def _entry_cells(visit: PageVisit, entry: Entry) -> dict[str, Any]:
    """Return `entry` of the audit log as the cells of `audit_row.html`."""
    findings = Counter(str(finding["type"]) for finding in entry.get("findings") or ())
    request = entry.get("request")
    action = str(entry.get("action") or entry.get("event") or entry.get("kind"))
    return {
        "seq": entry["seq"],
        "time": format_time(_entry_seconds(entry)),
        "action": action,
        "looks": _ACTION_MOODS.get(action, "plain"),
        "rule": str(entry.get("rule") or entry.get("kind")),
        "found": ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in findings.items()),
        "tenant": entry.get("tenant") or "–",
        "model": entry.get("model") or "–",
        "request": request or "",
        "link": visit.link(f"/requests/{quote(str(request), safe='')}") if request else "",
    }


def _entry_seconds(entry: Entry) -> float:
    return datetime.fromisoformat(str(entry["time"])).replace(tzinfo=UTC).timestamp()


PAGE = ConsolePage(name="guard", path="/guard", icon="shield", key="a", build=build_guard_page)

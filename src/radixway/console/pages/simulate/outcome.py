"""The outcome of a simulation: figures beside each other, the best of each marked, and charts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from radixway.console.charts import (
    FULL_PERCENT,
    PERCENT,
    axis_options,
    chart_options,
    draw_chart,
    line_dash,
)
from radixway.console.components import draw_card, draw_text, format_json
from radixway.console.texts import TextCatalog

_COLOURS = ("#1f8a77", "#c76a1f", "#6b63d1", "#b23a6b", "#4a8f2c", "#2f7fc1", "#8a6d1b", "#7a7f86")
"""Of policies, in their order; told apart on light and on dark ground."""
_MILLISECONDS = "v => v == null ? '–' : (v * 1000).toPrecision(3) + ' ms'"
_SECONDS = ("ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "itl_mean_s")
_SHARES = ("hit_rate", "expected_hit_rate")
_RATIOS = ("imbalance", "request_imbalance")
_FIGURES = (*_SECONDS, *_SHARES, *_RATIOS)
_HIGH_IS_GOOD = frozenset({"hit_rate"})
_NOT_COMPARED = frozenset({"expected_hit_rate"})


def draw_outcome(say: TextCatalog, job: Mapping[str, Any]) -> None:
    """Draw `job`, a simulation that is done."""
    trace, policies = job["result"]["trace"], job["result"]["policies"]
    figures = {name: policy["figures"] for name, policy in policies.items()}
    curves = {name: policy["curves"] for name, policy in policies.items()}
    with ui.element("section").classes("rw-card"):
        with ui.element("div").classes("rw-row"):
            draw_text(job["name"], "h2", "rw-fill")
            save = ui.button(say("simulate.download"), icon="download").props("flat")
            save.on_click(
                lambda: ui.download.content(format_json(job), "simulation.json", "application/json")
            )
        summary = say(
            "simulate.trace_was",
            requests=trace["requests"],
            tokens=f"{trace['prompt_tokens'] / 1e6:.1f}",
            seconds=f"{trace['lasts_s']:.0f}",
            workers=job["setting"]["workers"],
            kv_tokens=job["setting"]["kv_tokens"],
            took=f"{job['took_s']:.1f}",
        )
        ui.label(summary).classes("rw-muted rw-small")
        _draw_table(say, figures)
        skipped = next(iter(figures.values()))["skipped"]
        if skipped:
            ui.label(say("simulate.skipped", count=skipped)).classes("rw-muted rw-small")
    charts = {
        "ttft": _quantile_options(curves),
        "over_time": _over_time_options(curves),
        "hits": _bar_options({name: values["hit_rate"] for name, values in figures.items()}),
        "balance": _share_options(curves),
    }
    with ui.element("div").classes("rw-grid wide"):
        for name, options in charts.items():
            title = say(f"simulate.chart.{name}")
            with draw_card(title, say(f"simulate.chart.{name}.hint")):
                draw_chart(options, title).classes("rw-chart rw-chart-tall")


def _draw_table(say: TextCatalog, figures: Mapping[str, Mapping[str, Any]]) -> None:
    best = {name: _best_value(name, [values[name] for values in figures.values()]) for name in _FIGURES}
    with (
        ui.element("div").classes("rw-scroll").props("tabindex=0"),
        ui.element("table").classes("rw-compare"),
    ):
        with ui.element("thead"), ui.element("tr"):
            for head in ("policy", *(f"figure.{name}" for name in _FIGURES)):
                draw_text(say(f"simulate.{head}"), "th", props="scope=col")
        with ui.element("tbody"):
            for policy, values in figures.items():
                with ui.element("tr"):
                    draw_text(policy, "th", props="scope=row")
                    for name in _FIGURES:
                        is_best = values[name] is not None and values[name] == best[name]
                        draw_text(_format_figure(name, values[name]), "td", "best" if is_best else "")


def _best_value(name: str, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if name in _NOT_COMPARED or len(known) < 2:
        return None
    choose: Callable[[list[float]], float] = max if name in _HIGH_IS_GOOD else min
    return choose(known)


def _format_figure(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name in _SECONDS:
        return f"{value * 1e3:.0f} ms" if value >= 0.02 else f"{value * 1e3:.1f} ms"
    return f"{value:.1%}" if name in _SHARES else f"{value:.2f}"


def _quantile_options(curves: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a chart of the share of requests by time to first token."""
    lines = {
        name: [[seconds, share] for share, seconds in line["ttft_quantiles"]] for name, line in curves.items()
    }
    across = axis_options("log", "v => v >= 1 ? v + ' s' : Math.round(v * 1000) + ' ms'")
    return _line_options(lines, across, axis_options("value", FULL_PERCENT, min=0, max=1), PERCENT)


def _over_time_options(curves: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a chart of the mean time to first token by arrival."""
    lines = {name: curve["ttft_over_time"] for name, curve in curves.items()}
    up = axis_options("value", "v => Math.round(v * 1000) + ' ms'")
    return _line_options(lines, axis_options("value", "v => v + ' s'"), up, _MILLISECONDS)


def _share_options(curves: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a chart of each worker's share of the work by policy, busiest first."""
    lines = {
        name: [[rank, share] for rank, share in enumerate(sorted(line["work_shares"], reverse=True), start=1)]
        for name, line in curves.items()
    }
    across = axis_options("value", "v => '#' + v", min=1, minInterval=1)
    return _line_options(lines, across, axis_options("value", FULL_PERCENT), PERCENT, dots=True)


def _bar_options(shares: Mapping[str, float | None]) -> dict[str, Any]:
    """Return a chart of `shares`, a bar for each policy, the first on top."""
    bars = [
        {"value": share, "itemStyle": {"color": _COLOURS[number % len(_COLOURS)], "borderRadius": 3}}
        for number, share in enumerate(shares.values())
    ]
    return chart_options(
        "bars",
        {
            "tooltip": {":valueFormatter": PERCENT},
            "xAxis": axis_options("value", FULL_PERCENT, min=0, max=1),
            "yAxis": {"data": list(shares)[::-1]},
            "series": {"data": bars[::-1], "label": {":formatter": f"params => ({PERCENT})(params.value)"}},
        },
    )


def _line_options(
    lines: Mapping[str, Any],
    across: dict[str, Any],
    up: dict[str, Any],
    formatter: str,
    *,
    dots: bool = False,
) -> dict[str, Any]:
    series = [
        {
            "type": "line",
            "name": name,
            "data": points,
            "showSymbol": dots,
            "symbolSize": 6,
            "color": _COLOURS[number % len(_COLOURS)],
            "lineStyle": {"width": 2, "type": line_dash(number)},
        }
        for number, (name, points) in enumerate(lines.items())
    ]
    tooltip = {":valueFormatter": formatter}
    return chart_options("lines", {"tooltip": tooltip, "xAxis": across, "yAxis": up, "series": series})

"""ECharts options of a simulation, in the console's colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLOURS = ("#1f8a77", "#c76a1f", "#6b63d1", "#b23a6b", "#4a8f2c", "#2f7fc1", "#8a6d1b", "#7a7f86")
"""Of policies, in their order; told apart on light and on dark ground."""
_DASHES = ("solid", "dashed", "dotted")
_TEXT = {"color": "var(--rw-muted)", "fontSize": 11}
_RULE = {"lineStyle": {"color": "var(--rw-line)"}}
_TOOLTIP = {
    "confine": True,
    "backgroundColor": "var(--rw-surface)",
    "borderColor": "var(--rw-line)",
    "textStyle": {"color": "var(--rw-ink)", "fontSize": 12},
}
_SECONDS = "v => v == null ? '–' : (v * 1000).toPrecision(3) + ' ms'"
_PERCENT = "v => v == null ? '–' : (v * 100).toFixed(1) + ' %'"

Curves = Mapping[str, Mapping[str, Any]]


def quantile_options(curves: Curves) -> dict[str, Any]:
    """Return a chart of `curves`: the share of requests by time to first token."""
    lines = {
        name: [[seconds, share] for share, seconds in each["ttft_quantiles"]] for name, each in curves.items()
    }
    across = _axis_options("log", "v => v >= 1 ? v + ' s' : Math.round(v * 1000) + ' ms'")
    up = _axis_options("value", "v => Math.round(v * 100) + ' %'") | {"min": 0, "max": 1}
    return _line_options(lines, across, up, _PERCENT)


def over_time_options(curves: Curves) -> dict[str, Any]:
    """Return a chart of `curves`: the mean time to first token by arrival."""
    lines = {name: each["ttft_over_time"] for name, each in curves.items()}
    across = _axis_options("value", "v => v + ' s'")
    return _line_options(lines, across, _axis_options("value", "v => Math.round(v * 1000) + ' ms'"), _SECONDS)


def bar_options(values: Mapping[str, float | None], *, percent: bool = False) -> dict[str, Any]:
    """Return a chart of `values`, a bar for each policy."""
    names = list(values)
    return {
        "animation": False,
        "tooltip": _TOOLTIP | {":valueFormatter": _PERCENT if percent else _SECONDS},
        "grid": {"left": 8, "right": 48, "top": 8, "bottom": 8, "containLabel": True},
        "xAxis": _axis_options("value", "v => Math.round(v * 100) + ' %'") | {"min": 0, "max": 1},
        "yAxis": {"type": "category", "data": names[::-1], "axisLabel": _TEXT, "axisTick": {"show": False}}
        | {"axisLine": _RULE},
        "series": {
            "type": "bar",
            "barMaxWidth": 22,
            "label": {"show": True, "position": "right", ":formatter": _value_formatter(_PERCENT)} | _TEXT,
            "data": [
                {
                    "value": values[name],
                    "itemStyle": {"color": _line_color(names.index(name)), "borderRadius": 3},
                }
                for name in reversed(names)
            ],
        },
    }


def share_options(curves: Curves) -> dict[str, Any]:
    """Return a chart of `curves`: each worker's share of the work by policy, busiest first."""
    busiest = {name: sorted(each["work_shares"], reverse=True) for name, each in curves.items()}
    lines = {name: [[place + 1, share] for place, share in enumerate(all_)] for name, all_ in busiest.items()}
    across = _axis_options("value", "v => '#' + v") | {"min": 1, "minInterval": 1}
    return _line_options(
        lines, across, _axis_options("value", "v => Math.round(v * 100) + ' %'"), _PERCENT, dots=True
    )


def _line_options(
    lines: Mapping[str, Any], across: dict[str, Any], up: dict[str, Any], payload: str, *, dots: bool = False
) -> dict[str, Any]:
    return {
        "animation": False,
        "tooltip": _TOOLTIP | {"trigger": "axis", ":valueFormatter": payload},
        "grid": {"left": 8, "right": 16, "top": 8, "bottom": 52, "containLabel": True},
        "legend": {
            "bottom": 0,
            "left": 0,
            "type": "scroll",
            "itemWidth": 18,
            "itemHeight": 4,
            "textStyle": _TEXT,
        },
        "xAxis": across,
        "yAxis": up,
        "series": [
            {
                "type": "line",
                "name": name,
                "data": data,
                "showSymbol": dots,
                "symbolSize": 6,
                "color": _line_color(number),
                "lineStyle": {"width": 2, "type": _DASHES[number % len(_DASHES)]},
            }
            for number, (name, data) in enumerate(lines.items())
        ],
    }


def _axis_options(kind: str, written: str) -> dict[str, Any]:
    return {
        "type": kind,
        "axisLabel": _TEXT | {":formatter": written, "hideOverlap": True},
        "axisLine": _RULE,
        "splitLine": _RULE,
    }


def _value_formatter(written: str) -> str:
    return f"params => ({written})(params.value)"


def _line_color(number: int) -> str:
    return COLOURS[number % len(COLOURS)]

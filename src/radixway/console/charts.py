"""Options of ECharts in the console's own colours, and charts that move, fed point by point."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from nicegui import ui

from radixway.console.components import to_json
from radixway.console.templates import read_template

PERCENT = "v => v == null ? '–' : (v * 100).toFixed(1) + ' %'"
FULL_PERCENT = "v => Math.round(v * 100) + ' %'"
"""Formatters of a share of one, as JavaScript."""
_INK = "var(--rw-muted)"
_DASHES = ("solid", "dashed", "dotted")

Points = Sequence[tuple[float, float | None]]


def chart_options(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options `name` of `templates/charts.json`, with `changes` laid over them."""
    options = msgspec.json.decode(read_template("charts.json"), type=dict[str, dict[str, Any]])
    return _merge_options(options["every"], _merge_options(options[name], changes))


def axis_options(kind: str, formatter: str, **more: Any) -> dict[str, Any]:
    """Return an axis of `kind`, `value` or `log`, with labels by `formatter`; `more` as ECharts has it."""
    style = {"color": _INK, "fontSize": 11, "hideOverlap": True}
    rule = {"lineStyle": {"color": "var(--rw-line)"}}
    label = {"axisLabel": style | {":formatter": formatter}}
    return {"type": kind, **label, "axisLine": rule, "splitLine": rule, **more}


def line_dash(number: int) -> str:
    """Return the dash of the line `number`, so that lines are told apart without colours."""
    return _DASHES[number % len(_DASHES)]


def draw_chart(
    options: dict[str, Any], label: str, *, renderer: Literal["canvas", "svg"] = "svg"
) -> ui.echart:
    """Draw a chart; `label` is for who does not see it."""
    return ui.echart(options, renderer=renderer).props(f'role=img aria-label="{label}"')


class MovingChart:
    """Lines over the last minutes. A browser gets what there is once, then each new point alone:
    `assets/console.js` keeps them.
    """

    def __init__(
        self,
        label: str,
        names: Sequence[str],
        points: Sequence[Points],
        *,
        percent: bool = False,
        unit: str = "",
    ) -> None:
        """Draw a line of `names` for each of `points`, by seconds since 1970.

        `label`: for who does not see it. `percent`: values are shares of 1, others are of `unit`.
        """
        self._chart = draw_chart(_moving_options(names, points, percent, unit), label).classes("rw-chart")

    def add_points(self, points: Sequence[Points], since: float) -> None:
        """Add the new `points` of each line; those before `since` go."""
        data = [_in_milliseconds(line) for line in points]
        ui.run_javascript(f"radixway.chart({self._chart.id}, {to_json(data)}, {round(since * 1000)})")


def _moving_options(
    names: Sequence[str], points: Sequence[Points], percent: bool, unit: str
) -> dict[str, Any]:
    suffix = to_json(f" {unit}".rstrip())
    value_axis: dict[str, Any] = {
        "axisLabel": {":formatter": f"v => (v >= 1000 ? +(v / 1000).toPrecision(3) + 'k' : v) + {suffix}"}
    }
    formatter = f"v => v == null ? '–' : (v >= 100 ? Math.round(v) : +v.toPrecision(3)) + {suffix}"
    if percent:
        value_axis = {"axisLabel": {":formatter": FULL_PERCENT}, "max": 1, "interval": 0.25}
        formatter = PERCENT
    lines = [
        {
            "type": "line",
            "name": name,
            "showSymbol": False,
            "emphasis": {"disabled": True},
            "lineStyle": {"width": 2, "type": line_dash(number)},
            "data": _in_milliseconds(line),
        }
        for number, (name, line) in enumerate(zip(names, points, strict=True))
    ]
    return chart_options(
        "moving",
        {
            "legend": {"show": len(names) > 1},
            "tooltip": {":valueFormatter": formatter},
            "yAxis": value_axis,
            "series": lines,
        },
    )


def _in_milliseconds(line: Points) -> list[list[float | None]]:
    return [[round(at * 1000), value] for at, value in line]


def _merge_options(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merge_options(old, value)
        merged[name] = value
    return merged

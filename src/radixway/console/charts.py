"""Charts that move: lines over time in the console's own colours, fed point by point.

A browser gets what there is once, then each new point alone; `assets/console.js` keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from nicegui import ui

COLOURS = ("var(--rw-accent)", "var(--rw-second)", "var(--rw-third)")
_INK = "var(--rw-muted)"
_RULE = "var(--rw-line)"

Points = Sequence[tuple[float, float | None]]


class MovingChart:
    """Lines over the last minutes. `percent`: values are shares of 1."""

    def __init__(
        self,
        label: str,
        names: Sequence[str],
        points: Sequence[Points],
        *,
        percent: bool = False,
        unit: str = "",
    ) -> None:
        """`label`: for who does not see it. `points`: of each line, by seconds since 1970."""
        self._chart = ui.echart(self._options(names, points, percent, unit), renderer="svg").classes(
            "rw-chart"
        )
        self._chart.props(f'role=img aria-label="{label}"')

    def add_points(self, points: Sequence[Points], since: float) -> None:
        """New points of each line; those before `since` go."""
        data = [[[round(at * 1000), value] for at, value in line] for line in points]
        ui.run_javascript(f"radixway.chart({self._chart.id}, {_to_json(data)}, {round(since * 1000)})")

    @staticmethod
    def _options(names: Sequence[str], points: Sequence[Points], percent: bool, unit: str) -> dict[str, Any]:
        shown = (
            "v => v == null ? '–' : (v * 100).toFixed(1) + ' %'"
            if percent
            else (
                "v => v == null ? '–' : (v >= 100 ? Math.round(v) : +v.toPrecision(3)) + "
                + _to_json(f" {unit}".rstrip())
            )
        )
        text = {"color": _INK, "fontSize": 11}
        value_axis: dict[str, Any] = {
            "type": "value",
            "min": 0,
            "splitNumber": 3,
            "axisLabel": text | ({":formatter": "v => Math.round(v * 100) + ' %'"} if percent else {}),
            "splitLine": {"lineStyle": {"color": _RULE}},
        }
        if percent:
            value_axis |= {"max": 1, "interval": 0.25}
        return {
            "animation": False,
            "grid": {"left": 8, "right": 12, "top": 12, "bottom": 28, "containLabel": True},
            "legend": {
                "bottom": 0,
                "left": 0,
                "icon": "roundRect",
                "itemWidth": 12,
                "itemHeight": 4,
                "textStyle": text,
                "inactiveColor": _RULE,
                "show": len(names) > 1,
            },
            "tooltip": {
                "trigger": "axis",
                "confine": True,
                "backgroundColor": "var(--rw-surface)",
                "borderColor": _RULE,
                "textStyle": {"color": "var(--rw-ink)", "fontSize": 12},
                ":valueFormatter": shown,
            },
            "xAxis": {
                "type": "time",
                "splitNumber": 3,
                "axisLabel": text
                | {"hideOverlap": True, ":formatter": "v => new Date(v).toTimeString().slice(0, 8)"},
                "axisLine": {"lineStyle": {"color": _RULE}},
                "axisTick": {"show": False},
            },
            "yAxis": value_axis,
            "color": list(COLOURS),
            "series": [
                {
                    "type": "line",
                    "name": name,
                    "showSymbol": False,
                    "emphasis": {"disabled": True},
                    "lineStyle": {"width": 2, "type": ("solid", "dashed", "dotted")[number % 3]},
                    "data": [[round(at * 1000), value] for at, value in line],
                }
                for number, (name, line) in enumerate(zip(names, points, strict=True))
            ],
        }


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

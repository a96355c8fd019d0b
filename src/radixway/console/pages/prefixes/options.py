"""What ECharts is told: a sunburst, or a tree that grows to the right."""

from __future__ import annotations

from typing import Any

_TOOLTIP: dict[str, Any] = {
    "confine": True,
    "backgroundColor": "var(--rw-surface)",
    "borderColor": "var(--rw-line)",
    "textStyle": {"color": "var(--rw-ink)", "fontSize": 12},
    ":formatter": "node => node.data && node.data.told || ''",
}
_ON_HEAT = "#1b2421"


def sunburst_options(tops: list[dict[str, Any]]) -> dict[str, Any]:
    """Inside what all begin with, outside how they go on."""
    return {
        "animation": False,
        "tooltip": _TOOLTIP,
        "series": {
            "type": "sunburst",
            "data": tops,
            "radius": ["10%", "96%"],
            "sort": None,
            "nodeClick": "rootToNode",
            "itemStyle": {"borderColor": "#ffffff", "borderWidth": 1.5},
            "label": {
                "rotate": "radial",
                "minAngle": 9,
                "fontSize": 11,
                "color": _ON_HEAT,
                "overflow": "truncate",
                "width": 56,
            },
            "emphasis": {"focus": "ancestor", "itemStyle": {"borderColor": _ON_HEAT}},
        },
    }


def tree_options(tops: list[dict[str, Any]], root: str) -> dict[str, Any]:
    """The same from left to right; branches fold with a click."""
    whole = {"name": root, "children": tops, "itemStyle": {"color": "var(--rw-muted)"}}
    return {
        "animation": False,
        "tooltip": _TOOLTIP,
        "series": {
            "type": "tree",
            "data": [whole],
            "left": 90,
            "right": 130,
            "top": 12,
            "bottom": 12,
            "initialTreeDepth": 4,
            "symbol": "circle",
            "symbolSize": 12,
            "edgeShape": "curve",
            "roam": True,
            "lineStyle": {"color": "var(--rw-line)", "width": 1.5},
            "itemStyle": {"borderColor": "var(--rw-line)"},
            "label": {
                "position": "left",
                "verticalAlign": "middle",
                "fontSize": 11,
                "color": "var(--rw-ink)",
            },
            "leaves": {"label": {"position": "right", "align": "left"}},
            "emphasis": {"focus": "ancestor"},
        },
    }

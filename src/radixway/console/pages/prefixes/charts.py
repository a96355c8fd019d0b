"""The nodes of `/prefixes` as a tree for charts: sizes, colours by heat, words for the tooltip.

What ECharts is data: a sunburst, or a tree that grows to the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log
from typing import Any

from radixway.console.texts import TextCatalog

HEATS = ("#cfe5de", "#9fd0c1", "#f0cf83", "#eea15b", "#e5714f")
"""From the coldest to the hottest, told apart by lightness too; dark words are read on all of them."""
NAMED = "#b9c6c0"
"""Of models and workers."""


@dataclass(frozen=True, slots=True)
class HeatScale:
    """Heat in five steps, each so many times as hot as the one before."""

    least: int
    most: int

    @classmethod
    def from_prefixes(cls, prefixes: Sequence[Mapping[str, Any]]) -> HeatScale:
        """Build the scale of `prefixes`."""
        heats = [prefix["heat"] for prefix in prefixes if prefix["kind"] == "prefix"]
        return cls(max(1, min(heats, default=1)), max(1, max(heats, default=1)))

    def step_of(self, heat: int) -> int:
        """Return which of the five steps `heat` falls in."""
        if self.most <= self.least:
            return len(HEATS) - 1
        share = log(max(heat, self.least) / self.least) / log(self.most / self.least)
        return min(int(share * len(HEATS)), len(HEATS) - 1)

    def legend_steps(self) -> list[tuple[str, int]]:
        """The colour of each step that there is, and the least heat that has it."""
        ratio = self.most / self.least
        found = []
        for step, colour in enumerate(HEATS):
            least = ceil(self.least * ratio ** (step / len(HEATS)))
            if self.step_of(least) == step:
                found.append((colour, least))
        return found


def prefix_tree(say: TextCatalog, prefixes: Sequence[Mapping[str, Any]], size: str) -> list[dict[str, Any]]:
    """As ECharts wants it; `size` is `requests` or `tokens`. Names are plain text, tooltips escaped."""
    scale = HeatScale.from_prefixes(prefixes)
    nodes: list[dict[str, Any]] = []
    tops: list[dict[str, Any]] = []
    below: dict[int, int] = {}
    for prefix in reversed(prefixes):  # children come after their parents
        weight = max(_own_weight(prefix, size), below.get(prefix["id"], 0), 1)
        below[prefix["id"]] = weight
        if prefix["parent"] is not None:
            below[prefix["parent"]] = below.get(prefix["parent"], 0) + weight
    for prefix in prefixes:
        named = prefix["kind"] != "prefix"
        node: dict[str, Any] = {
            "name": prefix_name(say, prefix),
            "value": below[prefix["id"]],
            "number": prefix["id"],
            "tip": _tooltip_html(say, prefix),
            "itemStyle": {"color": NAMED if named else HEATS[scale.step_of(prefix["heat"])]},
            "children": [],
        }
        nodes.append(node)
        if prefix["parent"] is None:
            tops.append(node)
        else:
            nodes[prefix["parent"]]["children"].append(node)
    return tops


def prefix_name(say: TextCatalog, prefix: Mapping[str, Any]) -> str:
    """A model's or worker's name; of a prefix how long it is."""
    if prefix["kind"] != "prefix":
        return prefix["name"] or say("prefixes.any_model")
    return say("prefixes.tokens", count=prefix["tokens"])


def _own_weight(prefix: Mapping[str, Any], size: str) -> int:
    """A node's own, without what is below it."""
    weight: int = prefix["heat"] if size == "requests" else prefix["tokens"]
    return weight


def _tooltip_html(say: TextCatalog, prefix: Mapping[str, Any]) -> str:
    """For the tooltip, which is HTML: every word of others' is escaped."""
    lines = [f"<b>{escape(prefix_name(say, prefix))}</b>"]
    lines.append(escape(say("prefixes.heat_is", heat=prefix["heat"])))
    if prefix["kind"] == "prefix":
        lines.append(escape(say("prefixes.from_token", begin=prefix["begin"])))
    for key, field in (("prefixes.tenants", "tenants"), ("prefixes.workers", "workers")):
        if prefix[field]:
            names = ", ".join(f"{each['name']} ({each['requests']})" for each in prefix[field][:4])
            lines.append(f"{escape(say(key))}: {escape(names)}")
    return "<br>".join(lines)


_TOOLTIP: dict[str, Any] = {
    "confine": True,
    "backgroundColor": "var(--rw-surface)",
    "borderColor": "var(--rw-line)",
    "textStyle": {"color": "var(--rw-ink)", "fontSize": 12},
    ":formatter": "node => node.data && node.data.tip || ''",
}
_ON_HEAT = "#1b2421"


def sunburst_options(tops: list[dict[str, Any]]) -> dict[str, Any]:
    """Return ECharts options of `tops`: shared beginnings inside, their continuations outside."""
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
    """Return ECharts options of `tops` as a tree from left to right; branches fold with a click."""
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

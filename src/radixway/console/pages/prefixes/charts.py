"""The nodes of `/prefixes` as a tree for charts and as rows of a table; sizes, and colours by heat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log
from typing import Any

from radixway.console.components import format_time
from radixway.console.texts import TextCatalog

HEATS = ("#cfe5de", "#9fd0c1", "#f0cf83", "#eea15b", "#e5714f")
"""From the coldest to the hottest; they also differ in lightness, and dark words are legible on all."""
_NAMED_COLOUR = "#b9c6c0"
"""Of models and workers."""
_HASH_CHARS = 8
_LABEL_CHARS = 32
"""Characters of a text that a label shows; the table shows more."""


@dataclass(frozen=True, slots=True)
class HeatScale:
    """Heat in five steps, each so many times as hot as the one before."""

    min_heat: int
    max_heat: int

    @classmethod
    def from_prefixes(cls, prefixes: Sequence[Mapping[str, Any]]) -> HeatScale:
        """Build the scale of `prefixes`."""
        heats = [prefix["heat"] for prefix in prefixes if prefix["kind"] == "prefix"]
        return cls(max(1, min(heats, default=1)), max(1, max(heats, default=1)))

    def step_of(self, heat: int) -> int:
        """Return which of the five steps `heat` falls in."""
        if self.max_heat <= self.min_heat:
            return len(HEATS) - 1
        share = log(max(heat, self.min_heat) / self.min_heat) / log(self.max_heat / self.min_heat)
        return min(int(share * len(HEATS)), len(HEATS) - 1)

    def legend_steps(self) -> list[tuple[str, int]]:
        """Return the colour of each step that is used, and the lowest heat that has it."""
        ratio = self.max_heat / self.min_heat
        found = []
        for step, colour in enumerate(HEATS):
            min_heat = ceil(self.min_heat * ratio ** (step / len(HEATS)))
            if self.step_of(min_heat) == step:
                found.append((colour, min_heat))
        return found


def prefix_tree(say: TextCatalog, prefixes: Sequence[Mapping[str, Any]], size: str) -> list[dict[str, Any]]:
    """Return `prefixes` as ECharts draws trees; `size` is `requests` or `tokens`.

    Names are plain text, tooltips are HTML in which every word of others' is escaped.
    """
    scale = HeatScale.from_prefixes(prefixes)
    nodes: list[dict[str, Any]] = []
    tops: list[dict[str, Any]] = []
    below: dict[int, int] = {}
    weigh_by = "heat" if size == "requests" else "tokens"
    for prefix in reversed(prefixes):  # children come after their parents
        weight = max(prefix[weigh_by], below.get(prefix["id"], 0), 1)
        below[prefix["id"]] = weight
        if prefix["parent"] is not None:
            below[prefix["parent"]] = below.get(prefix["parent"], 0) + weight
    for prefix in prefixes:
        named = prefix["kind"] != "prefix"
        node: dict[str, Any] = {
            "name": _prefix_name(say, prefix),
            "short": _short_name(say, prefix),
            "value": below[prefix["id"]],
            "number": prefix["id"],
            "tip": _tooltip_html(say, prefix),
            "itemStyle": {"color": _NAMED_COLOUR if named else HEATS[scale.step_of(prefix["heat"])]},
            "children": [],
        }
        nodes.append(node)
        if prefix["parent"] is None:
            tops.append(node)
        else:
            nodes[prefix["parent"]]["children"].append(node)
    return tops


def prefix_rows(say: TextCatalog, prefixes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `prefixes` as rows, in the order of the tree: children below their parent."""
    scale = HeatScale.from_prefixes(prefixes)
    below: dict[int | None, list[Mapping[str, Any]]] = {}
    for prefix in prefixes:
        below.setdefault(prefix["parent"], []).append(prefix)
    rows = []
    stack = [(prefix, 0) for prefix in reversed(below.get(None, []))]
    while stack:
        prefix, level = stack.pop()
        rows.append(_prefix_row(say, prefix, level, scale))
        stack += [(child, level + 1) for child in reversed(below.get(prefix["id"], []))]
    return rows


def _prefix_row(say: TextCatalog, prefix: Mapping[str, Any], level: int, scale: HeatScale) -> dict[str, Any]:
    is_prefix = prefix["kind"] == "prefix"
    used, hidden = prefix["last_used"], prefix["hidden"]
    holders = (f"{holder['name']} ({say('prefixes.tier.' + holder['tier'])})" for holder in prefix["held_by"])
    return {
        "id": prefix["id"],
        "level": level,
        "looks": "" if is_prefix else "rw-strong",
        "name": _prefix_name(say, prefix),
        "hash": prefix["name"][:_HASH_CHARS] if is_prefix else "",
        "colour": HEATS[scale.step_of(prefix["heat"])] if is_prefix else _NAMED_COLOUR,
        "text": prefix["text"] or "",
        "begin": prefix["begin"] if is_prefix else "",
        "heat": prefix["heat"],
        "tenants": _join_counts(prefix["tenants"]),
        "workers": _join_counts(prefix["workers"]),
        "held_by": ", ".join(holders),
        "last_used": "" if used is None else format_time(used, "%H:%M:%S"),
        "hidden": say("prefixes.more", count=hidden, tokens=prefix["hidden_tokens"]) if hidden else "",
    }


def _prefix_name(say: TextCatalog, prefix: Mapping[str, Any]) -> str:
    """Return the name of a model or worker, else how a prefix begins where that may be shown, or whose it is,
    and how long.
    """
    if prefix["kind"] != "prefix":
        return prefix["name"] or say("prefixes.any_model")
    tokens = say("prefixes.tokens", count=prefix["tokens"])
    words = " ".join((prefix["text"] or "").split())
    if words:
        cut = words if len(words) <= _LABEL_CHARS else f"{words[:_LABEL_CHARS]}…"
        return f"“{cut}” · {tokens}"
    tenants = prefix["tenants"]
    return f"{tokens} · {tenants[0]['name']}" if len(tenants) == 1 else tokens


def _short_name(say: TextCatalog, prefix: Mapping[str, Any]) -> str:
    """Return the beginning of `_prefix_name` that a ring of the sunburst has space for."""
    words = " ".join((prefix["text"] or "").split())
    if prefix["kind"] == "prefix" and not words:
        return say("prefixes.tokens", count=prefix["tokens"])
    return words or _prefix_name(say, prefix)


def _tooltip_html(say: TextCatalog, prefix: Mapping[str, Any]) -> str:
    lines = [f"<b>{escape(_prefix_name(say, prefix))}</b>"]
    lines.append(escape(say("prefixes.heat_is", heat=prefix["heat"])))
    if prefix["kind"] == "prefix":
        lines.append(escape(say("prefixes.from_token", begin=prefix["begin"])))
    for field in ("tenants", "workers"):
        if prefix[field]:
            lines.append(f"{escape(say(f'prefixes.{field}'))}: {escape(_join_counts(prefix[field][:4]))}")
    return "<br>".join(lines)


def _join_counts(names: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{holder['name']} ({holder['requests']})" for holder in names)

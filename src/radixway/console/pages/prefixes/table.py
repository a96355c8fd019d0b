"""The nodes of the chart as a table, for readers and screen readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from radixway.console.pages.prefixes.charts import HEATS, NAMED, HeatScale, prefix_name
from radixway.console.texts import TextCatalog

BODY = r"""
<q-tr :props="props">
  <q-td><span class="rw-indent" :style="{paddingLeft: props.row.level * 16 + 'px'}">
    <i class="rw-heat" :style="{background: props.row.colour}" aria-hidden="true"></i>
    <span :class="props.row.looks">{{ props.row.name }}</span>
    <span class="rw-muted rw-mono rw-small">{{ props.row.hash }}</span></span>
    <div class="rw-muted rw-small rw-words" v-if="props.row.text">{{ props.row.text }}</div></q-td>
  <q-td class="text-right rw-number">
    <span class="rw-label rw-narrow-only">{{ props.cols[1].label }}</span>{{ props.row.begin }}</q-td>
  <q-td class="text-right rw-number">
    <span class="rw-label rw-narrow-only">{{ props.cols[2].label }}</span>{{ props.row.heat }}</q-td>
  <q-td><span class="rw-label rw-narrow-only">{{ props.cols[3].label }}</span>{{ props.row.tenants }}</q-td>
  <q-td><span class="rw-label rw-narrow-only">{{ props.cols[4].label }}</span>{{ props.row.workers }}</q-td>
  <q-td><span class="rw-label rw-narrow-only">{{ props.cols[5].label }}</span>{{ props.row.held_by }}</q-td>
  <q-td class="rw-number">
    <span class="rw-label rw-narrow-only">{{ props.cols[6].label }}</span>{{ props.row.last_used }}</q-td>
  <q-td class="rw-muted">{{ props.row.hidden }}</q-td>
</q-tr>
"""

_COLUMNS = ("prefix", "begin", "heat", "tenants", "workers", "held_by", "last_used", "hidden")
_RIGHT = ("begin", "heat")
_SHORT = 8


def prefix_columns(say: TextCatalog) -> list[dict[str, Any]]:
    """Return the columns in the order of the cells; `say` translates."""
    return [
        {
            "name": name,
            "label": say(f"prefixes.{name}"),
            "field": name,
            "align": "right" if name in _RIGHT else "left",
        }
        for name in _COLUMNS
    ]


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
    return {
        "id": prefix["id"],
        "level": level,
        "looks": "" if is_prefix else "rw-strong",
        "name": prefix_name(say, prefix),
        "hash": prefix["name"][:_SHORT] if is_prefix else "",
        "colour": HEATS[scale.step_of(prefix["heat"])] if is_prefix else NAMED,
        "text": prefix["text"] or "",
        "begin": prefix["begin"] if is_prefix else "",
        "heat": prefix["heat"],
        "tenants": ", ".join(f"{each['name']} ({each['requests']})" for each in prefix["tenants"]),
        "workers": ", ".join(f"{each['name']} ({each['requests']})" for each in prefix["workers"]),
        "held_by": ", ".join(
            f"{each['name']} ({say('prefixes.tier.' + each['tier'])})" for each in prefix["held_by"]
        ),
        "last_used": "" if used is None else f"{datetime.fromtimestamp(used, UTC):%H:%M:%S} UTC",
        "hidden": say("prefixes.more", count=hidden, tokens=prefix["hidden_tokens"]) if hidden else "",
    }

"""Requests as rows of a table. Everything in a row is text, never markup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from radixway.console.texts import TextCatalog
from radixway.core.config.tenants import format_cost

_LOOKS = {"blocked": "bad", "error": "bad", "broken": "bad", "client_left": "warn", "cache_hit": "good"}
_SHORT_ID = 10

BODY = r"""
<q-tr :props="props">
  <q-td class="rw-number">{{ new Date(props.row.began_at * 1000).toLocaleTimeString() }}</q-td>
  <q-td><span class="rw-chip" :class="props.row.looks">{{ props.row.status_said }}</span></q-td>
  <q-td><a class="rw-mono" :href="props.row.link" :title="props.row.id">{{ props.row.short }}</a></q-td>
  <q-td><div class="rw-cut rw-models" :title="props.row.model">{{ props.row.model }}</div></q-td>
  <q-td><div class="rw-cut rw-models" :title="props.row.worker">{{ props.row.worker }}</div></q-td>
  <q-td class="text-right rw-number"
    ><span class="rw-label rw-narrow-only">{{ props.cols[5].label }}</span>{{ props.row.ttft }}</q-td>
  <q-td class="text-right rw-number"
    ><span class="rw-label rw-narrow-only">{{ props.cols[6].label }}</span>{{ props.row.total }}</q-td>
  <q-td class="text-right rw-number"
    ><span class="rw-label rw-narrow-only">{{ props.cols[7].label }}</span>{{ props.row.prompt }}<span
    class="rw-muted" v-if="props.row.cached"> ({{ props.row.cached }})</span></q-td>
  <q-td class="text-right rw-number"
    ><span class="rw-label rw-narrow-only">{{ props.cols[8].label }}</span>{{ props.row.answer }}</q-td>
  <q-td class="text-right rw-number"
    ><span class="rw-label rw-narrow-only">{{ props.cols[9].label }}</span>{{ props.row.cost }}</q-td>
  <q-td><span class="rw-flags"><span class="rw-chip plain" v-for="flag in props.row.marks" :key="flag[0]"
    :class="flag[1]">{{ flag[0] }}</span></span></q-td>
</q-tr>
"""

_RIGHT = ("ttft", "total", "prompt", "answer", "cost")
_COLUMNS = ("time", "status", "id", "model", "worker", *_RIGHT, "flags")


def request_columns(say: TextCatalog) -> list[dict[str, Any]]:
    """Return the columns in the order of the cells; `say` translates."""
    return [
        {
            "name": name,
            "label": say(f"requests.{name}"),
            "field": name,
            "align": "right" if name in _RIGHT else "left",
        }
        for name in _COLUMNS
    ]


def request_cells(say: TextCatalog, link: Callable[[str], str], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return `row` of `/requests` as cells; `link` makes addresses."""
    request_id, status = row["id"], row["status"]
    short = request_id if len(request_id) <= _SHORT_ID + 1 else request_id[:_SHORT_ID] + "…"
    cached = row["cached_tokens"]
    return {
        "id": request_id,
        "short": short,
        "link": link(f"/requests/{quote(request_id, safe='')}"),
        "began_at": row["began_at"],
        "status_said": str(status) if status is not None else "–",
        "looks": status_color(status),
        "model": row["model"] or row["asked"] or "–",
        "worker": row["worker"] or "–",
        "ttft": format_milliseconds(row["ttft_ms"]),
        "total": format_milliseconds(row["total_ms"]),
        "prompt": format_count(row["prompt_tokens"]),
        "cached": say("requests.cached", tokens=format_count(cached)) if cached else "",
        "answer": format_count(row["completion_tokens"]),
        "cost": request_cost(row),
        "marks": [(say(f"requests.flag.{flag}"), _LOOKS.get(flag, "")) for flag in row["flags"]],
    }


def status_color(status: int | None) -> str:
    """A status' colour."""
    if status is None:
        return ""
    return "good" if status < 400 else "warn" if status < 500 else "bad"


def format_milliseconds(value: float | None) -> str:
    """Format `value` as a time, as long as it needs to be."""
    if value is None:
        return "–"
    return (
        f"{value / 1e3:.2f} s" if value >= 1000 else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"
    )


def format_count(value: int | None) -> str:
    """Format `value` in groups of three digits."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def request_cost(row: Mapping[str, Any]) -> str:
    """Return the cost of `row`, with its currency."""
    return "–" if row["cost"] is None else f"{format_cost(row['cost'])} {row['currency']}"

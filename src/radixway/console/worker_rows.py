"""Workers as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radixway.console.texts import TextCatalog
from radixway.core.http.gateway_client import describe_trouble
from radixway.core.telemetry.scrapes import WorkerStats

STATES = ("joining", "ready", "stale", "down", "draining")
_LOOKS = {"ready": "good", "joining": "", "stale": "warn", "draining": "warn", "down": "bad"}
_BREAKER_LOOKS = {"closed": "", "half_open": "warn", "open": "bad"}

BODY = r"""
<q-tr :props="props" @click="() => $parent.$emit('act', ['details', props.row.url])">
  <q-td><button class="rw-name" type="button"
    @click.stop="() => $parent.$emit('act', ['details', props.row.url])">{{ props.row.name }}</button>
    <div class="rw-cut rw-small rw-trouble-line" v-if="props.row.trouble"
      :title="props.row.trouble">{{ props.row.trouble }}</div></q-td>
  <q-td><span class="rw-chip" :class="props.row.looks">{{ props.row.state_said }}</span></q-td>
  <q-td class="rw-wide-only"><div class="rw-cut rw-models">{{ props.row.models }}</div></q-td>
  <q-td><span class="rw-label rw-narrow-only">{{ props.cols[3].label }}</span><div class="rw-load">
    <div class="rw-meter" aria-hidden="true"><i :class="props.row.full > 0.9 ? 'warn' : ''"
      :style="{width: props.row.full * 100 + '%'}"></i></div>
    <span>{{ props.row.load_said }}</span></div></q-td>
  <q-td><span class="rw-label rw-narrow-only">{{ props.cols[4].label }}</span><div
    class="rw-load" v-if="props.row.kv !== null">
    <div class="rw-meter" aria-hidden="true"><i :class="props.row.kv > 0.9 ? 'warn' : ''"
      :style="{width: props.row.kv * 100 + '%'}"></i></div>
    <span>{{ Math.round(props.row.kv * 100) }} %</span></div><span v-else class="rw-muted">–</span></q-td>
  <q-td class="text-right rw-number"><span
    class="rw-label rw-narrow-only">{{ props.cols[5].label }}</span>{{ props.row.hits_said }}</q-td>
  <q-td class="text-right rw-number"><span
    class="rw-label rw-narrow-only">{{ props.cols[6].label }}</span>{{ props.row.tokens_said }}</q-td>
  <q-td class="rw-wide-only"><div class="rw-cut rw-mono rw-version">{{ props.row.version }}</div></q-td>
  <q-td class="rw-wide-only"><span
    class="rw-chip" :class="props.row.breaker_looks">{{ props.row.breaker_said }}</span></q-td>
</q-tr>
"""
"""A row: everything in it is text, never markup."""


def worker_columns(say: TextCatalog) -> list[dict[str, Any]]:
    """Return the columns in the order of the cells; `say` translates."""

    def column(name: str, *, right: bool = False) -> dict[str, Any]:
        align = "right" if right else "left"
        return {
            "name": name,
            "label": say(f"workers.{name}"),
            "field": name,
            "align": align,
            "sortable": True,
        }

    return [
        *(column(name) for name in ("name", "state", "models", "load", "kv")),
        *(column(name, right=True) for name in ("hits", "tokens")),
        *(column(name) for name in ("version", "breaker")),
    ]


def worker_cells(say: TextCatalog, worker: Mapping[str, Any], figures: WorkerStats | None) -> dict[str, Any]:
    """One worker, as the cells want it."""
    in_flight = worker["in_flight"] + worker["in_flight_elsewhere"]
    most = worker["max_in_flight"] or worker["max_batch_size"]
    kv = figures.kv_usage if figures is not None else None
    hits = figures.reported_hits if figures is not None else None
    tokens = figures.completion_tokens_per_s if figures is not None else 0.0
    models = ", ".join(worker["models"])
    return {
        "url": worker["url"],
        "name": worker["name"],
        "state": worker["state"],
        "trouble": describe_trouble(worker["state"], worker["last_error"], worker.get("error_kind")),
        "state_said": say(f"workers.state.{worker['state']}"),
        "looks": _LOOKS[worker["state"]],
        "models": models,
        "load": in_flight,
        "full": min(in_flight / most, 1.0) if most else min(in_flight, 1) * 0.5,
        "load_said": f"{in_flight} / {most}" if most else f"{in_flight}",
        "kv": None if kv is None else round(kv, 3),
        "hits": -1 if hits is None else round(hits, 3),
        "hits_said": "–" if hits is None else f"{hits:.0%}",
        "tokens": round(tokens, 1),
        "tokens_said": f"{tokens:.0f}" if tokens else "–",
        "version": worker["weight_version"] or "–",
        "breaker": worker["breaker"],
        "breaker_said": say(f"workers.breaker.{worker['breaker']}"),
        "breaker_looks": _BREAKER_LOOKS[worker["breaker"]],
        "found_by": " ".join((worker["url"], models, *worker["pools"])).lower(),
    }

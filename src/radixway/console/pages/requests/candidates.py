"""Who could have answered a request: every candidate's cost as a bar, what it is made of, and why."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from nicegui import ui

from radixway.console.texts import TextCatalog

_WHY = frozenset({"chosen", "costlier", "equal", "left_out", "not_drawn"})


def draw_candidates(say: TextCatalog, step: Mapping[str, Any]) -> None:
    """A `select` step: those who could answer, and those who could prefill for them."""
    _draw_cost_table(say, "requests.candidates", step["candidates"], step.get("why", {}), str(step["policy"]))
    prefill = step.get("prefill", {})
    if "candidates" in prefill:
        _draw_cost_table(
            say, "requests.prefillers", prefill["candidates"], prefill.get("why", {}), prefill["policy"]
        )


def _draw_cost_table(
    say: TextCatalog, title: str, candidates: Mapping[str, Any], why: Mapping[str, str], policy: str
) -> None:
    costs = {name: parts["cost"] for name, parts in candidates.items()}
    most = max((cost for cost in costs.values() if cost is not None and isfinite(cost)), default=0.0)
    with ui.element("section").classes("rw-card"):
        with ui.element("h2"):
            ui.label(say(title))
        hint = say("requests.candidates_hint", policy=policy, count=len(candidates))
        ui.label(hint).classes("rw-muted rw-small")
        with ui.element("ul").classes("rw-candidates"):
            for name in sorted(candidates, key=lambda name: (costs[name] is None, costs[name], name)):
                reason = why.get(name, "")
                with ui.element("li").classes("chosen" if reason == "chosen" else ""):
                    ui.label(name).classes("rw-cut rw-mono")
                    _draw_cost_bar(costs[name], most)
                    ui.label(_format_number(costs[name])).classes("rw-number rw-cost")
                    text = say(f"requests.why.{reason}") if reason in _WHY else reason
                    ui.label(text).classes("rw-chip plain good" if reason == "chosen" else "rw-chip plain")
                    ui.label(_format_parts(candidates[name])).classes("rw-parts rw-muted rw-small")


def _draw_cost_bar(cost: float | None, most: float) -> None:
    share = 0.0 if cost is None or not most else max(0.0, cost / most)
    with ui.element("span").classes("rw-meter").props("aria-hidden=true"):
        ui.element("i").style(f"width: {share * 100:.2f}%")


def _format_parts(parts: Mapping[str, Any]) -> str:
    return " · ".join(f"{name} {_format_number(value)}" for name, value in parts.items() if name != "cost")


def _format_number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"

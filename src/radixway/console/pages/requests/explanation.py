"""One request: what came of it, what happened when, and who could have answered at which cost."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any
from urllib.parse import quote

from nicegui import ui

from radixway.console.components import (
    Mood,
    draw_card,
    draw_chip,
    draw_json,
    draw_losing_rules,
    draw_text,
    draw_tile,
    format_time,
)
from radixway.console.page import PageVisit
from radixway.console.texts import TEXTS, TextCatalog
from radixway.core.config.tenants import format_cost

_SHOWN_FIELDS = 4
_SUMMARY_CHARS = 140
_BAD_STEPS = frozenset({"error", "client_left"})
_REASONS = frozenset({"chosen", "costlier", "equal", "left_out", "not_drawn"})
_LINKED_FACTS = frozenset({"worker", "model", "tenant", "category", "surface", "trace"})
"""Facts that lead to other requests alike."""


async def build_explanation(visit: PageVisit) -> None:
    """Build the explanation of the request that the address of `visit` names."""
    say, request_id = visit.say, visit.request.path_params["request_id"]
    with ui.element("a").props(f'href="{visit.link("/requests")}"').classes("rw-return"):
        ui.icon("west").props("aria-hidden=true")
        ui.label(say("requests.all"))
    with ui.element("div").classes("rw-page-title") as title:
        draw_text(request_id, "h1", "rw-mono rw-cut")
    data = await visit.gateway.find_json(f"/explain/{quote(request_id, safe='')}")
    if data is None:
        ui.label(say("requests.unknown")).classes("rw-card rw-empty")
        return
    row = data["row"]
    with title:
        if row["status"] is not None:
            draw_chip(str(row["status"]), row_mood(row))
        if "blocked" in row["flags"]:
            draw_chip(say("requests.flag.blocked"), "bad")
    _draw_figures(say, row)
    _draw_facts(visit, row)
    if data["trace_url"] is not None:
        _draw_trace_link(say, data["trace_url"])
    with draw_card(say("requests.way"), say("requests.way_hint")):
        _draw_steps(say, data["steps"], row["total_ms"])
    if data["stretches"]:
        with draw_card(say("requests.stretches")):
            _draw_spans(data["stretches"], row["total_ms"])
    for step in data["steps"]:
        if step["step"] == "select":
            _draw_candidates(say, "requests.candidates", step)
            if "candidates" in step.get("prefill", {}):
                _draw_candidates(say, "requests.prefillers", step["prefill"])
    with ui.element("details").classes("rw-card"):
        draw_text(say("requests.whole"), "summary")
        draw_json(data, "div", "rw-pre")


def _draw_figures(say: TextCatalog, row: Mapping[str, Any]) -> None:
    prompt, cached = row["prompt_tokens"], row["cached_tokens"]
    hit = say("requests.hit", share=f"{cached / prompt:.0%}") if prompt and cached is not None else ""
    estimated = say("requests.estimated") if row["estimated"] else ""
    with ui.element("div").classes("rw-tiles"):
        for name, value, detail in (
            ("ttft", format_milliseconds(row["ttft_ms"]), ""),
            ("total", format_milliseconds(row["total_ms"]), ""),
            ("prompt", format_count(prompt), hit),
            ("answer", format_count(row["completion_tokens"]), estimated),
            ("cost", request_cost(row), ""),
        ):
            draw_tile(say(f"requests.{name}"), value, detail)


def _draw_facts(visit: PageVisit, row: Mapping[str, Any]) -> None:
    say, expected = visit.say, row["expected_cached_tokens"]
    ways = ("worker", "provider", "overflow", "model", "asked", "surface", "policy")
    fields = ("tenant", "user", "session", "category", "decision", "error", "blocked_by")
    facts = {
        "began": format_time(row["began_at"]),
        **{name: row[name] for name in ways},
        "expected": None if expected is None else format_count(expected),
        **{name: row[name] for name in fields},
        "trace": row["trace_id"],
    }
    with ui.element("section").classes("rw-card"), ui.element("dl").classes("rw-facts rw-two"):
        for name, value in facts.items():
            if value is None:
                continue
            draw_text(say(f"requests.{name}"), "dt")
            with ui.element("dd"):
                if name in _LINKED_FACTS:
                    query = f"{'q' if name == 'trace' else name}={quote(str(value), safe='')}"
                    draw_text(str(value), "a", props=f'href="{visit.link("/requests")}?{query}"')
                else:
                    ui.label(str(value))
        if row["flags"]:
            draw_text(say("requests.flags"), "dt")
            with ui.element("dd").classes("rw-flags"):
                for flag in row["flags"]:
                    draw_chip(say(f"requests.flag.{flag}"))


def _draw_trace_link(say: TextCatalog, address: str) -> None:
    """Draw a link to the trace store; the address is the operator's, with the trace's id in it."""
    with ui.element("a").props('target="_blank" rel="noopener noreferrer"').classes("rw-return") as anchor:
        ui.label(say("requests.see_trace"))
        ui.icon("open_in_new").props("aria-hidden=true")
    anchor._props["href"] = address


def _draw_steps(say: TextCatalog, steps: Sequence[Mapping[str, Any]], total_ms: float) -> None:
    """Draw the `steps` of a journal; a bar reaches from the step before to this one."""
    scale_ms = max([total_ms, *(step["at_ms"] for step in steps)]) or 1.0
    before = 0.0
    with ui.element("ol").classes("rw-way"):
        for step in steps:
            at, name = step["at_ms"], step["step"]
            fields = {key: value for key, value in step.items() if key != "step"}
            with ui.element("li"), ui.element("details"):
                with ui.element("summary"):
                    text = say(f"requests.step.{name}") if f"requests.step.{name}" in TEXTS else name
                    ui.label(text).classes("rw-way-name")
                    _draw_time_bar(before / scale_ms, at / scale_ms, "bad" if name in _BAD_STEPS else "")
                    ui.label(format_milliseconds(at)).classes("rw-way-time rw-number")
                    ui.label(_step_summary(fields)).classes("rw-way-gist rw-muted rw-small rw-cut")
                draw_losing_rules(say, fields.get("lost") or [])
                draw_json(fields, "div", "rw-pre")
            before = at


def _step_summary(fields: Mapping[str, Any]) -> str:
    """Return the first plain `fields` of a step."""
    plain = [
        f"{name} {value}"
        for name, value in fields.items()
        if name != "at_ms" and isinstance(value, str | int | float) and value != ""
    ]
    return " · ".join(plain[:_SHOWN_FIELDS])[:_SUMMARY_CHARS]


def _draw_spans(spans: Sequence[Mapping[str, Any]], total_ms: float) -> None:
    """Draw the measured `spans`, each from its begin to its end."""
    scale_ms = max([total_ms, *(span["ended_ms"] or 0.0 for span in spans)]) or 1.0
    with ui.element("ol").classes("rw-way"):
        for span in spans:
            ended = total_ms if span["ended_ms"] is None else span["ended_ms"]
            with ui.element("li"), ui.element("div").classes("rw-way-line"):
                ui.label(span["name"]).classes("rw-way-name rw-cut")
                _draw_time_bar(span["began_ms"] / scale_ms, ended / scale_ms, "")
                ui.label(format_milliseconds(ended - span["began_ms"])).classes("rw-way-time rw-number")


def _draw_time_bar(begin: float, end: float, mood: Mood) -> None:
    left, width = min(begin, 1.0) * 100, max(end - begin, 0.0) * 100
    with ui.element("span").classes("rw-way-bar").props("aria-hidden=true"):
        ui.element("i").classes(mood).style(f"left: {left:.3f}%; width: {width:.3f}%")


def _draw_candidates(say: TextCatalog, title: str, step: Mapping[str, Any]) -> None:
    """Draw who could answer in `step`: each one's cost as a bar, what it is made of, and why."""
    candidates, reasons = step["candidates"], step.get("why", {})
    costs = {name: parts["cost"] for name, parts in candidates.items()}
    highest = max((cost for cost in costs.values() if cost is not None and isfinite(cost)), default=0.0)
    hint = say("requests.candidates_hint", policy=str(step["policy"]), count=len(candidates))
    with draw_card(say(title), hint), ui.element("ul").classes("rw-candidates"):
        for name in sorted(candidates, key=lambda name: (costs[name] is None, costs[name], name)):
            cost, reason = costs[name], reasons.get(name, "")
            share = 0.0 if cost is None or not highest else max(0.0, cost / highest)
            chosen = reason == "chosen"
            with ui.element("li").classes("chosen" if chosen else ""):
                ui.label(name).classes("rw-cut rw-mono")
                with ui.element("span").classes("rw-meter").props("aria-hidden=true"):
                    ui.element("i").style(f"width: {share * 100:.2f}%")
                ui.label(_format_number(cost)).classes("rw-number rw-cost")
                text = say(f"requests.why.{reason}") if reason in _REASONS else reason
                ui.label(text).classes("rw-chip plain good" if chosen else "rw-chip plain")
                parts = {part: value for part, value in candidates[name].items() if part != "cost"}
                made_of = " · ".join(f"{part} {_format_number(value)}" for part, value in parts.items())
                ui.label(made_of).classes("rw-parts rw-muted rw-small")


def row_mood(row: Mapping[str, Any]) -> Mood:
    """Return the colour of the status of `row`: a blocked request is none that went well, whatever it got."""
    status = row["status"]
    if status is None:
        return ""
    if "blocked" in row["flags"]:
        return "bad"
    return "good" if status < 400 else "warn" if status < 500 else "bad"


def format_milliseconds(value: float | None) -> str:
    """Format `value` as a time, as long as it needs to be."""
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value / 1e3:.2f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def format_count(value: int | None) -> str:
    """Format `value` in groups of three digits."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def request_cost(row: Mapping[str, Any]) -> str:
    """Return the cost of `row`, with its currency."""
    return "–" if row["cost"] is None else f"{format_cost(row['cost'])} {row['currency']}"


def _format_number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"

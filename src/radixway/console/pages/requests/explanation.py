"""A request's steps below each other, each with a bar over the time that it took.

Who could have answered a request: every candidate's cost as a bar, what it is made of, and why.

One request: what came of it, what happened when, and who could have answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from urllib.parse import quote

import msgspec
from nicegui import ui

from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import PageVisit
from radixway.console.pages.requests.rows import format_count, format_milliseconds, request_cost, status_color
from radixway.console.texts import TEXTS, TextCatalog

_SHOWN_FIELDS = 4
_LONGEST_GIST = 140
_BAD = frozenset({"error", "client_left"})


def draw_steps(say: TextCatalog, steps: Sequence[Mapping[str, Any]], total_ms: float) -> None:
    """Draw the `steps` of a journal; a bar reaches from the step before to this one."""
    whole = max([total_ms, *(step["at_ms"] for step in steps)]) or 1.0
    before = 0.0
    with ui.element("ol").classes("rw-way"):
        for step in steps:
            at = step["at_ms"]
            looks = "bad" if step["step"] in _BAD else ""
            with ui.element("li"), ui.element("details"):
                with ui.element("summary"):
                    ui.label(_step_name(say, step["step"])).classes("rw-way-name")
                    _draw_time_bar(before / whole, at / whole, looks)
                    ui.label(format_milliseconds(at)).classes("rw-way-time rw-number")
                    ui.label(_step_summary(step)).classes("rw-way-gist rw-muted rw-small rw-cut")
                ui.label(_step_details(step)).classes("rw-pre")
            before = at


def draw_spans(stretches: Sequence[Mapping[str, Any]], total_ms: float) -> None:
    """Draw the measured `stretches`, each from its begin to its end."""
    whole = max([total_ms, *(each["ended_ms"] or 0.0 for each in stretches)]) or 1.0
    with ui.element("ol").classes("rw-way"):
        for each in stretches:
            ended = total_ms if each["ended_ms"] is None else each["ended_ms"]
            with ui.element("li"), ui.element("div").classes("rw-way-line"):
                ui.label(each["name"]).classes("rw-way-name rw-cut")
                _draw_time_bar(each["began_ms"] / whole, ended / whole, "")
                ui.label(format_milliseconds(ended - each["began_ms"])).classes("rw-way-time rw-number")


def _draw_time_bar(begin: float, end: float, looks: str) -> None:
    left, width = min(begin, 1.0) * 100, max(end - begin, 0.0) * 100
    with ui.element("span").classes("rw-way-bar").props("aria-hidden=true"):
        ui.element("i").classes(looks).style(f"left: {left:.3f}%; width: {width:.3f}%")


def _step_name(say: TextCatalog, step: str) -> str:
    key = f"requests.step.{step}"
    return say(key) if key in TEXTS else step


def _step_summary(step: Mapping[str, Any]) -> str:
    """Its first plain fields."""
    plain = [
        f"{name} {value}"
        for name, value in step.items()
        if name not in ("step", "at_ms") and isinstance(value, str | int | float) and value != ""
    ]
    return " · ".join(plain[:_SHOWN_FIELDS])[:_LONGEST_GIST]


def _step_details(step: Mapping[str, Any]) -> str:
    said = {name: value for name, value in step.items() if name != "step"}
    return msgspec.json.format(msgspec.json.encode(said), indent=2).decode()


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


_NOT_FOUND = 404


async def build_explanation(visit: PageVisit) -> None:
    """Build the explanation of the request that the address of `visit` names."""
    say, request_id = visit.say, visit.request.path_params["request_id"]
    with ui.element("a").props(f'href="{visit.link("/requests")}"').classes("rw-return"):
        ui.icon("west").props("aria-hidden=true")
        ui.label(say("requests.all"))
    try:
        data = await visit.gateway.get_json(f"/explain/{quote(request_id, safe='')}")
    except CallRefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        _draw_title(visit, request_id, None)
        ui.label(say("requests.unknown")).classes("rw-card rw-empty")
        return
    row = data["row"]
    _draw_title(visit, request_id, row["status"])
    _draw_figures(visit, row)
    _draw_facts(visit, row)
    if data["trace_url"] is not None:
        _draw_trace_link(visit, data["trace_url"])
    with ui.element("section").classes("rw-card"):
        _draw_heading(say("requests.way"), say("requests.way_hint"))
        draw_steps(say, data["steps"], row["total_ms"])
    if data["stretches"]:
        with ui.element("section").classes("rw-card"):
            _draw_heading(say("requests.stretches"))
            draw_spans(data["stretches"], row["total_ms"])
    for step in data["steps"]:
        if step["step"] == "select":
            draw_candidates(say, step)
    with ui.element("details").classes("rw-card"):
        with ui.element("summary"):
            ui.label(say("requests.whole"))
        ui.label(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()).classes("rw-pre")


def _draw_title(visit: PageVisit, request_id: str, status: int | None) -> None:
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1").classes("rw-mono rw-cut"):
            ui.label(request_id)
        if status is not None:
            ui.label(str(status)).classes(f"rw-chip {status_color(status)}")


def _draw_figures(visit: PageVisit, row: Mapping[str, Any]) -> None:
    say = visit.say
    prompt, cached = row["prompt_tokens"], row["cached_tokens"]
    hit = say("requests.hit", share=f"{cached / prompt:.0%}") if prompt and cached is not None else ""
    estimated = say("requests.estimated") if row["estimated"] else ""
    with ui.element("div").classes("rw-tiles"):
        for label, value, beside in (
            (say("requests.ttft"), format_milliseconds(row["ttft_ms"]), ""),
            (say("requests.total"), format_milliseconds(row["total_ms"]), ""),
            (say("requests.prompt"), format_count(prompt), hit),
            (say("requests.answer"), format_count(row["completion_tokens"]), estimated),
            (say("requests.cost"), request_cost(row), ""),
        ):
            with ui.element("div").classes("rw-card rw-tile"):
                ui.label(label).classes("rw-label")
                ui.label(value).classes("rw-figure")
                ui.label(beside).classes("rw-muted rw-small")


def _draw_facts(visit: PageVisit, row: Mapping[str, Any]) -> None:
    say = visit.say
    expected = row["expected_cached_tokens"]
    facts = (
        ("requests.began", f"{datetime.fromtimestamp(row['began_at'], UTC):%Y-%m-%d %H:%M:%S} UTC"),
        ("requests.worker", row["worker"]),
        ("requests.model", row["model"]),
        ("requests.asked", row["asked"]),
        ("requests.surface", row["surface"]),
        ("requests.policy", row["policy"]),
        ("requests.expected", None if expected is None else format_count(expected)),
        ("requests.tenant", row["tenant"]),
        ("requests.user", row["user"]),
        ("requests.session", row["session"]),
        ("requests.category", row["category"]),
        ("requests.decision", row["decision"]),
        ("requests.error", row["error"]),
        ("requests.trace", row["trace_id"]),
    )
    with ui.element("section").classes("rw-card"), ui.element("dl").classes("rw-facts rw-two"):
        for name, value in facts:
            if value is not None:
                _draw_fact(say(name))
                with ui.element("dd"):
                    _draw_value(visit, name, str(value))
        if row["flags"]:
            _draw_fact(say("requests.flags"))
            with ui.element("dd").classes("rw-flags"):
                for flag in row["flags"]:
                    ui.label(say(f"requests.flag.{flag}")).classes("rw-chip plain")


def _draw_trace_link(visit: PageVisit, address: str) -> None:
    """Draw a link to the trace store; the address is the operator's, with the trace's id in it."""
    with ui.element("a").props('target="_blank" rel="noopener noreferrer"').classes("rw-return") as link:
        ui.label(visit.say("requests.see_trace"))
        ui.icon("open_in_new").props("aria-hidden=true")
    link._props["href"] = address


def _draw_value(visit: PageVisit, name: str, value: str) -> None:
    """What leads to other requests alike is a link."""
    alike = {"requests.worker": "worker", "requests.model": "model", "requests.tenant": "tenant"}
    also = {"requests.category": "category", "requests.surface": "surface", "requests.trace": "q"}
    field = (alike | also).get(name)
    if field is None:
        ui.label(value)
        return
    with ui.element("a").props(f'href="{visit.link("/requests")}?{field}={quote(value, safe="")}"'):
        ui.label(value)


def _draw_fact(label: str) -> None:
    with ui.element("dt"):
        ui.label(label)


def _draw_heading(text: str, hint: str = "") -> None:
    with ui.element("h2"):
        ui.label(text)
    if hint:
        ui.label(hint).classes("rw-muted rw-small")

"""One request: what came of it, what happened when, and who could have answered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from nicegui import ui

from radixway.console.calls import CallRefusedError
from radixway.console.page import PageVisit
from radixway.console.pages.requests.candidates import draw_candidates
from radixway.console.pages.requests.rows import format_count, format_milliseconds, request_cost, status_color
from radixway.console.pages.requests.waterfall import draw_spans, draw_steps

_NOT_FOUND = 404


async def build_explanation(visit: PageVisit) -> None:
    """The explanation of the request that the address names."""
    say, request_id = visit.say, visit.request.path_params["request_id"]
    with ui.element("a").props(f'href="{visit.link("/requests")}"').classes("rw-return"):
        ui.icon("west").props("aria-hidden=true")
        ui.label(say("requests.all"))
    try:
        told = await visit.gateway.get_json(f"/explain/{quote(request_id, safe='')}")
    except CallRefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        _draw_title(visit, request_id, None)
        ui.label(say("requests.unknown")).classes("rw-card rw-empty")
        return
    row = told["row"]
    _draw_title(visit, request_id, row["status"])
    _draw_figures(visit, row)
    _draw_facts(visit, row)
    if told["trace_url"] is not None:
        _draw_trace_link(visit, told["trace_url"])
    with ui.element("section").classes("rw-card"):
        _draw_heading(say("requests.way"), say("requests.way_hint"))
        draw_steps(say, told["steps"], row["total_ms"])
    if told["stretches"]:
        with ui.element("section").classes("rw-card"):
            _draw_heading(say("requests.stretches"))
            draw_spans(told["stretches"], row["total_ms"])
    for step in told["steps"]:
        if step["step"] == "select":
            draw_candidates(say, step)
    with ui.element("details").classes("rw-card"):
        with ui.element("summary"):
            ui.label(say("requests.whole"))
        ui.label(msgspec.json.format(msgspec.json.encode(told), indent=2).decode()).classes("rw-pre")


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
    """To whoever keeps traces; the address is the operator's, with the trace's id in it."""
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

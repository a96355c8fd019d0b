"""A request's steps below each other, each with a bar over the time that it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from nicegui import ui

from radixway.console.pages.requests.rows import format_milliseconds
from radixway.console.texts import TEXTS, TextCatalog

_SHOWN_FIELDS = 4
_LONGEST_GIST = 140
_BAD = frozenset({"error", "client_left"})


def draw_steps(say: TextCatalog, steps: Sequence[Mapping[str, Any]], total_ms: float) -> None:
    """Every step of a journal; a bar reaches from the step before to this one."""
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
    """What was measured, each where it began and ended."""
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

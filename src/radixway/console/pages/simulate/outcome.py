"""The outcome of a simulation: figures beside each other, the best of each marked, and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from nicegui import ui

from radixway.console.pages.simulate import charts
from radixway.console.texts import TextCatalog

_SECONDS = ("ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "itl_mean_s")
_SHARES = ("hit_rate", "expected_hit_rate")
_RATIOS = ("imbalance", "request_imbalance")
_FIGURES = (*_SECONDS, *_SHARES, *_RATIOS)
_HIGH_IS_GOOD = frozenset({"hit_rate"})
_NOT_COMPARED = frozenset({"expected_hit_rate"})


def draw_outcome(say: TextCatalog, job: Mapping[str, Any]) -> None:
    """Draw `job`, a simulation that is done."""
    result = job["result"]
    trace, policies = result["trace"], result["policies"]
    figures = {name: each["figures"] for name, each in policies.items()}
    curves = {name: each["curves"] for name, each in policies.items()}
    with ui.element("section").classes("rw-card"):
        with ui.element("div").classes("rw-row"):
            with ui.element("h2").classes("rw-fill"):
                ui.label(job["name"])
            whole = msgspec.json.format(msgspec.json.encode(job), indent=2)
            save = ui.button(say("simulate.download"), icon="download").props("flat")
            save.on_click(lambda: ui.download.content(whole, "simulation.json", "application/json"))
        ui.label(
            say(
                "simulate.trace_was",
                requests=trace["requests"],
                tokens=f"{trace['prompt_tokens'] / 1e6:.1f}",
                seconds=f"{trace['lasts_s']:.0f}",
                workers=job["setting"]["workers"],
                kv_tokens=job["setting"]["kv_tokens"],
                took=f"{job['took_s']:.1f}",
            )
        ).classes("rw-muted rw-small")
        _draw_table(say, figures)
        skipped = next(iter(figures.values()))["skipped"]
        if skipped:
            ui.label(say("simulate.skipped", count=skipped)).classes("rw-muted rw-small")
    with ui.element("div").classes("rw-grid wide"):
        for name, options in (
            ("ttft", charts.quantile_options(curves)),
            ("over_time", charts.over_time_options(curves)),
            (
                "hits",
                charts.bar_options({name: each["hit_rate"] for name, each in figures.items()}, percent=True),
            ),
            ("balance", charts.share_options(curves)),
        ):
            with ui.element("section").classes("rw-card"):
                with ui.element("h2"):
                    ui.label(say(f"simulate.chart.{name}"))
                ui.label(say(f"simulate.chart.{name}.hint")).classes("rw-muted rw-small")
                chart = ui.echart(options, renderer="svg").classes("rw-chart rw-chart-tall")
                chart.props(f'role=img aria-label="{say(f"simulate.chart.{name}")}"')


def _draw_table(say: TextCatalog, figures: Mapping[str, Mapping[str, Any]]) -> None:
    best = {name: _best_value(name, [each[name] for each in figures.values()]) for name in _FIGURES}
    with (
        ui.element("div").classes("rw-across").props("tabindex=0"),
        ui.element("table").classes("rw-compare"),
    ):
        with ui.element("thead"), ui.element("tr"):
            _draw_cell(say("simulate.policy"), "th", "scope=col")
            for name in _FIGURES:
                _draw_cell(say(f"simulate.figure.{name}"), "th", "scope=col")
        with ui.element("tbody"):
            for policy, each in figures.items():
                with ui.element("tr"):
                    _draw_cell(policy, "th", "scope=row")
                    for name in _FIGURES:
                        value = each[name]
                        is_best = value is not None and value == best[name]
                        _draw_cell(_format_figure(name, value), "td", "class=best" if is_best else "")


def _draw_cell(text: str, tag: str, props: str) -> None:
    with ui.element(tag).props(props):
        ui.label(text)


def _best_value(name: str, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if name in _NOT_COMPARED or len(known) < 2:
        return None
    choose: Callable[[list[float]], float] = max if name in _HIGH_IS_GOOD else min
    return choose(known)


def _format_figure(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name in _SECONDS:
        return f"{value * 1e3:.0f} ms" if value >= 0.02 else f"{value * 1e3:.1f} ms"
    return f"{value:.1%}" if name in _SHARES else f"{value:.2f}"

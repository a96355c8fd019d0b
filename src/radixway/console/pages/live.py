"""*Live*: what flows through the gateway now, as figures and as charts that move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nicegui import ui

from radixway.console.charts import MovingChart, Points
from radixway.console.gateway_watch import KEPT_S, WatchSample
from radixway.console.page import ConsolePage, PageVisit
from radixway.core.telemetry.scrapes import GatewayStats

Value = Callable[[GatewayStats], float | None]


@dataclass(frozen=True, slots=True)
class _Chart:
    """Its text, its lines by their texts, and what they are read from."""

    title: str
    lines: Sequence[tuple[str, Value]]
    unit: str = ""
    percent: bool = False


def _to_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


_CHARTS = (
    _Chart(
        "live.requests",
        (
            ("live.requests", lambda now: now.requests_per_s),
            ("live.errors", lambda now: now.errors_per_s),
            ("live.refused", lambda now: now.refused_per_s),
        ),
        "live.per_second",
    ),
    _Chart(
        "live.tokens",
        (
            ("live.completion", lambda now: now.completion_tokens_per_s),
            ("live.prompt", lambda now: now.prompt_tokens_per_s),
        ),
        "live.per_second",
    ),
    _Chart(
        "live.first_token",
        (
            ("live.p50", lambda now: _to_ms(now.first_token_p50_s)),
            ("live.p95", lambda now: _to_ms(now.first_token_p95_s)),
        ),
        "live.ms",
    ),
    _Chart(
        "live.between",
        (
            ("live.p50", lambda now: _to_ms(now.between_tokens_p50_s)),
            ("live.p95", lambda now: _to_ms(now.between_tokens_p95_s)),
        ),
        "live.ms",
    ),
    _Chart(
        "live.hits",
        (
            ("live.reported", lambda now: now.reported_hits),
            ("live.predicted", lambda now: now.predicted_hits),
            ("live.semantic", lambda now: now.semantic_hits),
        ),
        percent=True,
    ),
    _Chart(
        "live.load",
        (("live.in_flight", lambda now: now.in_flight), ("live.queued", lambda now: now.queued)),
    ),
)


async def build_live_page(visit: PageVisit) -> None:
    """Build tiles with the latest figures above charts of the last ten minutes, for `visit`."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1"):
            ui.label(say("live.title"))
        ui.label(say("live.window")).classes("rw-muted rw-small")
    tiles = _FigureTiles(visit)
    past = list(visit.watch.moments)
    charts: list[tuple[_Chart, MovingChart]] = []
    with ui.element("div").classes("rw-grid wide"):
        for each in _CHARTS:
            with ui.element("section").classes("rw-card"):
                with ui.element("h2"):
                    ui.label(say(each.title))
                names = [say(text) for text, _ in each.lines]
                unit = say(each.unit) if each.unit else ""
                label = f"{say(each.title)}: {', '.join(names)}"
                chart = MovingChart(label, names, _chart_points(each, past), percent=each.percent, unit=unit)
                charts.append((each, chart))
    seen = past[-1].number if past else 0

    def show() -> None:
        nonlocal seen
        fresh = visit.watch.samples_since(seen)
        if not fresh:
            return
        seen = fresh[-1].number
        tiles.show_figures(fresh[-1].figures)
        for each, chart in charts:
            chart.add_points(_chart_points(each, fresh), fresh[-1].at - KEPT_S)

    if past:
        tiles.show_figures(past[-1].figures)
    visit.on_new_sample(show)


def _chart_points(chart: _Chart, moments: Sequence[WatchSample]) -> list[Points]:
    return [
        [(moment.at, _round_value(read(moment.figures))) for moment in moments] for _, read in chart.lines
    ]


def _round_value(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


class _FigureTiles:
    """The figures that one looks for first."""

    def __init__(self, visit: PageVisit) -> None:
        self._say = visit.say
        self._values: dict[str, ui.label] = {}
        self._beside: dict[str, ui.label] = {}
        names = (
            *("live.requests", "live.completion", "live.first_token", "live.between", "live.hits"),
            *("live.workers", "live.in_flight", "live.queued", "live.errors", "live.blocked"),
        )
        with ui.element("div").classes("rw-tiles"):
            for name in names:
                with ui.element("div").classes("rw-card rw-tile").props(f"data-tile={name}"):
                    ui.label(self._say(name)).classes("rw-label")
                    with ui.element("div").classes("rw-row"):
                        self._values[name] = ui.label("–").classes("rw-figure")
                        self._beside[name] = ui.label("").classes("rw-muted rw-number")

    def show_figures(self, now: GatewayStats) -> None:
        """Show the latest figures, `now`."""
        say = self._say
        second, ms = say("live.per_second"), say("live.ms")
        self._set_tile("live.requests", _format_short(now.requests_per_s), second)
        self._set_tile("live.completion", _format_short(now.completion_tokens_per_s), second)
        self._set_tile("live.first_token", *_format_latency(now.first_token_p50_s, now.first_token_p95_s, ms))
        self._set_tile(
            "live.between", *_format_latency(now.between_tokens_p50_s, now.between_tokens_p95_s, ms)
        )
        predicted = (
            ""
            if now.predicted_hits is None
            else say("live.expected", share=_format_percent(now.predicted_hits))
        )
        self._set_tile("live.hits", _format_percent(now.reported_hits), predicted)
        self._set_tile("live.blocked", _format_short(now.blocked_per_s), second)
        self._set_tile("live.in_flight", _format_short(now.in_flight), "")
        self._set_tile("live.queued", _format_short(now.queued), "")
        self._set_tile("live.errors", _format_short(now.errors_per_s), second)
        self._set_tile(
            "live.workers", _format_short(now.ready), say("live.of", count=_format_short(now.workers))
        )

    def _set_tile(self, name: str, value: str, beside: str) -> None:
        self._values[name].set_text(value)
        self._beside[name].set_text(beside)


def _format_latency(median: float | None, high: float | None, unit: str) -> tuple[str, str]:
    """The median, and beside it the 95th percentile."""
    if median is None or high is None:
        return "–", ""
    return _format_short(median * 1000), f"{unit} · p95 {_format_short(high * 1000)}"


def _format_percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _format_short(value: float) -> str:
    """Three digits, or the whole number."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


PAGE = ConsolePage(name="live", path="/live", icon="show_chart", key="l", build=build_live_page)

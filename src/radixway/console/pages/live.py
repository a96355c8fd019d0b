"""*Live*: what flows through the gateway now, as figures and as charts that move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nicegui import ui

from radixway.console.charts import MovingChart, Points
from radixway.console.page import Page, Visit
from radixway.console.watching import KEPT_S, Moment
from radixway.telemetry.figures import Figures

Value = Callable[[Figures], float | None]


@dataclass(frozen=True, slots=True)
class _Chart:
    """Its text, its lines by their texts, and what they are read from."""

    title: str
    lines: Sequence[tuple[str, Value]]
    unit: str = ""
    percent: bool = False


def _ms(seconds: float | None) -> float | None:
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
            ("live.p50", lambda now: _ms(now.first_token_p50_s)),
            ("live.p95", lambda now: _ms(now.first_token_p95_s)),
        ),
        "live.ms",
    ),
    _Chart(
        "live.between",
        (
            ("live.p50", lambda now: _ms(now.between_tokens_p50_s)),
            ("live.p95", lambda now: _ms(now.between_tokens_p95_s)),
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


async def build(visit: Visit) -> None:
    """Tiles with the latest figures above, charts of the last ten minutes below."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1"):
            ui.label(say("live.title"))
        ui.label(say("live.window")).classes("rw-muted rw-small")
    tiles = _Tiles(visit)
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
                chart = MovingChart(label, names, _points(each, past), percent=each.percent, unit=unit)
                charts.append((each, chart))
    seen = past[-1].number if past else 0

    def show() -> None:
        nonlocal seen
        fresh = visit.watch.since(seen)
        if not fresh:
            return
        seen = fresh[-1].number
        tiles.show(fresh[-1].figures)
        for each, chart in charts:
            chart.add(_points(each, fresh), fresh[-1].at - KEPT_S)

    if past:
        tiles.show(past[-1].figures)
    visit.whenever_read(show)


def _points(chart: _Chart, moments: Sequence[Moment]) -> list[Points]:
    return [[(moment.at, _rounded(read(moment.figures))) for moment in moments] for _, read in chart.lines]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


class _Tiles:
    """The figures that one looks for first."""

    def __init__(self, visit: Visit) -> None:
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

    def show(self, now: Figures) -> None:
        """The latest."""
        say = self._say
        second, ms = say("live.per_second"), say("live.ms")
        self._tell("live.requests", _short(now.requests_per_s), second)
        self._tell("live.completion", _short(now.completion_tokens_per_s), second)
        self._tell("live.first_token", *_latency(now.first_token_p50_s, now.first_token_p95_s, ms))
        self._tell("live.between", *_latency(now.between_tokens_p50_s, now.between_tokens_p95_s, ms))
        predicted = (
            "" if now.predicted_hits is None else say("live.expected", share=_percent(now.predicted_hits))
        )
        self._tell("live.hits", _percent(now.reported_hits), predicted)
        self._tell("live.blocked", _short(now.blocked_per_s), second)
        self._tell("live.in_flight", _short(now.in_flight), "")
        self._tell("live.queued", _short(now.queued), "")
        self._tell("live.errors", _short(now.errors_per_s), second)
        self._tell("live.workers", _short(now.ready), say("live.of", count=_short(now.workers)))

    def _tell(self, name: str, value: str, beside: str) -> None:
        self._values[name].set_text(value)
        self._beside[name].set_text(beside)


def _latency(median: float | None, high: float | None, unit: str) -> tuple[str, str]:
    """The median, and beside it the 95th percentile."""
    if median is None or high is None:
        return "–", ""
    return _short(median * 1000), f"{unit} · p95 {_short(high * 1000)}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _short(value: float) -> str:
    """Three digits, or the whole number."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


PAGE = Page(name="live", path="/live", icon="show_chart", key="l", build=build)

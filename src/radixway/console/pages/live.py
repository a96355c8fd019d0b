"""*Live*: what flows through the gateway now, as figures and as charts that move."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nicegui import ui

from radixway.console.charts import MovingChart, Points
from radixway.console.components import draw_card, draw_page_title
from radixway.console.gateway_watch import HISTORY_S, WatchSample
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.texts import TextCatalog
from radixway.core.telemetry.scrapes import GatewayStats

_TILES = (
    *("requests", "completion", "first_token", "between", "hits"),
    *("workers", "in_flight", "queued", "errors", "blocked"),
)


@dataclass(frozen=True, slots=True)
class _Chart:
    """The name of a chart, its lines by name with what they are read from, and their unit."""

    name: str
    lines: Mapping[str, Callable[[GatewayStats], float | None]]
    unit: str = ""
    scale: float = 1
    percent: bool = False

    def points(self, samples: Sequence[WatchSample]) -> list[Points]:
        """Return the points of each line at `samples`, with four digits."""
        return [
            [(sample.at, self._scale_value(read(sample.figures))) for sample in samples]
            for read in self.lines.values()
        ]

    def _scale_value(self, value: float | None) -> float | None:
        return None if value is None else float(f"{value * self.scale:.4g}")


_CHARTS = (
    _Chart(
        "requests",
        {
            "requests": lambda now: now.requests_per_s,
            "errors": lambda now: now.errors_per_s,
            "refused": lambda now: now.refused_per_s,
        },
        "per_second",
    ),
    _Chart(
        "tokens",
        {
            "completion": lambda now: now.completion_tokens_per_s,
            "prompt": lambda now: now.prompt_tokens_per_s,
        },
        "per_second",
    ),
    _Chart(
        "first_token",
        {"p50": lambda now: now.first_token_p50_s, "p95": lambda now: now.first_token_p95_s},
        "ms",
        scale=1000,
    ),
    _Chart(
        "between",
        {"p50": lambda now: now.between_tokens_p50_s, "p95": lambda now: now.between_tokens_p95_s},
        "ms",
        scale=1000,
    ),
    _Chart(
        "hits",
        {
            "reported": lambda now: now.reported_hits,
            "predicted": lambda now: now.predicted_hits,
            "semantic": lambda now: now.semantic_hits,
        },
        percent=True,
    ),
    _Chart("load", {"in_flight": lambda now: now.in_flight, "queued": lambda now: now.queued}),
)


async def build_live_page(visit: PageVisit) -> None:
    """Build tiles with the latest figures above charts of the last ten minutes, for `visit`."""
    say = visit.say
    with draw_page_title(say("live.title")):
        ui.label(say("live.window")).classes("rw-muted rw-small")
    tiles: dict[str, tuple[ui.label, ui.label]] = {}
    with ui.element("div").classes("rw-tiles"):
        for name in _TILES:
            with ui.element("div").classes("rw-card rw-tile").props(f"data-tile=live.{name}"):
                ui.label(say(f"live.{name}")).classes("rw-label")
                with ui.element("div").classes("rw-row"):
                    figure = ui.label("–").classes("rw-figure")
                    tiles[name] = figure, ui.label().classes("rw-muted rw-number")
    past = list(visit.watch.moments)
    charts: list[tuple[_Chart, MovingChart]] = []
    with ui.element("div").classes("rw-grid wide"):
        for spec in _CHARTS:
            with draw_card(title := say(f"live.{spec.name}")):
                names = [say(f"live.{line}") for line in spec.lines]
                unit = say(f"live.{spec.unit}") if spec.unit else ""
                label = f"{title}: {', '.join(names)}"
                chart = MovingChart(label, names, spec.points(past), percent=spec.percent, unit=unit)
                charts.append((spec, chart))
    seen = past[-1].number if past else 0

    def show_tiles(now: GatewayStats) -> None:
        for name, (value, detail) in _tile_texts(say, now).items():
            tiles[name][0].set_text(value)
            tiles[name][1].set_text(detail)

    def show() -> None:
        nonlocal seen
        fresh = visit.watch.samples_since(seen)
        if not fresh:
            return
        seen = fresh[-1].number
        show_tiles(fresh[-1].figures)
        for spec, chart in charts:
            chart.add_points(spec.points(fresh), fresh[-1].at - HISTORY_S)

    if past:
        show_tiles(past[-1].figures)
    visit.on_new_sample(show)


def _tile_texts(say: TextCatalog, now: GatewayStats) -> dict[str, tuple[str, str]]:
    """Return what each tile shows, and what stands beside it."""
    second, ms = say("live.per_second"), say("live.ms")
    predicted = _format_percent(now.predicted_hits)
    expected = say("live.expected", share=predicted) if now.predicted_hits is not None else ""
    return {
        "requests": (_format_short(now.requests_per_s), second),
        "completion": (_format_short(now.completion_tokens_per_s), second),
        "first_token": _format_latency(now.first_token_p50_s, now.first_token_p95_s, ms),
        "between": _format_latency(now.between_tokens_p50_s, now.between_tokens_p95_s, ms),
        "hits": (_format_percent(now.reported_hits), expected),
        "workers": (_format_short(now.ready), say("live.of", count=_format_short(now.workers))),
        "in_flight": (_format_short(now.in_flight), ""),
        "queued": (_format_short(now.queued), ""),
        "errors": (_format_short(now.errors_per_s), second),
        "blocked": (_format_short(now.blocked_per_s), second),
    }


def _format_latency(median: float | None, high: float | None, unit: str) -> tuple[str, str]:
    """Return the median, and beside it the 95th percentile."""
    if median is None or high is None:
        return "–", ""
    return _format_short(median * 1000), f"{unit} · p95 {_format_short(high * 1000)}"


def _format_percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _format_short(value: float) -> str:
    """Return `value` with three digits, or as the whole number."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


PAGE = ConsolePage(name="live", path="/live", icon="show_chart", key="l", build=build_live_page)

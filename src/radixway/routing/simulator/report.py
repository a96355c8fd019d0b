"""The figures by which policies are compared, and the report that shows them to people."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from radixway.routing.simulator.simulation import SimulationOutcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class SimulationFigures:
    """Figures of a policy. Seconds; rates and imbalances are ratios. None where nothing was observed."""

    requests: int
    skipped: int
    """Requests too large for any worker's cache."""
    ttft_mean_s: float | None
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    itl_mean_s: float | None
    """Mean over the answers of the mean time between their tokens."""
    itl_p99_s: float | None
    goodput: float | None
    """Requests within the objectives of the settings, of all."""
    held: int
    """Requests that waited at a gateway for the worker that they preferred."""
    most_held: int
    """At a time, at one gateway."""
    preemptions: int
    """Requests that lost their place in an engine to the answers of earlier ones, each time counted."""
    hit_rate: float | None
    """Prompt tokens that were in the cache of the worker that served them, of all."""
    expected_hit_rate: float | None
    """The same as the selector thought; None for a policy that does not look at prefixes."""
    imbalance: float | None
    """The busiest worker's work over the mean, 1 at best. Work is the seconds that tokens cost it, without
    the fixed cost of a step: a worker with one request to decode is as busy as one with fifty."""
    request_imbalance: float | None
    """The most requests that a worker got over the mean."""


def compute_figures(outcome: SimulationOutcome) -> SimulationFigures:
    """The figures of a simulation's outcome."""
    ttft = sorted(outcome.ttft_s)
    expected = outcome.expected_cached_tokens
    return SimulationFigures(
        requests=len(ttft),
        skipped=outcome.skipped,
        ttft_mean_s=fmean(ttft) if ttft else None,
        ttft_p50_s=nearest_rank_percentile(ttft, 0.5),
        ttft_p99_s=nearest_rank_percentile(ttft, 0.99),
        itl_mean_s=fmean(outcome.itl_s) if outcome.itl_s else None,
        itl_p99_s=nearest_rank_percentile(sorted(outcome.itl_s), 0.99),
        goodput=_ratio(outcome.good, len(ttft)),
        held=outcome.held,
        most_held=outcome.most_held,
        preemptions=outcome.preemptions,
        hit_rate=_ratio(outcome.cached_tokens, outcome.input_tokens),
        expected_hit_rate=None if expected is None else _ratio(expected, outcome.input_tokens),
        imbalance=_imbalance(outcome.work_s),
        request_imbalance=_imbalance(outcome.requests),
    )


def nearest_rank_percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest of `ordered` values that at least `share` of them do not exceed (nearest rank)."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


def format_number(value: float | None, form: str) -> str:
    """Format `value` by `form`, a format string; a dash where nothing was observed."""
    return "–" if value is None else form.format(value)


def _imbalance(loads: Sequence[float]) -> float | None:
    return _ratio(max(loads) * len(loads), sum(loads)) if loads else None


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None


_QUANTILES = tuple(share / 100 for share in (*range(5, 95, 5), *range(95, 100), 99.9))
_SLICES = 48
"""Slices of the trace's time."""


def compute_curves(outcome: SimulationOutcome) -> dict[str, Any]:
    """Points by name, few whatever the trace's length; seconds."""
    ordered = sorted(outcome.ttft_s)
    work = sum(outcome.work_s)
    return {
        "ttft_quantiles": [[share, nearest_rank_percentile(ordered, share)] for share in _QUANTILES]
        if ordered
        else [],
        "ttft_over_time": _ttft_over_time(outcome),
        "work_shares": [each / work for each in outcome.work_s] if work else [],
        "requests": outcome.requests,
    }


def _ttft_over_time(outcome: SimulationOutcome) -> list[list[float]]:
    """Return `[start, mean TTFT of arrivals]` for slices with arrivals."""
    width = max(outcome.arrived_s, default=0.0) / _SLICES or 1.0
    sums: dict[int, list[float]] = {}
    for arrived, ttft in zip(outcome.arrived_s, outcome.ttft_s, strict=True):
        slot = sums.setdefault(min(int(arrived / width), _SLICES - 1), [0.0, 0.0])
        slot[0] += ttft
        slot[1] += 1
    return [[slot * width, total / many] for slot, (total, many) in sorted(sums.items())]


class PlottingUnavailableError(Exception):
    """The plotting library is not installed; the message says how to get it."""


def draw_plots(
    path: Path, outcomes: Mapping[str, SimulationOutcome], figures: Mapping[str, SimulationFigures]
) -> None:
    """Write the plots as a PNG. Raises PlottingUnavailableError, OSError."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise PlottingUnavailableError(
            f"there are no plots, because {error.name} is not installed: pip install 'radixway[simulate]'"
        ) from None
    figure = Figure(figsize=(13, 9 + 0.25 * len(outcomes)), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    (shares, times), (bars, workers) = figure.subplots(2, 2)
    _draw_ttft_distribution(shares, outcomes)
    _draw_over_time(times, outcomes)
    _draw_bars(bars, figures)
    _draw_worker_load(workers, outcomes)
    handles, labels = shares.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Software": None})


def _draw_ttft_distribution(axes: Axes, outcomes: Mapping[str, SimulationOutcome]) -> None:
    for name, outcome in outcomes.items():
        ordered = sorted(outcome.ttft_s)
        axes.plot(ordered, [(at + 1) / len(ordered) for at in range(len(ordered))], label=name)
    axes.set(xscale="log", xlabel="time to first token, s", ylabel="share of requests that wait no longer")
    axes.grid(alpha=0.3)


def _draw_over_time(axes: Axes, outcomes: Mapping[str, SimulationOutcome]) -> None:
    for outcome in outcomes.values():
        axes.plot(*zip(*_ttft_over_time(outcome), strict=True))
    axes.set(xlabel="arrival, s", ylabel="mean time to first token, s", yscale="log")
    axes.grid(alpha=0.3)


def _draw_bars(axes: Axes, figures: Mapping[str, SimulationFigures]) -> None:
    """TTFT mean, with the hit rate beside each bar."""
    means = [of.ttft_mean_s or 0.0 for of in figures.values()]
    colours = [f"C{place % 10}" for place in range(len(figures))]
    bars = axes.barh(list(figures), means, color=colours)
    axes.bar_label(bars, [f"{of.hit_rate or 0:.1%} hit" for of in figures.values()], padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(xlabel="mean time to first token, s")


def _draw_worker_load(axes: Axes, outcomes: Mapping[str, SimulationOutcome]) -> None:
    """Draw each worker's load over the mean, busiest first."""
    for outcome in outcomes.values():
        mean = fmean(outcome.work_s) or 1.0
        shares = sorted((work / mean for work in outcome.work_s), reverse=True)
        axes.plot(range(1, len(shares) + 1), shares, marker="o", markersize=4)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(xlabel="workers, busiest first", ylabel="work over the mean")
    axes.grid(alpha=0.3)


def write_html_page(path: Path, headline: str, document: Mapping[str, Any], picture: Path | None) -> None:
    """Write one HTML file that needs no other. `document` as `--json` has it. Raises OSError."""
    shown = ""
    if picture is not None:
        shown = (
            f'<img alt="plots" src="data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}">'
        )
    policies: Mapping[str, Mapping[str, Any]] = document["policies"]
    columns = list(next(iter(policies.values())))
    rows = (
        _table_row("td", name, (_format_cell(of[column]) for column in columns))
        for name, of in policies.items()
    )
    given = document["setting"] | {f"engine: {name}": value for name, value in document["constants"].items()}
    template = (files(__package__) / "report.html").read_text(encoding="utf-8")
    path.write_text(
        template.format(
            headline=escape(headline),
            head=_table_row("th", "policy", columns),
            rows="\n".join(rows),
            picture=shown,
            given="\n".join(_table_row("td", name, [str(value)]) for name, value in given.items()),
        ),
        encoding="utf-8",
    )


def _table_row(kind: str, name: str, cells: Iterable[str]) -> str:
    return (
        f"<tr><th>{escape(name)}</th>"
        + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells)
        + "</tr>"
    )


def _format_cell(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)

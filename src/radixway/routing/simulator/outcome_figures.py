"""The figures by which policies are compared.

What of a simulation is drawn: how long requests waited, when, and who did the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Any

from radixway.routing.simulator.simulation import SimulationOutcome


@dataclass(frozen=True, slots=True)
class SimulationFigures:
    """Of one policy. Seconds; rates and imbalances are ratios. None where nothing was observed."""

    requests: int
    skipped: int
    """Requests that no worker's cache has room for."""
    ttft_mean_s: float | None
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    itl_mean_s: float | None
    """Mean over the answers of the mean time between their tokens."""
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
        hit_rate=_ratio(outcome.cached_tokens, outcome.input_tokens),
        expected_hit_rate=None if expected is None else _ratio(expected, outcome.input_tokens),
        imbalance=_imbalance(outcome.work_s),
        request_imbalance=_imbalance(outcome.requests),
    )


def nearest_rank_percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest of `ordered` values that at least `share` of them do not exceed (nearest rank)."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


def _imbalance(loads: Sequence[float]) -> float | None:
    return _ratio(max(loads) * len(loads), sum(loads)) if loads else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


_QUANTILES = tuple(share / 100 for share in (*range(5, 95, 5), *range(95, 100), 99.9))
_SLICES = 48
"""Of the trace's time."""


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
    """`[from then on, mean time to first token of who arrived]`, without the slices in which nobody did."""
    width = max(outcome.arrived_s, default=0.0) / _SLICES or 1.0
    sums: dict[int, list[float]] = {}
    for arrived, ttft in zip(outcome.arrived_s, outcome.ttft_s, strict=True):
        slot = sums.setdefault(min(int(arrived / width), _SLICES - 1), [0.0, 0.0])
        slot[0] += ttft
        slot[1] += 1
    return [[slot * width, total / many] for slot, (total, many) in sorted(sums.items())]

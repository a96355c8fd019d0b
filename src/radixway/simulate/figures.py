"""The figures by which policies are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from radixway.simulate.simulation import SimulationOutcome


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

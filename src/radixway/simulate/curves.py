"""What of a simulation is drawn: how long requests waited, when, and who did the work."""

from __future__ import annotations

from typing import Any

from radixway.simulate.figures import nearest_rank_percentile
from radixway.simulate.simulation import SimulationOutcome

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

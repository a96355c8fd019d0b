"""Autoscaling of engines by the requests in flight that they report.

Requests reach engines past Ray's handles, so that Ray's own count of them is of no use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from radixway.cluster.planner.ray_autoscaler import IN_HAND


class ServeAutoscalingContext(Protocol):
    """Of Ray's `AutoscalingContext`, what is read here."""

    aggregated_metrics: Mapping[str, Mapping[Any, float]] | None
    target_num_replicas: int
    config: Any


def by_requests_in_hand(context: ServeAutoscalingContext) -> tuple[float, dict[str, Any]]:
    """As many replicas as hold `target_ongoing_requests` each; Ray applies delays and limits to it.

    While nothing is reported nothing changes.
    """
    reported = (context.aggregated_metrics or {}).get(IN_HAND)
    if not reported:
        return context.target_num_replicas, {}
    return sum(reported.values()) / context.config.target_ongoing_requests, {}

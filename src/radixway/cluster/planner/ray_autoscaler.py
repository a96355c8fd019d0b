"""The planner as an autoscaling policy of Ray Serve, for any deployment.

    AutoscalingConfig(policy=AutoscalingPolicy(policy_function="radixway.cluster.planner.ray_policy"), …)

Ray tells a policy how many requests a deployment has in flight, and no lengths. So replicas are counted by
what each may have in flight: `target_ongoing_requests`, or as many as keep the objective by the profile where
`context_tokens` are given. The present is the least, a forecast the floor; Ray applies its limits and delays.
"""

from collections import deque
from collections.abc import Mapping
from math import ceil
from statistics import fmean
from typing import Any, Protocol

from radixway.cluster.planner.capacity_model import CapacityModel
from radixway.cluster.planner.forecast import find_forecast
from radixway.cluster.planner.model_planner import ScaleDownStabilizer
from radixway.core.config import ConfigError, PlannerConfig

IN_HAND = "requests_in_hand"
"""Requests that run or wait, as engines of a `ray_serve` application report: these pass Ray's handles by."""
_STATE = "radixway_planner"


class PlannerAutoscalingContext(Protocol):
    """The part of Ray's `AutoscalingContext` that is read."""

    aggregated_metrics: Mapping[str, Mapping[Any, float]] | None
    total_num_requests: float
    target_num_replicas: int
    current_time: float | None
    policy_state: dict[str, Any]
    config: Any


class RayPolicy:
    """A deployment's planner. Ray makes it of `policy_kwargs`: keys of `scale.planner`, and one more."""

    def __init__(self, context_tokens: float | None = None, **keys: Any) -> None:
        """`context_tokens`: of a usual request, prompt and half the answer. With it the profile counts.

        How many replicas there may be says Ray, unless `max_replicas` is among the keys. Raises ValueError
        (pydantic's) for a key that `scale.planner` does not have.
        """
        keys.setdefault("forecast", _default_forecast())
        self._config = config = PlannerConfig.model_validate(keys)
        self._forecast = find_forecast(config.forecast)
        self._max_replicas = config.max_replicas if "max_replicas" in keys else None
        self._each: int | None = None
        if context_tokens is not None:
            self._each = CapacityModel(config.profile, config.objective).max_concurrency(context_tokens)
        self._stabilizer = ScaleDownStabilizer(config.scale_down_patience_s)
        self._seen: deque[float] = deque(maxlen=config.history)
        """Mean requests in flight of each interval."""
        self._interval: list[float] = []
        self._due: float | None = None
        self._floor = 0.0

    def __call__(self, context: PlannerAutoscalingContext) -> tuple[int, dict[str, Any]]:
        """Return the wanted number of replicas for `context`, and no state: this object has it."""
        now = context.current_time
        in_hand = self._count_inflight(context)
        if in_hand is None or now is None:
            return context.target_num_replicas, {}
        self._record_sample(now, in_hand)
        each = self._each or context.config.target_ongoing_requests
        wanted = max(ceil(in_hand / each), ceil(self._floor / each), self._config.min_replicas)
        max_replicas = self._max_replicas or context.config.max_replicas
        return min(max_replicas, self._stabilizer.stabilize(now, wanted)), {}

    @staticmethod
    def _count_inflight(context: PlannerAutoscalingContext) -> float | None:
        reported = (context.aggregated_metrics or {}).get(IN_HAND)
        if reported is None:
            return context.total_num_requests
        return sum(reported.values()) if reported else None

    def _record_sample(self, now: float, in_hand: float) -> None:
        config = self._config
        self._interval.append(in_hand)
        if self._due is None:
            self._due = now + config.interval_s
        if now < self._due:
            return
        self._due = now + config.interval_s
        self._seen.append(fmean(self._interval))
        self._interval = []
        steps = 1 + ceil(config.profile.startup_s / config.interval_s)
        self._floor = self._forecast(list(self._seen), steps, config.forecast_share)


def ray_policy(context: PlannerAutoscalingContext) -> tuple[int, dict[str, Any]]:
    """`RayPolicy` as it is without keys: it lives in the policy's state."""
    planner = context.policy_state.get(_STATE) or RayPolicy()
    return planner(context)[0], {_STATE: planner}


def _default_forecast() -> str:
    """Return the default forecast if its package is installed: Serve's controller may run without it."""
    usual: str = PlannerConfig.model_fields["forecast"].default
    try:
        find_forecast(usual)
    except ConfigError:
        return "constant"
    return usual


def by_requests_in_hand(context: PlannerAutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Return as many replicas as hold `target_ongoing_requests` each; Ray applies delays and limits to it.

    For engines, whose requests pass Ray's handles by. While they report nothing nothing changes.
    """
    reported = (context.aggregated_metrics or {}).get(IN_HAND)
    if not reported:
        return context.target_num_replicas, {}
    return sum(reported.values()) / context.config.target_ongoing_requests, {}

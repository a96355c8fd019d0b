"""The two scaling modes: by what is waiting now, and by forecast demand.

Up at once, down slowly: keeps a proposal from following every lull. Pure; time is passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite

from radixway.cluster.planner.capacity_model import CapacityModel, PlannedRole, ReplicaNeed
from radixway.cluster.planner.forecast import Forecast
from radixway.cluster.planner.traffic_window import TrafficDemand, TrafficWindow, estimate_demand
from radixway.core.config.scale import PlannedModelConfig, PlannerConfig

_SMOOTHED = 6
"""Looks at the load that are averaged: a burst that is over before a replica could start is none."""
_SLOWNESS = (0.5, 3.0)
_LEARNING = 0.3
_FASTEST_GROWTH = 2.0


@dataclass(frozen=True, slots=True)
class RoleReplicas:
    """A model's replicas of one role, as they are now."""

    ready: int
    starting: int = 0
    prefill_tokens: int = 0
    """That replicas are to prefill."""
    decoding: int = 0
    """Requests past their first token."""
    waiting: int = 0
    """Requests in the gateway's queue."""


class LoadMode:
    """Looks at queues every few seconds. Fast, and blind for what has not come yet."""

    def __init__(self, config: PlannerConfig, model: PlannedModelConfig, capacity: CapacityModel) -> None:
        self._config = config
        self._objective = model.objective
        self._capacity = capacity
        self._pressures: deque[float] = deque(maxlen=_SMOOTHED)

    def plan_replicas(
        self, fleet: RoleReplicas, role: PlannedRole, usual: TrafficDemand | None
    ) -> tuple[int, float]:
        """Return the replicas that the load of `fleet` asks for, and its share of what is allowed.

        `usual`: how long prompts are.
        """
        ready = max(1, fleet.ready)
        self._pressures.append(self._load_pressure(fleet, ready, role, usual))
        pressure = sum(self._pressures) / len(self._pressures)
        if pressure > self._config.most_utilization:
            more = min(_FASTEST_GROWTH, pressure / self._config.most_utilization)
            return max(ceil(ready * more), ready + 1), pressure
        kept = ready if pressure > self._config.least_utilization else 1
        return kept, pressure

    def _load_pressure(
        self, fleet: RoleReplicas, ready: int, role: PlannedRole, usual: TrafficDemand | None
    ) -> float:
        context_tokens, each = (usual.context_tokens, usual.uncached_tokens) if usual else (0.0, 0.0)
        tokens = fleet.prefill_tokens + fleet.waiting * each
        decoding = fleet.decoding / ready if role != "prefill" else 0.0
        waits = self._capacity.estimate_backlog_s(tokens / ready, decoding, context_tokens)
        steps = self._capacity.estimate_step_s(decoding, context_tokens)
        parts = {"any": (0, 1), "prefill": (0,), "decode": (1,)}[role]
        return max((waits / self._objective.ttft_s, steps / self._objective.itl_s)[part] for part in parts)


class ThroughputMode:
    """Forecasts the demand of the next intervals, and asks the capacity profile what it needs."""

    def __init__(
        self, config: PlannerConfig, model: PlannedModelConfig, capacity: CapacityModel, forecast: Forecast
    ) -> None:
        self._config = config
        self._model = model
        self._capacity = capacity
        self._forecast = forecast
        self._rates: deque[float] = deque(maxlen=config.history)
        self._uncached: deque[float] = deque(maxlen=config.history)
        self._outputs: deque[float] = deque(maxlen=config.history)
        self.slowness = 1.0
        """Measured first tokens over those that the profile expected; learnt."""
        self.demand: TrafficDemand | None = None
        """That is planned for."""

    def forecast_demand(
        self, parts: Sequence[TrafficWindow], ready: int, role: PlannedRole
    ) -> TrafficDemand | None:
        """Take in an interval, and forecast what is to be planned for. None before the first request."""
        percentile = self._model.objective.ttft_percentile
        seen = estimate_demand(parts, percentile)
        if seen is None:
            span_s = sum(part.span_s for part in parts)
            self._rates.append(sum(part.requests for part in parts) / span_s if span_s else 0.0)
            return self._demand_when_ready()
        self._learn_slowness(
            seen, TrafficWindow.merge_windows(parts).ttft_s.find_percentile(percentile), ready, role
        )
        self._rates.append(seen.requests_per_s)
        self._uncached.append(seen.uncached_tokens)
        if seen.output_tokens:
            self._outputs.append(seen.output_tokens)
        self.demand = seen
        return self._demand_when_ready()

    def find_need(self, demand: TrafficDemand, role: PlannedRole) -> ReplicaNeed:
        """The replicas for `demand`, by what was learnt."""
        model = self._model
        return self._capacity.find_need(demand, role, model.min_replicas, model.max_replicas, self.slowness)

    def _demand_when_ready(self) -> TrafficDemand | None:
        """The demand when a replica asked for now would be ready, and until the next forecast."""
        if self.demand is None:
            return None
        steps = 1 + ceil(self._model.profile.startup_s / self._config.interval_s)
        share = self._config.forecast_share
        uncached = self._forecast(list(self._uncached), steps, 0.5)
        self.demand = replace(
            self.demand,
            requests_per_s=self._forecast(list(self._rates), steps, share),
            uncached_tokens=uncached,
            output_tokens=self._forecast(list(self._outputs), steps, 0.5),
        )
        return self.demand

    def _learn_slowness(
        self, seen: TrafficDemand, ttft_s: float | None, ready: int, role: PlannedRole
    ) -> None:
        expected = self._capacity.expect_latency(seen, max(1, ready), role).ttft_s
        if ttft_s is None or role == "decode" or not isfinite(expected):
            return  # of a fleet that is too small for good, no time says what the profile is worth
        low, high = _SLOWNESS
        ratio = min(high, max(low, ttft_s / expected))
        self.slowness += _LEARNING * (ratio - self.slowness)


class ScaleDownStabilizer:
    """Up at once, down once nothing has asked for more for long enough (Kubernetes' stabilization window)."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._asked: deque[tuple[float, int]] = deque()
        """Falling counts, each until when it is to be kept."""

    def stabilize(self, now: float, replicas: int) -> int:
        """The most that was asked for within the patience."""
        asked = self._asked
        while asked and asked[-1][1] <= replicas:
            asked.pop()
        asked.append((now + self._patience_s, replicas))
        while len(asked) > 1 and asked[0][0] <= now:
            asked.popleft()
        return asked[0][1]

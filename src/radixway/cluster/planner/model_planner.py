"""Plans one model's replicas from both scaling modes, stabilized. Pure; time is passed in.

The two modes: by what is waiting now, and by forecast demand.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, isfinite
from typing import Any

from radixway.cluster.planner.capacity_model import CapacityModel, PlannedRole, ReplicaNeed
from radixway.cluster.planner.forecast import Forecast
from radixway.cluster.planner.traffic_window import TrafficDemand, TrafficWindow, estimate_demand
from radixway.core.config.scale import PlannedModelConfig, PlannerConfig

_SMOOTHED = 6
"""Load samples that are averaged, so that short bursts are ignored."""
_SLOWNESS = (0.5, 3.0)
_LEARNING = 0.3
_FASTEST_GROWTH = 2.0


@dataclass(frozen=True, slots=True)
class RoleReplicas:
    """A model's replicas of one role, as they are now."""

    ready: int
    starting: int = 0
    prefill_tokens: int = 0
    """Tokens that replicas are to prefill."""
    decoding: int = 0
    """Requests past their first token."""
    waiting: int = 0


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
        fewest = ready if pressure > self._config.least_utilization else 1
        return fewest, pressure

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
        """The planned demand."""

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
        """Return the demand from when a new replica would be ready until the next forecast."""
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
    """Scales up at once, and down to the most replicas wanted within Kubernetes' stabilization window."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._wanted: deque[tuple[float, int]] = deque()
        """Falling counts, each with the time until which it holds."""

    def stabilize(self, now: float, replicas: int) -> int:
        """Return the most `replicas` wanted within the window that ends `now`."""
        wanted = self._wanted
        while wanted and wanted[-1][1] <= replicas:
            wanted.pop()
        wanted.append((now + self._window_s, replicas))
        while len(wanted) > 1 and wanted[0][0] <= now:
            wanted.popleft()
        return wanted[0][1]


@dataclass(frozen=True, slots=True)
class RolePlan:
    """The plan of one role's replicas."""

    replicas: int
    ready: int
    by_load: int
    """The least number for present load."""
    by_forecast: int | None
    """The least number for the forecast. None before the first."""
    pressure: float
    """The present load's share of what the objective allows."""
    expected_ttft_s: float | None
    """Time to first token with the forecast's replicas and demand, at the objective's percentile."""
    expected_itl_s: float | None
    reachable: bool
    """Whether the profile can hold the objective with the largest fleet."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The plan of one model."""

    model: str
    roles: Mapping[PlannedRole, RolePlan]
    demand: TrafficDemand | None
    slowness: float

    def explain(self) -> dict[str, Any]:
        """Return JSON values; infinity is None."""
        return {
            "model": self.model,
            "roles": {role: _drop_infinite(asdict(plan)) for role, plan in self.roles.items()},
            "demand": None if self.demand is None else _drop_infinite(asdict(self.demand)),
            "slowness": self.slowness,
        }


class _RoleState:
    def __init__(self, role: PlannedRole, load: LoadMode, stabilizer: ScaleDownStabilizer) -> None:
        self.role = role
        self.load = load
        self.stabilizer = stabilizer
        self.need: ReplicaNeed | None = None


class ModelPlanner:
    """Plans one model. Call `update_plan` every `load_interval_s` with what happened since."""

    def __init__(self, name: str, config: PlannerConfig, forecast: Forecast, *, split: bool = False) -> None:
        """`split`: whether other replicas prefill than decode."""
        self.name = name
        self.split = split
        self._config = config
        self._model = model = config.for_model(name)
        self._capacity = CapacityModel(model.profile, model.objective)
        self._throughput = ThroughputMode(config, model, self._capacity, forecast)
        roles: tuple[PlannedRole, ...] = ("prefill", "decode") if split else ("any",)
        self._roles = [
            _RoleState(
                role,
                LoadMode(config, model, self._capacity),
                ScaleDownStabilizer(config.scale_down_patience_s),
            )
            for role in roles
        ]
        self._parts: list[TrafficWindow] = []
        """Windows of the present interval."""
        self._due: float | None = None

    def update_plan(
        self, now: float, traffic: TrafficWindow, fleets: Mapping[PlannedRole, RoleReplicas]
    ) -> ModelPlan:
        """Plan at `now`, given `traffic` since the last call and the present `fleets` by role."""
        self._parts.append(traffic)
        if self._due is None:
            self._due = now + self._config.interval_s - traffic.span_s
        if now >= self._due:
            self._due = now + self._config.interval_s
            first = self._roles[0].role
            demand = self._throughput.forecast_demand(self._parts, fleets[first].ready, first)
            self._parts = []
            if demand is not None:
                for each in self._roles:
                    each.need = self._throughput.find_need(demand, each.role)
        return ModelPlan(
            self.name,
            {each.role: self._plan_role(now, each, fleets[each.role]) for each in self._roles},
            self._throughput.demand,
            self._throughput.slowness,
        )

    def _plan_role(self, now: float, each: _RoleState, fleet: RoleReplicas) -> RolePlan:
        model, demand, need = self._model, self._throughput.demand, each.need
        by_load, pressure = each.load.plan_replicas(fleet, each.role, demand)
        # Before the first forecast it is unknown which replicas may be removed.
        floor = need.replicas if need is not None else fleet.ready + fleet.starting
        wanted = min(model.max_replicas, max(model.min_replicas, floor, by_load))
        return RolePlan(
            replicas=each.stabilizer.stabilize(now, wanted),
            ready=fleet.ready,
            by_load=by_load,
            by_forecast=None if need is None else need.replicas,
            pressure=pressure,
            expected_ttft_s=None if need is None else need.expected.ttft_s,
            expected_itl_s=None if need is None else need.expected.itl_s,
            reachable=need is None or need.reachable,
        )


def _drop_infinite(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in values.items()
    }

"""Plans one model's replicas from both scaling modes, stabilized. Pure; time is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from radixway.cluster.planner.capacity_model import CapacityModel, PlannedRole, ReplicaNeed
from radixway.cluster.planner.forecast import Forecast
from radixway.cluster.planner.scaling_modes import LoadMode, RoleReplicas, ScaleDownStabilizer, ThroughputMode
from radixway.cluster.planner.traffic_window import TrafficDemand, TrafficWindow
from radixway.core.config.scale import PlannerConfig


@dataclass(frozen=True, slots=True)
class RolePlan:
    """For the replicas of one role."""

    replicas: int
    """Proposed."""
    ready: int
    """That can answer now."""
    by_load: int
    """What waits and runs now asks for, at least."""
    by_forecast: int | None
    """What the forecast needs: the floor. None before the first."""
    pressure: float
    """The present load's share of what the objective allows."""
    expected_ttft_s: float | None
    """With the forecast's replicas and demand, at the objective's percentile."""
    expected_itl_s: float | None
    reachable: bool
    """Whether the profile can hold the objective with as many replicas as there may be."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """For one model."""

    model: str
    roles: Mapping[PlannedRole, RolePlan]
    demand: TrafficDemand | None
    """Planned for."""
    slowness: float

    def explain(self) -> dict[str, Any]:
        """As JSON values; what is infinite is None."""
        return {
            "model": self.model,
            "roles": {role: _drop_infinite(asdict(plan)) for role, plan in self.roles.items()},
            "demand": None if self.demand is None else _drop_infinite(asdict(self.demand)),
            "slowness": self.slowness,
        }


class _RoleState:
    def __init__(self, role: PlannedRole, load: LoadMode, patience: ScaleDownStabilizer) -> None:
        self.role = role
        self.load = load
        self.patience = patience
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
        """Of the interval under way."""
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
        # Before the first forecast nobody knows what may be let go.
        floor = need.replicas if need is not None else fleet.ready + fleet.starting
        wanted = min(model.max_replicas, max(model.min_replicas, floor, by_load))
        return RolePlan(
            replicas=each.patience.stabilize(now, wanted),
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

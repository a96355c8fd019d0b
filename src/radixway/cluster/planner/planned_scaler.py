"""The planner among simulated engines: what it would have proposed for a trace, and what had become of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from radixway.cluster.planner.forecast import Forecast
from radixway.cluster.planner.model_planner import ModelPlan, ModelPlanner
from radixway.cluster.planner.service import count_replicas
from radixway.cluster.planner.traffic_window import TrafficWindow
from radixway.core.config.scale import ObjectiveConfig, PlannerConfig, ProfileConfig
from radixway.routing import Worker
from radixway.routing.simulator import EngineConstants
from radixway.routing.simulator.elastic_simulation import ElasticOutcome, ServedRequest
from radixway.routing.simulator.outcome_figures import nearest_rank_percentile


class PlannedScaler:
    """A `ReplicaScaler` that does what the planner proposes."""

    def __init__(self, config: PlannerConfig, forecast: Forecast, model: str = "default") -> None:
        self.every_s = config.load_interval_s
        self.plans: list[tuple[float, ModelPlan]] = []
        self._planner = ModelPlanner(model, config, forecast)
        self._traffic = TrafficWindow()
        self._looked_at = 0.0

    def on_arrival(self) -> None:
        """Record an arrival (see `ReplicaScaler`, like the next three)."""
        self._traffic.on_arrival()

    def on_placed(self, prompt_tokens: int, uncached_tokens: int) -> None:
        self._traffic.on_placed(prompt_tokens, uncached_tokens)

    def on_first_token(self, ttft_s: float) -> None:
        self._traffic.on_first_token(ttft_s)

    def on_finished(self, output_tokens: int, decode_s: float) -> None:
        self._traffic.on_finished(output_tokens, decode_s)

    def decide_replicas(self, now: float, ready: Sequence[Worker], starting: int) -> int:
        """As planned."""
        traffic, self._traffic = self._traffic, TrafficWindow()
        traffic.span_s, self._looked_at = now - self._looked_at, now
        fleet = replace(count_replicas(ready, now), starting=starting)
        plan = self._planner.update_plan(now, traffic, {"any": fleet})
        self.plans.append((now, plan))
        return plan.roles["any"].replicas


@dataclass(frozen=True, slots=True)
class ObjectiveAttainment:
    """Windows, by time of arrival, in which an objective was held."""

    windows: int
    held: int
    replica_hours: float

    @property
    def attained_share(self) -> float:
        """Of windows in which it was held; 1 where there was none."""
        return self.held / self.windows if self.windows else 1.0


def measure_attainment(
    growth: ElasticOutcome, objective: ObjectiveConfig, window_s: float
) -> ObjectiveAttainment:
    """In how many windows with requests the objective was held."""
    held = attained_windows(growth, objective, window_s)
    return ObjectiveAttainment(len(held), sum(held.values()), growth.replica_s / 3600)


def attained_windows(growth: ElasticOutcome, objective: ObjectiveConfig, window_s: float) -> dict[int, bool]:
    """By number of each window with requests: whether the objective was held."""
    windows: dict[int, list[ServedRequest]] = {}
    for served in growth.served:
        windows.setdefault(int(served.arrived // window_s), []).append(served)
    return {number: _is_attained(window, objective) for number, window in windows.items()}


def to_engine_constants(profile: ProfileConfig) -> EngineConstants:
    """The simulated engine of which `profile` tells."""
    return EngineConstants(**profile.model_dump(exclude={"kv_tokens", "startup_s"}))


def _is_attained(window: Sequence[ServedRequest], objective: ObjectiveConfig) -> bool:
    ttft_s = nearest_rank_percentile(sorted(served.ttft_s for served in window), objective.ttft_percentile)
    itls = [served.itl_s for served in window if served.itl_s is not None]
    return (ttft_s or 0.0) <= objective.ttft_s and (not itls or sum(itls) / len(itls) <= objective.itl_s)

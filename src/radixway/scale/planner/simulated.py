"""The planner among simulated engines: what it would have proposed for a trace, and what had become of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from radixway.config.planner import ObjectiveSection, PlannerSection, ProfileSection
from radixway.routing import Worker
from radixway.scale.planner.forecast import Forecast
from radixway.scale.planner.planner import ModelPlanner, Plan
from radixway.scale.planner.room import fleet_of
from radixway.scale.planner.traffic import Traffic
from radixway.simulate import EngineConstants
from radixway.simulate.elastic import Growth, Served
from radixway.simulate.figures import percentile


class PlannedScaler:
    """A `Scaler` that does what the planner proposes."""

    def __init__(self, config: PlannerSection, forecast: Forecast, model: str = "default") -> None:
        self.every_s = config.load_interval_s
        self.plans: list[tuple[float, Plan]] = []
        self._planner = ModelPlanner(model, config, forecast)
        self._traffic = Traffic()
        self._looked_at = 0.0

    def came(self) -> None:
        """See `Scaler`, like the next three."""
        self._traffic.came()

    def placed(self, prompt_tokens: int, uncached_tokens: int) -> None:
        self._traffic.placed(prompt_tokens, uncached_tokens)

    def first_token(self, ttft_s: float) -> None:
        self._traffic.first_token(ttft_s)

    def ended(self, output_tokens: int, decode_s: float) -> None:
        self._traffic.ended(output_tokens, decode_s)

    def decide(self, now: float, ready: Sequence[Worker], starting: int) -> int:
        """As planned."""
        traffic, self._traffic = self._traffic, Traffic()
        traffic.span_s, self._looked_at = now - self._looked_at, now
        fleet = replace(fleet_of(ready, now), starting=starting)
        plan = self._planner.look(now, traffic, {"any": fleet})
        self.plans.append((now, plan))
        return plan.roles["any"].replicas


@dataclass(frozen=True, slots=True)
class Kept:
    """How an objective was kept, by windows of the time of arrival."""

    windows: int
    held: int
    replica_hours: float

    @property
    def share(self) -> float:
        """Of windows in which it was held; 1 where there was none."""
        return self.held / self.windows if self.windows else 1.0


def kept(growth: Growth, objective: ObjectiveSection, window_s: float) -> Kept:
    """In how many windows with requests the objective was held."""
    held = holds(growth, objective, window_s)
    return Kept(len(held), sum(held.values()), growth.replica_s / 3600)


def holds(growth: Growth, objective: ObjectiveSection, window_s: float) -> dict[int, bool]:
    """By number of each window with requests: whether the objective was held."""
    windows: dict[int, list[Served]] = {}
    for served in growth.served:
        windows.setdefault(int(served.arrived // window_s), []).append(served)
    return {number: _holds(window, objective) for number, window in windows.items()}


def constants_of(profile: ProfileSection) -> EngineConstants:
    """The simulated engine of which `profile` tells."""
    return EngineConstants(**profile.model_dump(exclude={"kv_tokens", "startup_s"}))


def _holds(window: Sequence[Served], objective: ObjectiveSection) -> bool:
    ttft_s = percentile(sorted(served.ttft_s for served in window), objective.ttft_percentile)
    itls = [served.itl_s for served in window if served.itl_s is not None]
    return (ttft_s or 0.0) <= objective.ttft_s and (not itls or sum(itls) / len(itls) <= objective.itl_s)

"""`radixway plan --trace`: replays recorded traffic against the planner's proposals."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from radixway.cluster.planner.elastic_simulation import ElasticOutcome, ElasticSimulation, ServedRequest
from radixway.cluster.planner.forecast import Forecast, find_forecast
from radixway.cluster.planner.model_planner import ModelPlan, ModelPlanner
from radixway.cluster.planner.service import count_replicas
from radixway.cluster.planner.traffic_window import TrafficWindow
from radixway.core.config import Config
from radixway.core.config.scale import ObjectiveConfig, PlannerConfig, ProfileConfig
from radixway.core.telemetry.terminal import FittedTable, TableColumn
from radixway.routing import Worker
from radixway.routing.simulator import (
    EngineConstants,
    RequestTrace,
    SimulationSettings,
    read_trace,
)
from radixway.routing.simulator.report import format_number, nearest_rank_percentile


class PlannedScaler:
    """A `ReplicaScaler` that does what the planner proposes."""

    def __init__(self, config: PlannerConfig, forecast: Forecast, model: str = "default") -> None:
        self.every_s = config.load_interval_s
        self.plans: list[tuple[float, ModelPlan]] = []
        self._planner = ModelPlanner(model, config, forecast)
        self.traffic = TrafficWindow()
        self._looked_at = 0.0

    def decide_replicas(self, now: float, ready: Sequence[Worker], starting: int) -> int:
        """Return the planned replicas."""
        traffic, self.traffic = self.traffic, TrafficWindow()
        traffic.span_s, self._looked_at = now - self._looked_at, now
        fleet = replace(count_replicas(ready, now), starting=starting)
        plan = self._planner.update_plan(now, traffic, {"any": fleet})
        self.plans.append((now, plan))
        return plan.roles["any"].replicas


@dataclass(frozen=True, slots=True)
class ObjectiveAttainment:
    """Windows, by time of arrival, in which an objective was held."""

    windows: int
    attained: int
    replica_hours: float

    @property
    def attained_share(self) -> float:
        """Return the share of windows in which it was held; 1 without any."""
        return self.attained / self.windows if self.windows else 1.0


def measure_attainment(
    growth: ElasticOutcome, objective: ObjectiveConfig, window_s: float
) -> ObjectiveAttainment:
    """Return the share of windows with requests in which the objective was held."""
    attained = attained_windows(growth, objective, window_s)
    return ObjectiveAttainment(len(attained), sum(attained.values()), growth.replica_s / 3600)


def attained_windows(growth: ElasticOutcome, objective: ObjectiveConfig, window_s: float) -> dict[int, bool]:
    """Return, by number of each window with requests, whether the objective was held."""
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


_UNBOUNDED_KV_TOKENS = 10**9
_MAX_PLAN_STEPS = 500_000
"""Steps of a planner on one trace: some minutes of computing."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of the command line."""

    trace: Path
    model: str
    """The model whose objective and profile apply."""
    start: int
    speedup: float
    window_s: float
    """The objective is judged by windows of so many seconds."""
    json: Path | None


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Results of a dry run."""

    plans: list[tuple[float, ModelPlan]]
    attainment: ObjectiveAttainment
    seconds: float
    max_replicas: int

    @property
    def mean_replicas(self) -> float:
        """Over the whole time."""
        return self.attainment.replica_hours * 3600 / self.seconds if self.seconds else 0.0


def run_dry_run(order: PlanOptions, config: Config, out: Console) -> None:
    """Carry out `order`: a table to `out`, and a file. Raises ValueError, ConfigError."""
    section = config.scale.planner or PlannerConfig()
    trace = read_trace(order.trace)
    done = replay_trace(trace, section, order, config)
    out.print(_dry_run_headline(order, section, trace, done), soft_wrap=True)
    _plans_table(section, done).print_to(out)
    if order.json is not None:
        try:
            order.json.write_bytes(
                msgspec.json.format(msgspec.json.encode(build_report(order, section, done)))
            )
        except OSError as error:
            raise ValueError(f"cannot write {error.filename}: {error.strerror}") from None


def replay_trace(
    trace: RequestTrace, section: PlannerConfig, order: PlanOptions, config: Config
) -> DryRunResult:
    """The trace against simulated engines of the model's profile, as many as the planner proposes.

    Raises ValueError for what cannot be simulated, ConfigError for a forecast whose package is missing.
    """
    planned = section.for_model(order.model)
    profile = planned.profile
    seconds = trace.requests[-1].at / order.speedup if order.speedup > 0 else 0.0
    if seconds / section.load_interval_s > _MAX_PLAN_STEPS:
        raise ValueError(
            f"{order.trace} takes {seconds:.3g} s, too long to look at every {section.load_interval_s:g} s:"
            " timestamps are milliseconds since the trace began"
        )
    setting = SimulationSettings(
        workers=order.start,
        kv_tokens=profile.kv_tokens or _UNBOUNDED_KV_TOKENS,
        speedup=order.speedup,
        constants=to_engine_constants(profile),
    )
    scaler = PlannedScaler(section, find_forecast(section.forecast), order.model)
    growth = ElasticSimulation(trace, config.routing.policy, setting, scaler, profile.startup_s).run_elastic()
    attainment = measure_attainment(growth, planned.objective, order.window_s)
    return DryRunResult(scaler.plans, attainment, seconds, growth.max_replicas)


def build_report(order: PlanOptions, section: PlannerConfig, done: DryRunResult) -> dict[str, Any]:
    """Return the whole report as JSON."""
    attainment = done.attainment
    return {
        "trace": order.trace.name,
        "model": order.model,
        "objective": section.for_model(order.model).objective.model_dump(),
        "windows": {"seconds": order.window_s, "all": attainment.windows, "held": attainment.attained},
        "replicas": {
            "mean": done.mean_replicas,
            "most": done.max_replicas,
            "replica_hours": attainment.replica_hours,
        },
        "plans": [{"at_s": round(at, 3)} | plan.explain() for at, plan in done.plans],
        "profile": asdict(to_engine_constants(section.for_model(order.model).profile)),
    }


def _dry_run_headline(
    order: PlanOptions, section: PlannerConfig, trace: RequestTrace, done: DryRunResult
) -> str:
    objective, attainment = section.for_model(order.model).objective, done.attainment
    return (
        f"{order.trace.name}: {len(trace.requests)} requests in {done.seconds:.0f} s; first token within "
        f"{objective.ttft_s:g} s for {objective.ttft_percentile:.0%}, {objective.itl_s * 1e3:g} ms between "
        f"tokens: held in {attainment.attained} of {attainment.windows} windows of {order.window_s:g} s with "
        f"{done.mean_replicas:.2f} replicas on average, {done.max_replicas} at most"
    )


def _plans_table(section: PlannerConfig, done: DryRunResult) -> FittedTable:
    figures = ("replicas", "by load", "by forecast", "pressure", "requests/s", "TTFT", "ITL")
    table = FittedTable(TableColumn("from s"), *(TableColumn(name, is_number=True) for name in figures))
    before: float | None = None
    for at, plan in done.plans:
        if before is not None and at - before < section.interval_s:
            continue
        before = at
        role = plan.roles["any"]
        rate = None if plan.demand is None else plan.demand.requests_per_s
        table.add_row(
            f"{at:.0f}",
            str(role.replicas),
            str(role.by_load),
            "–" if role.by_forecast is None else str(role.by_forecast),
            f"{role.pressure:.2f}",
            format_number(rate, "{:.2f}"),
            format_number(role.expected_ttft_s, "{:.2f} s"),
            format_number(role.expected_itl_s, "{:.4f} s"),
        )
    return table

"""`radixway plan --trace`: replays recorded traffic against the planner's proposals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from radixway.cluster.planner.forecast import find_forecast
from radixway.cluster.planner.model_planner import ModelPlan
from radixway.cluster.planner.planned_scaler import (
    ObjectiveAttainment,
    PlannedScaler,
    measure_attainment,
    to_engine_constants,
)
from radixway.core.config import Config, ConfigError, PlannerConfig
from radixway.core.telemetry.terminal import FittedTable, TableColumn
from radixway.routing.simulator import RequestTrace, SimulationSettings, TraceError, read_trace
from radixway.routing.simulator.elastic_simulation import ElasticSimulation

_UNBOUNDED_KV_TOKENS = 10**9
_MAX_PLAN_STEPS = 500_000
"""Of a planner at one trace: some minutes of computing."""


class PlanCommandError(Exception):
    """The command cannot do what it was asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of the command line."""

    trace: Path
    model: str
    """Whose objective and profile hold."""
    start: int
    """Replicas to begin with."""
    speedup: float
    window_s: float
    """The objective is judged by windows of so many seconds."""
    json: Path | None


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Results of a dry run."""

    plans: list[tuple[float, ModelPlan]]
    kept: ObjectiveAttainment
    seconds: float
    most: int

    @property
    def mean_replicas(self) -> float:
        """Over the whole time."""
        return self.kept.replica_hours * 3600 / self.seconds if self.seconds else 0.0


def run_dry_run(order: PlanOptions, config: Config, out: Console) -> None:
    """Carry out `order`: a table to `out`, and a file. Raises PlanCommandError."""
    section = config.scale.planner or PlannerConfig()
    try:
        trace = read_trace(order.trace)
        done = replay_trace(trace, section, order, config)
    except (TraceError, ValueError, ConfigError) as error:
        raise PlanCommandError(str(error)) from None
    out.print(_dry_run_headline(order, section, trace, done), soft_wrap=True)
    _plans_table(section, done).print_to(out)
    if order.json is not None:
        try:
            order.json.write_bytes(
                msgspec.json.format(msgspec.json.encode(build_report(order, section, done)))
            )
        except OSError as error:
            raise PlanCommandError(f"cannot write {error.filename}: {error.strerror}") from None


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
    return DryRunResult(
        scaler.plans, measure_attainment(growth, planned.objective, order.window_s), seconds, growth.most
    )


def build_report(order: PlanOptions, section: PlannerConfig, done: DryRunResult) -> dict[str, Any]:
    """All of it for a machine."""
    return {
        "trace": order.trace.name,
        "model": order.model,
        "objective": section.for_model(order.model).objective.model_dump(),
        "windows": {"seconds": order.window_s, "all": done.kept.windows, "held": done.kept.held},
        "replicas": {
            "mean": done.mean_replicas,
            "most": done.most,
            "replica_hours": done.kept.replica_hours,
        },
        "plans": [{"at_s": round(at, 3)} | plan.explain() for at, plan in done.plans],
        "profile": asdict(to_engine_constants(section.for_model(order.model).profile)),
    }


def _dry_run_headline(
    order: PlanOptions, section: PlannerConfig, trace: RequestTrace, done: DryRunResult
) -> str:
    objective = section.for_model(order.model).objective
    return (
        f"{order.trace.name}: {len(trace.requests)} requests in {done.seconds:.0f} s; first token within "
        f"{objective.ttft_s:g} s for {objective.ttft_percentile:.0%}, {objective.itl_s * 1e3:g} ms between "
        f"tokens: held in {done.kept.held} of {done.kept.windows} windows of {order.window_s:g} s with "
        f"{done.mean_replicas:.2f} replicas on average, {done.most} at most"
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
            _format_number(rate, "{:.2f}"),
            _format_number(role.expected_ttft_s, "{:.2f} s"),
            _format_number(role.expected_itl_s, "{:.4f} s"),
        )
    return table


def _format_number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)

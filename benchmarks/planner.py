"""Whether a fleet that follows the planner keeps its objective, and what that saves against a fixed one.

    python benchmarks/planner.py TRACE [--azure FILE.csv] [--shape flat,day] [--set KEY=VALUE,…] [--quick]

A simulation: a trace replayed against modelled engines (`simulate/`), which take 60 s to start, cost from
being asked for, and drain before they go. The planner sees what a gateway sees, when it sees it, and nothing
of the future. A window (60 s of arrivals) holds its objective when the percentile of its times to first token
and the mean of its times between tokens are within it.

- *fixed*: the smallest fleet of constant size that holds the objective in every window, found by trying all.
  Nobody can know it beforehand.
- *sized*: what the closed form asks for the busiest window, nothing cached: what a constant fleet is bought
  by. The planner begins with as many.
- *needed*: the mean over windows of the smallest constant fleet that holds each one: a bound for whoever
  knows the future.

`flat` is the trace as it is. `day` lets its requests come in the same order at a rate that swings between
0.25 and 1.75 of its mean: from the trough to the peak and back in an hour, which is harder than in a day.
`--azure` adds a trace of Azure's (CSV; lengths and times of another service, nothing cached).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from radixway.cluster.planner.capacity_model import CapacityModel
from radixway.cluster.planner.dry_run import (
    ObjectiveAttainment,
    PlannedScaler,
    attained_windows,
    measure_attainment,
    to_engine_constants,
)
from radixway.cluster.planner.elastic_simulation import ElasticOutcome, ElasticSimulation
from radixway.cluster.planner.forecast import find_forecast
from radixway.cluster.planner.traffic_window import TrafficWindow, estimate_demand
from radixway.core.config import PlannerConfig, ProfileConfig, parse_policy
from radixway.core.config.scale import ObjectiveConfig
from radixway.routing.simulator import RequestTrace, SimulationSettings, read_trace
from radixway.routing.simulator.trace import TraceRequest
from report import print_table, write_json

WINDOW_S = 60.0
MOST = 14
KV_TOKENS = 2_000_000
OBJECTIVES = (
    ObjectiveConfig(ttft_s=5.0, ttft_percentile=0.95, itl_s=0.05),
    ObjectiveConfig(ttft_s=4.0, ttft_percentile=0.9, itl_s=0.05),
)
VARIANTS: dict[str, dict[str, float | str]] = {
    "every 180 s": {"interval_s": 180.0, "scale_down_patience_s": 180.0},
    "every 60 s": {"interval_s": 60.0, "scale_down_patience_s": 120.0},
    "60 s, share 0.95": {"interval_s": 60.0, "scale_down_patience_s": 180.0, "forecast_share": 0.95},
    "60 s, no load mode": {
        "interval_s": 60.0,
        "scale_down_patience_s": 120.0,
        "least_utilization": 0.999,
        "most_utilization": 1e9,
    },
}
"""How often is forecast, and what differs from the planner's defaults."""


@dataclass(frozen=True, slots=True)
class Row:
    """One planner on one trace with one objective."""

    trace: str
    objective: str
    variant: str
    held: float
    """Share of windows."""
    replicas: float
    """On average."""
    most: int
    fixed: int | None
    sized: int
    needed: float | None

    @property
    def of_fixed(self) -> float | None:
        return None if self.fixed is None else self.replicas / self.fixed

    @property
    def of_sized(self) -> float:
        return self.replicas / self.sized


class Constant:
    """A scaler that scales nothing."""

    every_s = 60.0

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self.traffic = TrafficWindow()

    def decide_replicas(self, now: float, ready: Sequence[object], starting: int) -> int:
        return self._replicas


def grow(trace: RequestTrace, scaler: object, workers: int, profile: ProfileConfig) -> ElasticOutcome:
    setting = SimulationSettings(workers=workers, kv_tokens=KV_TOKENS, constants=to_engine_constants(profile))
    policy = parse_policy("expected_time")
    return ElasticSimulation(trace, policy, setting, scaler, profile.startup_s).run_elastic()


def fixed_fleet(trace: RequestTrace, replicas: int) -> ElasticOutcome:
    return grow(trace, Constant(replicas), replicas, ProfileConfig())


def planned(trace: RequestTrace, config: PlannerConfig, start: int) -> ElasticOutcome:
    return grow(trace, PlannedScaler(config, find_forecast(config.forecast)), start, config.profile)


def parse_keys(text: str) -> dict[str, float | str]:
    """`interval_s=60,forecast=holt` as keys of `scale.planner`."""
    pairs = (part.partition("=") for part in text.split(","))
    return {key.strip(): value.strip() for key, _, value in pairs}


def smallest(fleets: Sequence[ElasticOutcome], objective: ObjectiveConfig) -> tuple[int | None, float | None]:
    """The smallest of the fleets that holds the objective everywhere, and the mean of those per window."""
    by_fleet = [attained_windows(growth, objective, WINDOW_S) for growth in fleets]
    fixed = next((at for at, held in enumerate(by_fleet, 1) if all(held.values())), None)
    if fixed is None:
        return None, None
    windows = by_fleet[0].keys()
    least = [next(at for at, held in enumerate(by_fleet, 1) if held[window]) for window in windows]
    return fixed, sum(least) / len(least)


def sized(trace: RequestTrace, objective: ObjectiveConfig) -> int:
    """Replicas that the closed form asks for the busiest window, nothing cached."""
    windows: dict[int, TrafficWindow] = {}
    for request in trace.requests:
        window = windows.setdefault(int(request.at // WINDOW_S), TrafficWindow(WINDOW_S))
        window.on_arrival()
        window.on_placed(request.input_tokens, request.input_tokens)
        window.on_finished(request.output_tokens, None)
    capacity = CapacityModel(ProfileConfig(kv_tokens=KV_TOKENS), objective)
    demands = [estimate_demand([window], objective.ttft_percentile) for window in windows.values()]
    return max(capacity.find_need(each, "any", 1, MOST * 4).replicas for each in demands if each is not None)


def day(trace: RequestTrace, depth: float = 0.75) -> RequestTrace:
    """The same requests at a rate of `1 - depth · cos`, one turn over the trace's time."""
    whole = trace.requests[-1].at

    def warped(share: float) -> float:
        """When that share of all has come: the inverse of share = t - depth / 2π · sin 2πt."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            if middle - depth * math.sin(2 * math.pi * middle) / (2 * math.pi) < share:
                low = middle
            else:
                high = middle
        return low

    later = [replace(request, at=whole * warped(request.at / whole)) for request in trace.requests]
    return replace(trace, requests=later)


def read_azure(path: Path) -> RequestTrace:
    """Azure's columns TIMESTAMP, ContextTokens, GeneratedTokens (Splitwise, ISCA 2024; CC-BY 4.0)."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        rows = [(datetime.fromisoformat(row["TIMESTAMP"][:26]), row) for row in csv.DictReader(file)]
    return RequestTrace(
        [
            TraceRequest(
                (at - rows[0][0]).total_seconds(),
                max(1, int(row["ContextTokens"])),
                max(1, int(row["GeneratedTokens"])),
                (),
            )
            for at, row in rows
        ],
        512,
    )


def rows_of(
    name: str,
    trace: RequestTrace,
    objectives: Sequence[ObjectiveConfig],
    variants: Mapping[str, Mapping[str, float | str]],
    pool: ProcessPoolExecutor,
) -> list[Row]:
    fleets = list(pool.map(partial(fixed_fleet, trace), range(1, MOST + 1)))
    show_constant(name, fleets, objectives)
    asked, runs = [], []
    for objective in objectives:
        start = min(MOST, sized(trace, objective))
        for variant, keys in variants.items():
            config = PlannerConfig(**{"objective": objective, "max_replicas": MOST, **keys})
            asked.append((objective, variant, start))
            runs.append(pool.submit(planned, trace, config, start))
    rows = []
    for (objective, variant, start), run in zip(asked, runs, strict=True):
        growth = run.result()
        done: ObjectiveAttainment = measure_attainment(growth, objective, WINDOW_S)
        fixed, needed = smallest(fleets, objective)
        replicas = done.replica_hours * 3600 / trace.requests[-1].at
        rows.append(
            Row(
                name,
                words(objective),
                variant,
                done.attained_share,
                replicas,
                growth.most,
                fixed,
                start,
                needed,
            )
        )
    return rows


def words(objective: ObjectiveConfig) -> str:
    return f"p{objective.ttft_percentile * 100:.0f} {objective.ttft_s:g} s, {objective.itl_s * 1e3:g} ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, help="in Mooncake's format, `.gz` or not")
    parser.add_argument("--azure", type=Path, action="append", default=[], help="more than once for several")
    parser.add_argument("--shape", default="flat,day")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE,…", help="one more planner: keys that differ"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes; they change nothing")
    parser.add_argument("--quick", action="store_true", help="one objective, a third of the trace")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    began = time.process_time()
    whole = read_trace(given.trace)
    if given.quick:
        whole = replace(whole, requests=whole.requests[:4000])
    shapes = {"flat": lambda trace: trace, "day": day}
    traces = {f"{shape}": shapes[shape](whole) for shape in given.shape.split(",")}
    traces |= {path.name.split(".")[0]: read_azure(path) for path in given.azure}
    objectives = OBJECTIVES[:1] if given.quick else OBJECTIVES
    variants = VARIANTS | {text: parse_keys(text) for text in given.set}
    rows: list[Row] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for name, trace in traces.items():
            rows += rows_of(name, trace, objectives, variants, pool)
            show(rows[-len(objectives) * len(variants) :])
    if given.json is not None:
        figures = [asdict(row) | {"of_fixed": row.of_fixed, "of_sized": row.of_sized} for row in rows]
        write_json(given.json, {"rows": figures, "cpu_s": time.process_time() - began})


def show_constant(name: str, fleets: Sequence[ElasticOutcome], objectives: Sequence[ObjectiveConfig]) -> None:
    print_table(
        f"{name}: windows held % by constant fleets",
        ("objective", *(str(count) for count in range(1, MOST + 1))),
        [
            (
                words(each),
                *(
                    f"{100 * measure_attainment(growth, each, WINDOW_S).attained_share:.1f}"
                    for growth in fleets
                ),
            )
            for each in objectives
        ],
    )


def show(rows: Sequence[Row]) -> None:
    columns = (
        *("objective", "planner", "windows held %", "replicas", "most"),
        *("fixed", "of fixed", "sized", "of sized", "needed"),
    )
    print_table(
        f"{rows[0].trace}: windows of {WINDOW_S:g} s",
        columns,
        [
            (
                *(row.objective, row.variant, 100 * row.held, row.replicas, row.most),
                *(row.fixed, row.of_fixed, row.sized, row.of_sized, row.needed),
            )
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()

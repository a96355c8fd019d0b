"""What changes with the number of workers and of gateways, at the same load for each worker.

    python benchmarks/scale.py TRACE [--workers 1,10,100,1000] [--gateways 1,4,8] [--quick] [--json FILE]

A simulation, as `radixway simulate` runs it: the trace is replayed so many times faster as there are workers
(0.2 for each: `docs/routing.md` has 1.6 for eight), each with 2 M KV tokens. Arrivals are spread over three
seconds, to which Mooncake's traces know them, at the trace's own speed. `requests/s` is what arrives then.
*choice* is measured, not simulated: CPU time of `Selector.select_worker`, reserving and releasing, among as
many busy
workers. The second table has the most workers behind several gateways, which hear of each other's load after
10 ms, or never.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path

from gateways import figures, spread
from radixway.core.config import parse_policy
from radixway.routing.simulator import RequestTrace, SimulationFigures, SimulationSettings, read_trace
from report import print_table, write_json
from selector import pick_times

PER_WORKER = 0.2
SPREAD_S = 3.0
POLICIES = ("expected_time", "round_robin")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, help="in Mooncake's format, `.gz` or not")
    parser.add_argument("--workers", default="1,10,100,1000")
    parser.add_argument("--gateways", default="1,4,8")
    parser.add_argument("--quick", action="store_true", help="the first 2,000 requests")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    trace = read_trace(given.trace)
    if given.quick:
        trace = replace(trace, requests=trace.requests[:2000])
    trace = spread(trace, SPREAD_S)
    counts = [int(count) for count in given.workers.split(",")]
    told: dict[str, object] = {"workers": grown(trace, counts), "gateways": []}
    told["gateways"] = behind(trace, max(counts), [int(count) for count in given.gateways.split(",")])
    if given.json is not None:
        write_json(given.json, told)


def grown(trace: RequestTrace, counts: list[int]) -> list[dict[str, object]]:
    """More workers, and as much more load."""
    found, rows = [], []
    for count in counts:
        choice_us = pick_times(count, "expected_time", 5)["pick_us"]
        for name in POLICIES:
            of = figures(trace, parse_policy(name), setting(count))
            chosen = choice_us if name == "expected_time" else float("nan")
            rows.append((f"{count:,}", name, rate(trace, count), chosen, *shown(of)))
            found.append({"workers": count, "policy": name, "pick_us": choice_us} | asdict(of))
    columns = ("workers", "policy", "requests/s", "choice µs", "TTFT mean s", "p99 s", "hits %", "imbalance")
    print_table(f"{len(trace.requests):,} requests", columns, rows)
    return found


def behind(trace: RequestTrace, workers: int, gateways: list[int]) -> list[dict[str, object]]:
    """The same workers behind several gateways."""
    found, rows = [], []
    for count in gateways:
        for sync_s in (0.01, None) if count > 1 else (None,):
            at = replace(setting(workers), gateways=count, sync_delay_s=sync_s)
            of = figures(trace, parse_policy("expected_time"), at)
            rows.append((count, "" if count == 1 else "none" if sync_s is None else "10 ms", *shown(of)))
            found.append({"gateways": count, "sync_delay_s": sync_s} | asdict(of))
    columns = ("gateways", "sync", "TTFT mean s", "p99 s", "hits %", "imbalance")
    print_table(f"{workers:,} workers behind several gateways, expected_time", columns, rows)
    return found


def setting(workers: int) -> SimulationSettings:
    return SimulationSettings(workers=workers, speedup=PER_WORKER * workers)


def rate(trace: RequestTrace, workers: int) -> float:
    lasts_s = trace.requests[-1].at - trace.requests[0].at
    return len(trace.requests) / lasts_s * PER_WORKER * workers


def shown(of: SimulationFigures) -> tuple[object, ...]:
    return of.ttft_mean_s, of.ttft_p99_s, 100 * (of.hit_rate or 0.0), of.imbalance


if __name__ == "__main__":
    main()

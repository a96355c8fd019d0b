"""What several gateways in front of the same workers cost, without and with telling each other their load.

    python benchmarks/gateways.py TRACE [--policy P] [--gateways 2,4] [--spread S] [--no-events]
                                  [--quick] [--json FILE]

A simulation, as `radixway simulate` runs it: a trace replayed against modelled engines (8 workers of 2 M KV
tokens, speed-up 1.6), requests dealt to the gateways in turn, each with a selector of its own. All hear the
workers' KV events after 10 ms; `sync` is how late each hears of what the others have in hand.

Mooncake's traces know arrivals to three seconds: ten requests come in one instant, in which nobody can hear
of anybody. So each is put at random (seeded) into the `--spread` seconds after its time, the same in all
rows; `--spread 0` leaves the bursts as they are.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import asdict, replace
from pathlib import Path

from radixway.core.config import AnyPolicy, parse_policy
from radixway.routing.simulator import (
    RequestTrace,
    SimulationFigures,
    SimulationSettings,
    compute_figures,
    read_trace,
)
from radixway.routing.simulator.simulation import TraceSimulation
from report import print_table, write_json

SYNC_S = (None, 0.1, 0.01, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, help="in Mooncake's format, `.gz` or not")
    parser.add_argument("--policy", type=parse_policy, action="append", help="more than once for several")
    parser.add_argument("--gateways", default="2,4")
    parser.add_argument("--spread", type=float, default=3.0, metavar="S")
    parser.add_argument("--no-events", action="store_true", help="gateways know only what they sent where")
    parser.add_argument("--quick", action="store_true", help="the first 2,000 requests")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    trace = read_trace(given.trace)
    if given.quick:
        trace = replace(trace, requests=trace.requests[:2000])
    trace = spread(trace, given.spread)
    base = SimulationSettings(speedup=1.6, events=not given.no_events)
    settings = [base] + [
        replace(base, gateways=int(count), sync_delay_s=sync_s)
        for count in given.gateways.split(",")
        for sync_s in SYNC_S
    ]
    told = {}
    for policy in given.policy or [parse_policy("expected_time")]:
        told[policy.name] = results = [figures(trace, policy, setting) for setting in settings]
        alone = results[0].ttft_mean_s or 1.0
        rows = [
            (
                str(setting.gateways),
                sync(setting),
                of.ttft_mean_s,
                (of.ttft_mean_s or 0.0) / alone,
                of.ttft_p99_s,
                100 * (of.hit_rate or 0.0),
                of.imbalance,
            )
            for setting, of in zip(settings, results, strict=True)
        ]
        columns = ("gateways", "sync", "TTFT mean s", "of one", "p99 s", "hits %", "imbalance")
        print_table(f"{policy.name}, {given.trace.name}, {len(trace.requests):,} requests", columns, rows)
    if given.json is not None:
        write_json(
            given.json,
            {
                name: [
                    {"gateways": setting.gateways, "sync_delay_s": setting.sync_delay_s} | asdict(of)
                    for setting, of in zip(settings, results, strict=True)
                ]
                for name, results in told.items()
            },
        )


def figures(trace: RequestTrace, policy: AnyPolicy, setting: SimulationSettings) -> SimulationFigures:
    return compute_figures(TraceSimulation(trace, policy, setting).run_trace())


def spread(trace: RequestTrace, seconds: float) -> RequestTrace:
    """Every request up to so many seconds later."""
    rng = random.Random(0)
    later = [replace(request, at=request.at + seconds * rng.random()) for request in trace.requests]
    return replace(trace, requests=sorted(later, key=lambda request: request.at))


def sync(setting: SimulationSettings) -> str:
    if setting.gateways == 1:
        return ""
    return "none" if setting.sync_delay_s is None else f"{setting.sync_delay_s * 1e3:.0f} ms"


if __name__ == "__main__":
    main()

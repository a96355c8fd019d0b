"""What each feature costs a request: gateways of the same tree that differ in one feature, side by side.

The base has everything off that can be: no log line, no journals, no traces, no tenants, no chats, no
console, `round_robin`. Each of the others switches one thing on. All get the same requests of 1 KB and the
same streams round by round, in changing order. What counts is the CPU time of the gateway's process, in each
round beside that of the base in the same round.

    python benchmarks/feature_costs.py                      some four minutes
    python benchmarks/feature_costs.py --quick              one, for a first look
    python benchmarks/feature_costs.py --only "log line" limits --rounds 25
    python benchmarks/feature_costs.py --json docs/measurements/features.json

base again      the base a second time: what differs between those two is noise
metrics         cannot be switched off: µs of one pipeline in one process with all of them, less without any
guard by forms  personal data that has a form and attacks in known words, without an encoder
trajectories    `/generate`, answers of 256 tokens with their log-probabilities, beside a gateway that proxies
everything      what is on by default
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import metrics
import tenants
import trajectory_http
from load import Load
from measured_gateways import Gateway, Work, fake_workers, measure_rounds, running
from peers import RADIXWAY, Target
from processes import stop
from report import MeasuredTable, write_measurement
from tracing import collector

BASE = "base"
MAX_SHARE = 0.08
"""Of the base's CPU time: the most that a feature should add which reads no text."""
_OFF = {
    "RADIXWAY__TELEMETRY__LOGS__REQUESTS": "false",
    "RADIXWAY__TELEMETRY__JOURNAL_CAPACITY": "0",
    "RADIXWAY__CHAT__ENABLED": "false",
    "RADIXWAY__CONSOLE__ENABLED": "false",
    "RADIXWAY__ROUTING__POLICY": "round_robin",
}
_ENCODER_THAT_IS_NOT_THERE = "/nowhere"
"""Without one the guard finds what has a form, and attacks in known words, and lets the rest pass."""


@dataclass(frozen=True)
class Feature:
    """One feature: the settings that switch it on, over those of the base."""

    name: str
    env: dict[str, str]
    reads_text: bool = False
    """It looks at prompts or answers, and may cost more."""
    over_defaults: bool = False
    """Its gateway has the defaults in place of the base's settings."""


def features(directory: Path, collector_url: str) -> list[Feature]:
    """The features that are switched on by configuration; `directory`: where usage is written."""
    sections = tenants.sections(directory)
    guard = {"pii": {"action": "report"}, "jailbreak": {"action": "report"}}
    traced = {
        "RADIXWAY__TELEMETRY__TRACING__ENDPOINT": collector_url,
        "RADIXWAY__TELEMETRY__TRACING__SAMPLE_RATIO": "0.01",
    }
    return [
        Feature("base again", {}),
        Feature("journal", {"RADIXWAY__TELEMETRY__JOURNAL_CAPACITY": "10000"}),
        Feature("log line", {"RADIXWAY__TELEMETRY__LOGS__REQUESTS": "true"}),
        Feature("traces, 1 %", traced),
        Feature("tenants counted", {"RADIXWAY__TENANTS": json.dumps(sections["counted"])}),
        Feature("keys and limits", {"RADIXWAY__TENANTS": json.dumps(sections["limited"])}),
        Feature("expected_time", {"RADIXWAY__ROUTING__POLICY": "expected_time"}, reads_text=True),
        Feature(
            "guard by forms",
            {
                "RADIXWAY__GUARD": json.dumps(guard),
                "RADIXWAY__ENCODERS__MODEL": _ENCODER_THAT_IS_NOT_THERE,
                "RADIXWAY__ENCODERS__PRELOAD": "false",
            },
            reads_text=True,
        ),
        Feature("everything", {}, reads_text=True, over_defaults=True),
    ]


def target(feature: Feature) -> Target:
    """The gateway of a feature. All are sent the same key, which only tenants read."""
    env = feature.env if feature.over_defaults else _OFF | feature.env
    return replace(RADIXWAY, name=feature.name, env=env, headers=tenants.target("", {}).headers)


@dataclass(frozen=True)
class Cost:
    """What a feature adds to a request."""

    name: str
    added_us: float
    share: float
    """Of the base's CPU time."""
    reads_text: bool
    stream_added_us: float | None = None
    stream_share: float | None = None
    note: str = ""

    def row(self) -> list[str | float | None]:
        """Its row of the table."""
        shares = [
            None if share is None else f"{100 * share:+.1f} %" for share in (self.share, self.stream_share)
        ]
        verdict = "reads text" if self.reads_text else "yes" if self.share <= MAX_SHARE else "no"
        return [self.name, self.added_us, shares[0], self.stream_added_us, shares[1], verdict]


def cost_of(feature: Feature, gateway: Gateway, base: Gateway) -> Cost:
    """What `gateway` took more than `base`, round by round."""
    added: list[float] = []
    for work in ("1 KB", "stream"):
        pairs = list(zip(gateway.cpu_s[work], base.cpu_s[work], strict=True))
        added.append(statistics.median(mine - other for mine, other in pairs) * 1e3)
        added.append(statistics.median(mine / other - 1 for mine, other in pairs))
    return Cost(feature.name, added[0], added[1], feature.reads_text, added[2], added[3])


def metrics_cost(base: Gateway, rounds: int) -> Cost:
    """What metrics add, measured in this process: µs of a pipeline with them less those of a bare one."""
    added: list[float] = []
    for stream in (False, True):
        found = asyncio.run(_metrics_us(rounds, stream=stream))
        added.append(found["measured"] - found["bare"])
    whole, stream_us = (statistics.median(base.cpu_s[work]) * 1e3 for work in ("1 KB", "stream"))
    shares = added[0] / whole, added[1] / stream_us
    return Cost("metrics", added[0], shares[0], False, added[1], shares[1], "in one process")


async def _metrics_us(rounds: int, *, stream: bool) -> dict[str, float]:
    pair = metrics.PipelinePair()
    gc.disable()
    try:
        return await metrics.least(
            {
                "bare": lambda: pair.exchange(pair.bare, lambda _: None, stream=stream),
                "measured": lambda: pair.exchange(pair.measured, pair.count, stream=stream),
            },
            rounds,
            5 if stream else 50,
        )
    finally:
        gc.enable()


def trajectories_cost(*, quick: bool) -> Cost:
    """What recording adds to a request on `/generate`, beside a gateway that proxies it."""
    told = trajectory_http.run(quick=quick, rounds=None)
    cpu_ms, times = told["cpu_ms"], told["times"]
    assert isinstance(cpu_ms, dict) and isinstance(times, float)
    return Cost("trajectories", cpu_ms["proxies"] * (times - 1) * 1e3, times - 1, True, note="/generate")


def measure(given: argparse.Namespace) -> tuple[list[Cost], Gateway, int]:
    """Run everything: the costs, the base, and how many rounds were measured."""
    works = [
        Work("1 KB", given.requests, given.connections, 1024),
        Work("stream", given.requests // 8, given.connections, 1024, stream=True),
    ]
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-features-")))
        every = features(directory, stack.enter_context(collector()))
        chosen = [feature for feature in every if not given.only or feature.name in given.only]
        workers = stack.enter_context(fake_workers(2, 4.0))
        load = Load()
        stack.callback(stop, load.process)
        gateways = [
            stack.enter_context(running(target(feature), workers, directory))
            for feature in [Feature(BASE, {}), *chosen]
        ]
        rounds = measure_rounds(gateways, works, load, given.rounds, 3600.0)
    if fault := next((f"{each.name}: {each.fault}" for each in gateways if each.fault), None):
        raise SystemExit(f"benchmarks/feature_costs.py: {fault}")
    base, *others = gateways
    costs = [cost_of(feature, gateway, base) for feature, gateway in zip(chosen, others, strict=True)]
    if not given.only or "metrics" in given.only:
        costs.insert(1, metrics_cost(base, 200 if given.quick else 800))
    if not given.only or "trajectories" in given.only:
        costs.append(trajectories_cost(quick=given.quick))
    return costs, base, rounds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, help="of 1 KB a round; an eighth as many streams")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--quick", action="store_true", help="fewer requests and rounds")
    parser.add_argument("--only", nargs="+", metavar="FEATURE", help="these alone, beside the base")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a measurement there")
    parser.add_argument("--note", default="", help="what else is to be known of the run, a sentence")
    given = parser.parse_args()
    given.requests = given.requests or (400 if given.quick else 800)
    given.rounds = given.rounds or (5 if given.quick else 15)
    costs, base, rounds = measure(given)
    whole, stream = (statistics.median(base.cpu_s[work]) * 1e3 for work in ("1 KB", "stream"))
    columns = ["feature", "1 KB: + µs", "of the base", "stream: + µs", "of the base", f"≤ {MAX_SHARE:.0%}"]
    table = MeasuredTable(columns, [[BASE, whole, None, stream, None, None], *(cost.row() for cost in costs)])
    table.print(f"CPU time that features add to a request; median of {rounds} rounds")
    if given.json is not None:
        textless = [cost for cost in costs if not cost.reads_text]
        over = [cost.name for cost in textless if cost.share > MAX_SHARE]
        dearest = max(textless, key=lambda cost: cost.share, default=None)
        words = "" if dearest is None else f"{dearest.name}, {100 * dearest.share:.0f} % of a request"
        figures = {
            "settings": {"requests": given.requests, "rounds": rounds, "connections": given.connections},
            "base_us": {"1 KB": whole, "stream": stream},
            "features": {
                cost.name: {
                    "added_us": cost.added_us,
                    "share": cost.share,
                    "stream_added_us": cost.stream_added_us,
                    "stream_share": cost.stream_share,
                    "reads_text": cost.reads_text,
                    "note": cost.note,
                }
                for cost in costs
            },
            "over_the_limit": over,
        }
        sentences = {"dearest": words}
        write_measurement(given.json, {"added": table}, figures, sentences=sentences, note=given.note)


if __name__ == "__main__":
    main()

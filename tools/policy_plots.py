"""Compares policies on a trace in the simulator and draws what came out, for docs/guides/policies.md.

python tools/policy_plots.py TRACE --name conversation --speedups 1.0,1.6

writes docs/figures/policies-NAME.svg (first tokens, hits) and policies-NAME-spread.svg (who waits how long at
the last speed), and prints the table. The figures depend on the trace, the options and the seed alone.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "docs_site"))

from draw import Drawing

from radixway.routing.simulator import (
    SimulationFigures,
    SimulationOutcome,
    SimulationSettings,
    compare_policies,
    compute_figures,
    parse_policies,
    read_trace,
)

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
POLICIES = (
    "round_robin,power_of_two,least_loaded,prefix_affinity,"
    "kv_aware:overlap_weight=1,kv_aware:overlap_weight=8,expected_time"
)
_KINDS = ("cool", "warm")


def bars(told: dict[float, dict[str, SimulationFigures]], title: str) -> Drawing:
    """Mean time to the first token and hit rate, a pair of bars for each policy."""
    names = list(next(iter(told.values())))
    sheet = Drawing(860, 110 + 46 * len(names), f"{title}: mean time to first token and hit rate by policy")
    sheet.text(20, 24, title, kind="strong")
    longest = max(each.ttft_mean_s or 0 for figures in told.values() for each in figures.values())
    sheet.text(250, 52, "mean time to first token, s", kind="faint")
    sheet.text(640, 52, "prompt tokens found cached", kind="faint")
    for row, name in enumerate(names):
        y = 66 + row * 46
        sheet.text(20, y + 20, name, kind="code")
        for at, (_, figures) in enumerate(told.items()):
            each = figures[name]
            ttft, hits = each.ttft_mean_s or 0, each.hit_rate or 0
            sheet.bar(250, y + at * 18, round(ttft / longest * 300, 1), 15, _KINDS[at % 2])
            sheet.text(round(256 + ttft / longest * 300, 1), y + 12 + at * 18, f"{ttft:.2f}", kind="faint")
            sheet.bar(640, y + at * 18, round(hits * 250, 1), 15, _KINDS[at % 2])
            sheet.text(round(646 + hits * 250, 1), y + 12 + at * 18, f"{hits:.0%}", kind="faint")
    for at, speed in enumerate(told):
        sheet.bar(250 + at * 130, sheet.height - 30, 14, 14, _KINDS[at % 2])
        sheet.text(270 + at * 130, sheet.height - 18, f"at {speed:g} × its speed", kind="faint")
    return sheet


def spread(outcomes: dict[str, SimulationOutcome], title: str) -> Drawing:
    """For each policy the time that half, nine tenths and 99 of a hundred requests wait at most."""
    sheet = Drawing(
        860,
        96 + 34 * len(outcomes),
        f"{title}: the median, the 90th and the 99th percentile of waiting, by policy",
    )
    sheet.text(20, 24, title, kind="strong")
    longest = max(max(_at(each, 0.99) for each in outcomes.values()), 1e-9)
    for row, (name, outcome) in enumerate(outcomes.items()):
        y = 50 + row * 34
        sheet.text(20, y + 16, name, kind="code")
        left = 250.0
        for share, kind in ((0.5, "cool"), (0.9, "sun"), (0.99, "warm")):
            right = 250 + _at(outcome, share) / longest * 450
            sheet.bar(round(left, 1), y, round(max(right - left, 0), 1), 22, kind)
            left = right
        sheet.text(
            round(left + 8, 1),
            y + 16,
            f"{_at(outcome, 0.5):.2f} · {_at(outcome, 0.9):.2f} · {_at(outcome, 0.99):.2f}",
            kind="faint",
        )
    y = sheet.height - 30
    for at, (kind, words) in enumerate(
        (("cool", "half wait no longer, s"), ("sun", "nine in ten"), ("warm", "99 of a hundred"))
    ):
        sheet.bar(250 + at * 170, y, 14, 14, kind)
        sheet.text(270 + at * 170, y + 12, words, kind="faint")
    return sheet


def _at(outcome: SimulationOutcome, share: float) -> float:
    ordered = sorted(outcome.ttft_s)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, help="Mooncake's format, gzipped or not")
    parser.add_argument("--name", required=True, help="of the plots' files")
    parser.add_argument("--title", default="", help="what the trace is; else its file's name")
    parser.add_argument("--speedups", default="1.0,1.6", help="how much faster than recorded, two at most")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kv-tokens", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    trace = read_trace(given.trace)
    policies = parse_policies(given.policies)
    outcomes: dict[float, dict[str, SimulationOutcome]] = {}
    for speed in (float(each) for each in given.speedups.split(",")):
        setting = SimulationSettings(
            workers=given.workers, kv_tokens=given.kv_tokens, speedup=speed, seed=given.seed
        )
        outcomes[speed] = compare_policies(trace, policies, setting, given.jobs)
    told = {
        speed: {name: compute_figures(each) for name, each in of.items()} for speed, of in outcomes.items()
    }
    digest = hashlib.sha256(given.trace.read_bytes()).hexdigest()[:12]
    title = given.title or given.trace.name.split(".")[0].replace("_", " ")
    title = f"{title}, {len(trace.requests):,} requests, {given.workers} workers, seed {given.seed}"
    last = max(outcomes)
    (FIGURES / f"policies-{given.name}.svg").write_text(bars(told, title).svg(), encoding="utf-8")
    (FIGURES / f"policies-{given.name}-spread.svg").write_text(
        spread(outcomes[last], f"{title}, at {last:g} × its speed").svg(), encoding="utf-8"
    )
    print(f"{given.trace.name}, sha256 {digest}…, seed {given.seed}\n")
    print("| policy | " + " | ".join(f"{speed:g} ×: mean, p50, p99 | hits" for speed in told) + " |")
    print("|---|" + "---|" * 2 * len(told))
    for name in policies:
        cells = [
            f"{each.ttft_mean_s:.2f}, {each.ttft_p50_s:.2f}, {each.ttft_p99_s:.2f} | {each.hit_rate:.1%}"
            for each in (told[speed][name] for speed in told)
        ]
        print(f"| `{name}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

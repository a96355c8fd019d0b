"""What tenants add to a request in the gateway: its CPU time without any, and with more and more of them.

The same work (benchmarks/gateway.py says which) goes in turn through gateways that differ in their
`tenants` section alone; figures are CPU-seconds per 1,000 requests,
and ratios to the gateway without tenants.

    python benchmarks/tenants.py [--requests N] [--rounds N] [--json FILE]

none      no tenants: what everybody gets who configures nothing
counted   the tenant `default`: usage is counted, nothing is limited, no key is asked for
limited   200 keys; rates, quotas and prices; usage goes to a SQLite file
salted    the same with a cache salt, for which every body is edited
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_worker import MODEL
from load import Load
from measured_gateways import Gateway, Work, fake_workers, measure_rounds, running
from peers import RADIXWAY, Target
from processes import stop
from report import print_table, write_json

_KEY = "benchmark-key"
_MUCH = 10**9


def sections(directory: Path) -> dict[str, dict[str, Any]]:
    """The `tenants` sections that are compared, by name."""
    limited = {
        "keys": [{"key": _KEY}, *({"key": f"other-key-{number}"} for number in range(199))],
        "models": [MODEL, "another-*"],
        "rates": {"requests_per_minute": _MUCH, "tokens_per_minute": _MUCH, "concurrent": _MUCH},
        "quotas": {"tokens_per_day": _MUCH, "cost_per_month": _MUCH},
    }
    priced = {MODEL: {"prompt_per_1m": 1, "completion_per_1m": 2}}
    kept = {"persist": True, "path": str(directory / "usage.sqlite")}
    return {
        "none": {},
        "counted": {"default": {}},
        "limited": {"acme": limited, "pricing": priced, "usage": kept},
        "salted": {"acme": limited | {"cache_salt": "a-salt"}, "pricing": priced, "usage": kept},
    }


def target(name: str, section: dict[str, Any]) -> Target:
    """A gateway with that section."""
    env = {"RADIXWAY__TENANTS": json.dumps(section)} if section else {}
    headers = {"authorization": f"Bearer {_KEY}"}
    return replace(RADIXWAY, name=name, env=env, headers=headers)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2400, help="of 1 KB a round; others fewer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    works = [
        Work("1 KB", given.requests, given.connections, 1024),
        Work("16 KB", given.requests // 2, given.connections, 16 * 1024),
        Work("stream", given.requests // 8, given.connections, 1024, stream=True),
    ]
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-tenants-")))
        workers = stack.enter_context(fake_workers(2, 4.0))
        load = Load()
        stack.callback(stop, load.process)
        gateways = [
            stack.enter_context(running(target(name, section), workers, directory))
            for name, section in sections(directory).items()
        ]
        rounds = measure_rounds(gateways, works, load, given.rounds, 3600.0)
    if fault := next((f"{each.name}: {each.fault}" for each in gateways if each.fault), None):
        print(f"benchmarks/tenants.py: {fault}")
        return 1
    columns = ["tenants", *(heading for work in works for heading in (work.name, "of none"))]
    title = f"CPU-seconds per 1,000 requests; median of {rounds} rounds, ratio of each round's own"
    print_table(title, columns, [row(gateway, gateways[0], works) for gateway in gateways])
    if given.json is not None:
        write_json(given.json, {each.name: each.cpu_s for each in gateways})
    return 0


def row(gateway: Gateway, base: Gateway, works: list[Work]) -> list[str]:
    """Its figures, and their ratios to `base`'s, round by round."""
    cells = [gateway.name]
    for work in works:
        own, others = gateway.cpu_s[work.name], base.cpu_s[work.name]
        ratio = statistics.median(mine / other for mine, other in zip(own, others, strict=True))
        cells += [f"{statistics.median(own):.3f}", f"× {ratio:.3f}"]
    return cells


if __name__ == "__main__":
    sys.exit(main())

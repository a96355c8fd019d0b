"""What it costs a gateway to share with others what it keeps, in its own CPU time.

    python benchmarks/shared_state.py [--quick] [--json FILE]

limits      a tenant's requests are let in and settled, so many at a time: by the account in this process, and
            by a real Valkey beside it (`scale.limits`), whose own time does not count
passed on   chats of 33 KB that name a session, through two gateways (`scale.gateways`): asked of the one
            that keeps the session, and of the other, which passes them on; CPU time of both gateways

The median of the rounds, which take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import uvloop
import yaml

from chat import valkey
from fake_worker import MODEL
from measured_gateways import fake_workers
from processes import cpu_seconds, free_ports, running_radixway
from radixway.cluster.session_ownership.ownership_keys import GatewayFleet
from radixway.core.component import running
from radixway.core.config import RatesConfig
from radixway.core.config.scale import SharedLimitsConfig
from radixway.core.tenants.account import LimitsBackend, TenantAccount, UsageEstimate
from radixway.core.tenants.shared_limits import SharedLimits
from report import print_table, write_json

AT_ONCE = (1, 16, 256)
PROMPT = "What changes beyond one machine? " * 1000
KEY = "a key of sixteen characters"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    share = 10 if given.quick else 1
    told = {
        "limits": uvloop.run(limits(10_240 // share, given.rounds)),
        "passed_on": passed_on(400 // share, given.rounds),
    }
    if given.json is not None:
        write_json(given.json, told)


async def limits(requests: int, rounds: int) -> list[dict[str, float]]:
    """µs for each request, by how many are in flight."""
    rates = RatesConfig(requests_per_minute=10**9, tokens_per_minute=10**12, concurrent=10**6)
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as folder, valkey(Path(folder, "v")) as url:
        account = TenantAccount("acme", rates)
        section = SharedLimitsConfig.model_validate({"redis": url, "timeout_s": 10})
        shared = SharedLimits(section, {"acme": account}, time.time)
        async with running([shared]):
            for at_once in AT_ONCE:
                homes = {
                    "in process": (LimitsBackend(), TenantAccount("acme", rates)),
                    "Valkey": (shared, account),
                }
                measured: dict[str, list[float]] = {name: [] for name in homes}
                for _ in range(rounds):
                    for name, home in homes.items():
                        measured[name].append(await let_in(*home, at_once, max(requests // at_once, 1)))
                    assert shared.problem is None, shared.problem
                medians = {name: statistics.median(times) * 1e6 for name, times in measured.items()}
                found.append({"at_once": at_once, **medians})
    rows = [(each["at_once"], each["in process"], each["Valkey"]) for each in found]
    print_table("Limits of tenants", ("in flight", "in process, CPU µs", "Valkey, CPU µs"), rows)
    return found


async def let_in(home: LimitsBackend, account: TenantAccount, at_once: int, times: int) -> float:
    """CPU seconds of this process for each request."""
    estimate = UsageEstimate(500, 0.001)

    async def requests() -> None:
        for _ in range(times):
            await home.admit_request(account, time.time(), estimate)
            home.settle_usage(account, time.time(), estimate, 400, 0.0008)

    began = time.process_time()
    await asyncio.gather(*(requests() for _ in range(at_once)))
    return (time.process_time() - began) / (at_once * times)


def passed_on(requests: int, rounds: int) -> dict[str, float]:
    """Ms of CPU time of both gateways for each request."""
    with two_gateways() as (urls, pids):
        keeps = GatewayFleet(urls[0], urls).make_owned_name()
        ways = {"its own": urls[0], "passed on": urls[1]}
        measured: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, url in ways.items():
                began = sum(map(cpu_seconds, pids))
                for _ in range(requests):
                    ask(url, keeps, name == "passed on")
                if turn:  # the first is to warm up
                    measured[name].append((sum(map(cpu_seconds, pids)) - began) / requests)
    medians = {name: statistics.median(times) * 1e3 for name, times in measured.items()}
    medians["ratio"] = medians["passed on"] / medians["its own"]
    print_table(f"Chats of {len(PROMPT) // 1000} KB, CPU ms", list(medians), [list(medians.values())])
    return medians


@contextlib.contextmanager
def two_gateways() -> Iterator[tuple[list[str], list[int]]]:
    """Their URLs and processes, before one worker."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        (worker,) = stack.enter_context(fake_workers(1, 0.0))
        ports = free_ports(2)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        pids = []
        for port, url in zip(ports, urls, strict=True):
            config = home / f"{port}.yaml"
            tree = {
                "workers": [{"url": f"http://127.0.0.1:{worker}"}],
                "routing": {"policy": "sticky_least_loaded"},
                "chat": {"enabled": False},
                "scale": {"gateways": {"self_url": url, "all": urls, "key": KEY}},
            }
            config.write_text(yaml.safe_dump(tree))
            command = ["serve", "--config", str(config), "--port", str(port)]
            env = {"RADIXWAY_HOME": str(home)}
            pids.append(stack.enter_context(running_radixway(command, env, f"{url}/ready")))
        yield urls, pids


def ask(url: str, session: str, is_passed_on: bool) -> None:
    """One chat; raises AssertionError where another gateway answered than should."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": PROMPT}]}
    headers = {"content-type": "application/json", "x-session-id": session}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
        assert (answer.headers["x-radixway-gateway"] is not None) == is_passed_on


if __name__ == "__main__":
    main()

"""Whether a gateway loses anything in minutes of faults, and ends with the memory and tasks it began with.

A real gateway (`radixway serve`) in front of pretended workers: one steady, with KV events; one that resets
each twelfth stream; a slow one; one that is killed and started again every few seconds; one that registers
itself and leaves. Good clients check every byte of their answers; others leave, stall, read slowly or send no
HTTP (`soak_clients.py`). After a warm-up, and again at the end, all clients leave, and the gateway at rest is
compared with itself: memory, descriptors, tasks of the event loop. Exits with 1 after any loss.

    python benchmarks/soak.py                  ten minutes, after one to warm up
    python benchmarks/soak.py --minutes 3
    python benchmarks/soak.py --quick          one minute
    python benchmarks/soak.py --serve '--processes 2'    more options of `radixway serve`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from environments import clean_environment
from processes import process_tree, resident_bytes, stop
from report import print_table, write_json
from soak_clients import CLIENTS, Tally, Target, run_client
from soak_faults import (
    Fleet,
    KvEventPublisher,
    SoakError,
    ask,
    kill_and_restart,
    register_and_leave,
    running_fleet,
)

MIB = 2**20
WARM_UP_S = 60.0
REST_TIMEOUT_S = 120.0
"""Longest that a gateway without clients may take to come to rest."""
MAX_GROWTH_SHARE = 0.05
MAX_GROWTH_BYTES = 8 * MIB
"""Memory may grow by both together: allocators keep some of what they were given."""
MAX_MORE_DESCRIPTORS = 2
MAX_MORE_TASKS = 2
CONFIGURED_WORKERS = 4
LIMITS = {"header_timeout_s": 3, "body_timeout_s": 3, "send_timeout_s": 4, "keep_alive_s": 5}
"""Short ones, so that each client that stalls meets its limit often."""
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(MIB), "MALLOC_TRIM_THRESHOLD_": str(MIB)}
"""glibc returns what is freed, large answers among it: by default it keeps twice 16 MiB of them, or not."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A gateway without clients."""

    resident_mib: float
    descriptors: int
    tasks: int
    in_flight: int


# ---------------------------------------------------------------- the gateway


@contextlib.contextmanager
def running_gateway(scratch: Path, fleet: Fleet, options: list[str]) -> Iterator[tuple[str, int, Path]]:
    """The gateway's host and port as `host:port`, its process id and its log."""
    kv_events = {
        "endpoint": f"tcp://127.0.0.1:{fleet.kv_events}",
        "replay_endpoint": f"tcp://127.0.0.1:{fleet.kv_replays}",
    }
    ports = (fleet.steady, fleet.cutting, fleet.slow, fleet.killed)
    workers: list[dict[str, Any]] = [
        {"url": f"http://127.0.0.1:{port}", "kv_events": "off"} for port in ports
    ]
    workers[0]["kv_events"] = kv_events
    tree = {
        "gateway": {"port": 0},
        "workers": workers,
        "limits": {"server": LIMITS},
        "console": {"preload": False},
        "telemetry": {"journal_capacity": 2_000},
        "routing": {"health": {"interval_s": 0.5, "backoff_max_s": 1}},
    }
    config, log = scratch / "radixway.yaml", scratch / "log"
    config.write_text(json.dumps(tree))
    command = [sys.executable, "-m", "radixway", "serve", "--config", str(config), *options]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=clean_environment({"RADIXWAY_HOME": str(scratch / "home"), **_ALLOCATOR}),
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("gateway http")), None)
        if line is None:
            raise SoakError(f"the gateway did not start: {log.read_text()[-500:]}")
        yield line.split()[1].removeprefix("http://"), process.pid, log
        if process.poll() is not None:
            raise SoakError(f"the gateway has ended by itself: {log.read_text()[-500:]}")
    finally:
        stop(process)


# ---------------------------------------------------------------- what is compared


def metric(page: str, name: str) -> float:
    """The sum of all series of the metric `name`."""
    found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)", page, re.MULTILINE)
    if not found:
        raise SoakError(f"the gateway has no metric {name}")
    return sum(map(float, found))


def wait_for_workers(gateway: str) -> None:
    """Wait until the gateway knows that all of its workers are well. Raises SoakError."""
    end_s = time.monotonic() + REST_TIMEOUT_S
    while metric(ask(f"http://{gateway}/metrics/prometheus"), "radixway_workers_ready") < CONFIGURED_WORKERS:
        if time.monotonic() > end_s:
            raise SoakError("the gateway does not find its workers well")
        time.sleep(0.1)


def look_at(gateway: str, pid: int) -> Rest:
    page = ask(f"http://{gateway}/metrics/prometheus")
    descriptors = 0
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            descriptors += len(list(Path(f"/proc/{member}/fd").iterdir()))
    return Rest(
        resident_mib=resident_bytes(pid) / MIB,
        descriptors=descriptors,
        tasks=int(metric(page, "radixway_event_loop_tasks")),
        in_flight=int(metric(page, "radixway_in_flight")),
    )


async def come_to_rest(gateway: str, pid: int) -> Rest:
    """Wait until nothing is in flight and the same descriptors and tasks are there three times in a row."""
    latest: deque[tuple[int, int]] = deque(maxlen=3)
    end_s = time.monotonic() + REST_TIMEOUT_S
    while True:
        await asyncio.sleep(5)  # longer than an idle connection lives
        rest = await asyncio.to_thread(look_at, gateway, pid)
        latest.append((rest.descriptors, rest.tasks))
        if rest.in_flight == 0 and len(latest) == 3 and len(set(latest)) == 1:
            return rest
        if time.monotonic() > end_s:
            return rest


def growth(before: Rest, after: Rest) -> list[str]:
    """What there is more of than may be."""
    problems = []
    most_mib = before.resident_mib * (1 + MAX_GROWTH_SHARE) + MAX_GROWTH_BYTES / MIB
    if after.resident_mib > most_mib:
        problems.append(f"memory: {after.resident_mib:.0f} MiB, allowed are {most_mib:.0f}")
    if after.descriptors > before.descriptors + MAX_MORE_DESCRIPTORS:
        problems.append(f"descriptors: {after.descriptors} after {before.descriptors}")
    if after.tasks > before.tasks + MAX_MORE_TASKS:
        problems.append(f"tasks: {after.tasks} after {before.tasks}")
    if after.in_flight:
        problems.append(f"in flight: {after.in_flight} requests of which no client knows")
    return problems


def errors_in(log: Path) -> list[str]:
    """Lines of a log that tell of an error of the gateway's own."""
    words = re.compile(r'"level": ?"(error|critical)"|\b(ERROR|CRITICAL)\b|Traceback|unexpectedly')
    return [line[:400] for line in log.read_text(errors="replace").splitlines() if words.search(line)]


# ---------------------------------------------------------------- the run


@contextlib.asynccontextmanager
async def in_background(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


async def send_traffic(target: Target, seconds: float) -> None:
    """Let all clients ask for `seconds`, then let each finish what it has begun."""
    over = asyncio.Event()
    clients = [
        asyncio.create_task(run_client(client, target, over))
        for client, count in CLIENTS.items()
        for _ in range(count)
    ]
    await asyncio.sleep(seconds)
    over.set()
    await asyncio.gather(*clients)


async def soak(seconds: float, options: list[str]) -> dict[str, Any]:
    """Warm up, measure, soak, measure again."""
    tally = Tally()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-soak-")))
        fleet = stack.enter_context(running_fleet(scratch))
        gateway, pid, log = stack.enter_context(running_gateway(scratch, fleet, options))
        host, _, port = gateway.rpartition(":")
        target = Target(host, int(port), tally)
        await asyncio.to_thread(wait_for_workers, gateway)
        rests = []
        async with in_background(KvEventPublisher(fleet, tally).run()):
            for phase_s in (WARM_UP_S, seconds):
                faults = (kill_and_restart(fleet, tally), register_and_leave(gateway, fleet, tally))
                async with in_background(*faults):
                    await send_traffic(target, phase_s)
                if fleet.victim is None or fleet.victim.poll() is not None:
                    fleet.start_victim()
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(
                        ask, f"http://{gateway}/workers?url={fleet.registered_url}", "DELETE"
                    )
                rests.append(await come_to_rest(gateway, pid))
        page = ask(f"http://{gateway}/metrics/prometheus")
        tally.outcomes["KV events heard"] = int(metric(page, "radixway_kv_events_total"))
        tally.outcomes["retries"] = int(metric(page, "radixway_retries_total"))
        before, after = rests
        return {
            "seconds": seconds,
            "outcomes": dict(sorted(tally.outcomes.items())),
            "before": asdict(before),
            "after": asdict(after),
            "lost": tally.lost,
            "losses": tally.losses,
            "growth": growth(before, after),
            "errors": errors_in(log),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="after the warm-up")
    parser.add_argument("--quick", action="store_true", help="one minute")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", default="", metavar="OPTIONS", help="more options of `radixway serve`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    args = parser.parse_args()
    random.seed(args.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that processes are stopped
    minutes = 1.0 if args.quick else args.minutes
    try:
        result = asyncio.run(soak(minutes * 60, shlex.split(args.serve)))
    except SoakError as error:
        sys.exit(str(error))
    print_table("what became of it", ("outcome", "times"), list(result["outcomes"].items()))
    rows = [
        (name.replace("_", " "), before, result["after"][name]) for name, before in result["before"].items()
    ]
    print_table("the gateway at rest", ("", "after the warm-up", f"{minutes:g} minutes later"), rows)
    if args.json:
        write_json(args.json, result)
    problems = [*result["losses"], *result["growth"], *result["errors"][:20]]
    if result["lost"] or problems:
        print(f"\n{result['lost']} exchanges went wrong, {len(result['errors'])} errors in the log:")
        sys.exit("\n".join(problems))
    print("\nnothing was lost")


if __name__ == "__main__":
    main()

"""What discovery costs a gateway: CPU ms on its event loop, by the number of workers.

    python benchmarks/discovery.py [--json FILE]

EndpointSlices of 100 endpoints each are read and told as `KubernetesSource` does after each event:

    first       all workers are new: made, and taken into the registry
    event       one worker drains, all others stay as they are
    heartbeat   one worker registers again (µs)

CPU time of the process; medians of several rounds. No health checks run, and nobody listens to the registry.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from radixway.cluster import WorkerRegistrations
from radixway.cluster.discovery.endpoint_slices import EndpointSlice, workers_of_slices
from radixway.cluster.discovery.source import make_worker_factory
from radixway.core.config import FoundTraits, RegistrationConfig, WorkerSettings
from radixway.routing import FleetMembership, WorkerRegistry
from report import print_table, write_json

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 9
A_SLICE = 100


def slices_of(workers: int, draining: int) -> list[EndpointSlice]:
    """The first of so many workers terminates or not."""
    endpoints = [
        {
            "addresses": [f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"],
            "conditions": {"ready": True, "terminating": i < draining},
            "targetRef": {"uid": f"pod-{i}"},
        }
        for i in range(workers)
    ]
    found = [
        {
            "metadata": {"name": f"slice-{at}", "namespace": "ai"},
            "endpoints": endpoints[at : at + A_SLICE],
            "ports": [{"name": "http", "port": 8000}],
        }
        for at in range(0, workers, A_SLICE)
    ]
    return msgspec.convert(found, list[EndpointSlice])


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds that it takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(workers: int) -> dict[str, float]:
    """Medians for one size."""
    states = [slices_of(workers, draining) for draining in (0, 1)]
    first, event, heartbeat = [], [], []
    for _ in range(3):
        at, members = make_worker_factory("http", FoundTraits()), FleetMembership(WorkerRegistry())

        def tell(state: list[EndpointSlice], at=at, members=members) -> None:
            members.tell("kubernetes", workers_of_slices(state, None, at))

        first.append(cpu_s(lambda: tell(states[0])))
        for i in range(ROUNDS):
            event.append(cpu_s(lambda i=i: tell(states[(i + 1) % 2])))
    registrations = WorkerRegistrations(RegistrationConfig(), FleetMembership(WorkerRegistry()))
    sections = [WorkerSettings(url=f"http://10.0.{i >> 8}.{i & 255}:8000") for i in range(workers)]
    for _ in range(3):
        heartbeat.append(cpu_s(lambda: [registrations.register_worker(each) for each in sections]) / workers)
    return {
        "first_ms": statistics.median(first) * 1e3,
        "event_ms": statistics.median(event) * 1e3,
        "heartbeat_us": statistics.median(heartbeat) * 1e6,
    }


def main() -> None:
    """Measure every size and show them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    told = {str(workers): measure(workers) for workers in SIZES}
    print_table(
        "CPU time of discovery",
        ("workers", "first, ms", "event, ms", "heartbeat, µs"),
        [(size, row["first_ms"], row["event_ms"], row["heartbeat_us"]) for size, row in told.items()],
    )
    if arguments.json:
        write_json(arguments.json, told)


if __name__ == "__main__":
    main()

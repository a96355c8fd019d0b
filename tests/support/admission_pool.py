"""The admission in front of workers that answer nothing, for tests that hold their leases."""

import json

from radixway.core.config import RoutingConfig, WorkerSettings
from radixway.core.pipeline import ENDPOINTS, Request
from radixway.core.telemetry import Journal, MetricsRegistry
from radixway.routing import (
    PromptReader,
    Selector,
    TokenizerRegistry,
    WeightVersionTracker,
    WorkerRegistry,
    WorkerState,
)
from radixway.routing.fleet_breakers import FleetBreakers
from radixway.routing.transports.admission import AdmissionController


def request(prompt="hello", model: str = "m", **fields) -> Request:
    """A completion of `prompt`, a text or token ids."""
    raw = json.dumps({"model": model, "prompt": prompt}).encode()
    return Request(
        id="r",
        endpoint=ENDPOINTS["openai.completions"],
        path="/p",
        journal=Journal("r"),
        raw=raw,
        model=model,
        **fields,
    )


class Pool:
    """Ready workers of the model m, and the admission in front of them."""

    def __init__(self, workers: int = 1, **routing) -> None:
        config = RoutingConfig(**routing)
        self.registry = WorkerRegistry()
        self.selector = selector = Selector(config)
        self.registry.on_add.append(selector.add_worker)
        self.metrics = MetricsRegistry()
        prompts = PromptReader(config, TokenizerRegistry(config))
        breakers = FleetBreakers(config.breaker)
        weights = WeightVersionTracker(self.registry, config.weights)
        self.admission = AdmissionController(
            self.registry, selector, prompts, breakers, self.metrics, config, weights
        )
        self.workers = [
            self.registry.add_worker(WorkerSettings(url=f"http://w{n}", models=("m",)))
            for n in range(workers)
        ]
        for worker in self.workers:
            self.registry.set_state(worker, WorkerState.READY)

    def in_flight(self) -> int:
        return sum(worker.load.requests for worker in self.workers)

    def queued(self) -> float:
        return self.metrics.registry.get_sample_value("radixway_queued")

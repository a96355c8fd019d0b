"""The `router` that Starlette-style middlewares get: the Slime router, as far as they use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI

from radixway.core.config import Config, WorkerSettings, check_worker_url
from radixway.routing import API, FleetMembership, WorkerRegistry


class SlimeRouter:
    """The gateway's workers, its configuration by Slime's names, and room for attributes.

    A middleware may set any attribute for others to read. `radix_tree` is one with a meaning: what its
    `get_stats()` returns is the `cache` of `GET /metrics`.
    """

    radix_tree: Any

    def __init__(
        self, config: Config, registry: WorkerRegistry, membership: FleetMembership, app: FastAPI
    ) -> None:
        self._registry = registry
        self._membership = membership
        self.app = app
        """Where a middleware may add routes of its own."""
        self.args = _slime_arguments(config)
        self.verbose = config.telemetry.logs.level == "debug"
        self.worker_urls: Mapping[str, int] = _InFlightRequestCounts(registry)
        """Requests in hand by worker, always the present ones; read only."""

    def list_workers(self) -> list[str]:
        """The workers' URLs, in the order in which they were added."""
        return list(self.worker_urls)

    def add_worker(self, url: str) -> None:
        """Take a worker in. Raises ValueError if `url` is none of a worker."""
        self._membership.join_worker(API, WorkerSettings(url=url))

    def remove_worker(self, url: str) -> bool:
        """Forget a worker; what it is answering goes on to its end. False if it was not known.

        Raises ValueError if `url` is none of a worker.
        """
        return self._registry.remove_worker(check_worker_url(url)) is not None

    def cache_stats(self) -> Mapping[str, Any] | None:
        """Return the statistics of the attached radix tree; None while none is attached."""
        tree = getattr(self, "radix_tree", None)
        return None if tree is None else tree.get_stats()


class _InFlightRequestCounts(Mapping[str, int]):
    """A view of the registry, so that nobody keeps a count of their own."""

    def __init__(self, registry: WorkerRegistry) -> None:
        self._registry = registry

    def __getitem__(self, url: str) -> int:
        worker = self._registry.get_worker(url)
        if worker is None:
            raise KeyError(url)
        return worker.load.requests

    def __iter__(self) -> Iterator[str]:
        return (worker.url for worker in self._registry)

    def __len__(self) -> int:
        return len(self._registry)


def _slime_arguments(config: Config) -> SimpleNamespace:
    """The configuration under the names of Slime's command line."""
    health = config.routing.health
    return SimpleNamespace(
        hf_checkpoint=config.trajectories.tokenizer,
        sglang_router_ip=config.gateway.host,
        sglang_router_port=config.gateway.port,
        use_slime_router=True,
        slime_router_middleware_paths=list(reversed(config.pipeline.middlewares)),
        rollout_health_check_interval=health.interval_s,
        slime_router_health_check_failure_threshold=health.failure_threshold,
        slime_router_timeout=config.gateway.request_timeout_s,
        slime_router_max_connections=None,
        sglang_server_concurrency=config.routing.max_in_flight_per_worker,
    )

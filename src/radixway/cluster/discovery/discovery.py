"""Follows the configured sources of workers, a task for each, and applies what they report."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radixway.cluster.discovery.source import DiscoverySource, DiscoverySourceError
from radixway.core.component import Component
from radixway.core.config import Config, ConfigError, DiscoveryConfig, WorkerSettings
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import API, CONFIG, DiscoveredWorker, FleetMembership, WorkerRegistry

log = logging.getLogger(__name__)

_PAUSES_S = (0.2, 15.0)
"""First and longest pause before a failed source is followed again; it doubles."""
_RETIRE_EVERY_S = 0.5


@dataclass(slots=True)
class _FollowedSource:
    source: DiscoverySource
    has_reported: bool = False
    problem: str | None = None
    """Why it cannot be followed at the moment."""
    pause_s: float = _PAUSES_S[0]


class WorkerDiscovery(Component):
    """A task for each source. One that fails is followed again; its last report holds until then."""

    name = "discovery"

    def __init__(
        self, membership: FleetMembership, sources: Sequence[DiscoverySource], metrics: MetricsRegistry
    ) -> None:
        self._membership = membership
        self._followed = [_FollowedSource(source) for source in sources]
        self._tasks: list[asyncio.Task[None]] = []
        metrics.counters(
            "radixway_discovery_changes",
            "What sources' words have done to workers",
            "change",
            lambda: membership.changes.items(),
        )
        metrics.gauges(
            "radixway_discovery_workers",
            "Workers that each source names",
            "source",
            lambda: membership.count_members().items(),
            "max",
        )
        metrics.gauges(
            "radixway_discovery_up",
            "Sources that can be followed: 1, or 0",
            "source",
            lambda: [(followed.source.name, float(followed.problem is None)) for followed in self._followed],
            "min",
        )

    async def start(self) -> None:
        """Follow the sources."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._follow_forever(followed), name=f"discovery {followed.source.name}")
            for followed in self._followed
        ]
        self._tasks.append(loop.create_task(self._retire_forever(), name="discovery retires workers"))

    async def stop(self) -> None:
        """Follow them no more; workers stay as they are."""
        await cancel_tasks(self._tasks)

    def describe(self) -> dict[str, Any]:
        """Return each followed source for `/health`."""
        counts = self._membership.count_members()
        return {
            followed.source.name: {
                "state": "down" if followed.problem else "ok" if followed.has_reported else "starting",
                "problem": followed.problem,
                "workers": counts.get(followed.source.name, 0),
            }
            for followed in self._followed
        }

    async def _back_off(self, followed: _FollowedSource, min_pause_s: float) -> None:
        await asyncio.sleep(min(max(followed.pause_s, min_pause_s), _PAUSES_S[1]))
        followed.pause_s = min(followed.pause_s * 2, _PAUSES_S[1])

    async def _follow_forever(self, followed: _FollowedSource) -> None:
        def tell(found: Iterable[DiscoveredWorker]) -> None:
            if followed.problem is not None:
                log.info("discovery: %s works again", followed.source.name)
            followed.has_reported, followed.problem, followed.pause_s = True, None, _PAUSES_S[0]
            self._membership.set_members(followed.source.name, found)

        while True:
            min_pause_s = 0.0
            try:
                await followed.source.follow_workers(tell)
                return
            except DiscoverySourceError as failure:
                problem, min_pause_s = str(failure), failure.retry_after_s or 0.0
                if followed.problem is None:
                    log.warning("discovery: %s: %s", followed.source.name, problem)
            except Exception as error:
                problem = f"a defect of the gateway: {error}"
                log.exception("discovery: following %s failed unexpectedly", followed.source.name)
            followed.problem = problem
            await self._back_off(followed, min_pause_s)

    async def _retire_forever(self) -> None:
        while True:
            await asyncio.sleep(_RETIRE_EVERY_S)
            self._membership.remove_drained()


def build_discovery(
    config: Config,
    membership: FleetMembership,
    metrics: MetricsRegistry,
    more: Sequence[DiscoverySource] = (),
) -> WorkerDiscovery:
    """Build the sources of the `discovery` section, and `more`. Raises ConfigError if a package is
    missing."""
    sources = [*_configured_sources(config.discovery), *more]
    names = [source.name for source in sources]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"discovery: two sources are {twice[0]}")
    return WorkerDiscovery(membership, sources, metrics)


def _configured_sources(config: DiscoveryConfig) -> Iterator[DiscoverySource]:
    if config.dns:
        try:
            from radixway.cluster.discovery.dns_source import DnsSource
        except ModuleNotFoundError as error:
            needed = f"discovery.dns needs the package {error.name}: pip install 'radixway[dns]'"
            raise ConfigError(needed) from None
        yield from map(DnsSource, config.dns)
    if config.kubernetes:
        from radixway.cluster.discovery.kubernetes_source import KubernetesSource

        yield from map(KubernetesSource, config.kubernetes)


class ConfiguredWorkers(Component):
    """Adds the configured workers once the health monitor has been started."""

    name = "configured workers"

    def __init__(
        self,
        registry: WorkerRegistry,
        membership: FleetMembership,
        configured: Iterable[WorkerSettings],
        endpoints: Callable[[], Iterable[WorkerSettings]],
    ) -> None:
        """`configured`: those of the section `workers`. `endpoints`: those that the semantic section names;
        one that is known already is passed over.
        """
        self._registry = registry
        self._membership = membership
        self._configured = configured
        self._endpoints = endpoints

    async def start(self) -> None:
        """Add all, again those that a middleware added when it was built: they were not monitored then."""
        members = self._membership
        for section in [worker.config for worker in self._registry]:
            members.join_worker(API, section)
        members.set_members(CONFIG, map(DiscoveredWorker, self._configured))
        others = [section for section in self._endpoints() if self._registry.get_worker(section.url) is None]
        members.set_members("semantic", map(DiscoveredWorker, others))

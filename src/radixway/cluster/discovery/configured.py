"""The workers that a gateway knows from its start on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from radixway.core.component import Component
from radixway.core.config import WorkerSettings
from radixway.routing import API, CONFIG, DiscoveredWorker, FleetMembership, WorkerRegistry


class ConfiguredWorkers(Component):
    """Has them join, once whoever watches workers has been started."""

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
        """Have them join, again those that a middleware added when it was built: nobody watched them then."""
        members = self._membership
        for section in [worker.config for worker in self._registry]:
            members.join_worker(API, section)
        members.set_members(CONFIG, map(DiscoveredWorker, self._configured))
        others = [section for section in self._endpoints() if self._registry.get_worker(section.url) is None]
        members.set_members("semantic", map(DiscoveredWorker, others))

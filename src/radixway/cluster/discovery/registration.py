"""A source of workers: they say themselves that they are there, again and again."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from radixway.cluster.discovery.source import ReportWorkers
from radixway.core.config import RegistrationConfig, WorkerSettings, check_worker_url
from radixway.routing import REGISTERED, DiscoveredWorker, FleetMembership, Worker

log = logging.getLogger(__name__)

_LATE_S = 1.0
"""A check of the leases that is later than this means that the gateway slept."""


@dataclass(slots=True)
class _RegistrationLease:
    section: WorkerSettings
    ttl_s: float
    ends_at: float


class WorkerRegistrations:
    """Leases of workers. A heartbeat is the registration once more; who misses it drains, and is gone then.

    Who names no time, as those that know SGLang's gateway, stays without a lease.

    Belongs to one event loop. A restarted gateway knows no worker until its next heartbeat.
    """

    name = REGISTERED

    def __init__(
        self,
        config: RegistrationConfig,
        membership: FleetMembership,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most_ttl_s = config.most_ttl_s
        self._config = config
        self._membership = membership
        self._clock = clock
        self._leases: dict[str, _RegistrationLease] = {}
        self._look_at = math.inf
        self._sooner = asyncio.Event()

    def register_worker(self, section: WorkerSettings, ttl_s: float | None = None) -> float | None:
        """A worker says that it is there, for the first time or again; returns how long that holds.

        None: until it leaves or is removed, which is so where neither it nor the configuration says how long.
        An administrator's change to it stays, unless the worker registers with other values.
        """
        if ttl_s is None:
            ttl_s = self._config.ttl_s or self.lease_ttl_s(section.url)
        if ttl_s is None:
            self._membership.add_member(self.name, DiscoveredWorker(section))
            return None
        lease = self._leases[section.url] = _RegistrationLease(section, ttl_s, self._clock() + ttl_s)
        self._membership.add_member(self.name, DiscoveredWorker(section))
        if lease.ends_at < self._look_at:
            self._sooner.set()
        return ttl_s

    def deregister_worker(self, worker: Worker) -> None:
        """Drain `worker`, even if other sources name it, and remove it when it has no requests in flight."""
        self._leases.pop(worker.url, None)
        self._membership.remove_member(self.name, worker.url)
        self._membership.drain_worker(worker)

    def forget_worker(self, url: str) -> None:
        """Forget a worker that an administrator removed: the next registration there is new."""
        with suppress(ValueError):  # no URL is no worker's
            url = check_worker_url(url)
            self._leases.pop(url, None)
            self._membership.remove_member(self.name, url)

    def lease_left_s(self, url: str) -> float | None:
        """Return the seconds that the lease of the worker at `url` still holds; None if it has none."""
        lease = self._leases.get(url)
        return None if lease is None else max(0.0, lease.ends_at - self._clock())

    def lease_ttl_s(self, url: str) -> float | None:
        """Return the length of the lease of the worker at `url`; None if it has none."""
        lease = self._leases.get(url)
        return None if lease is None else lease.ttl_s

    def expire_leases(self, late_s: float = 0.0) -> float | None:
        """End the leases that are over; returns in how many seconds the next one is, None if there is none.

        `late_s`: how long the gateway could not receive heartbeats; all leases last that much longer.
        """
        now = self._clock()
        for url, lease in tuple(self._leases.items()):
            lease.ends_at += late_s
            if lease.ends_at <= now:
                log.warning("worker %s has sent no heartbeat for %g s", url, lease.ttl_s)
                del self._leases[url]
                self._membership.remove_member(self.name, url)
        return min((lease.ends_at - now for lease in self._leases.values()), default=None)

    async def follow_workers(self, tell: ReportWorkers) -> None:
        tell([DiscoveredWorker(lease.section) for lease in self._leases.values()])
        late_s = 0.0
        while True:
            late_s = await self._sleep_until_expiry(self.expire_leases(late_s))

    async def _sleep_until_expiry(self, pause_s: float | None) -> float:
        """Sleep until then or until an earlier lease; return how late it is."""
        began = self._clock()
        self._look_at = math.inf if pause_s is None else began + pause_s
        self._sooner.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._sooner.wait()
        late_s = self._clock() - self._look_at
        return late_s if late_s > _LATE_S else 0.0

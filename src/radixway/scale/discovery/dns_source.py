"""A source of workers: the addresses of a name, asked for again when they have lived their time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from radixway.config import DnsConfig
from radixway.routing import DiscoveredWorker
from radixway.scale.discovery.address import make_worker_factory
from radixway.scale.discovery.dns_lookup import DnsAnswer, DnsLookup
from radixway.scale.discovery.source import DiscoverySourceError, ReportWorkers


class DnsSource:
    """What was known holds for `keep_s` when the name is gone, or while nobody answers for it.

    A name server that is restarted, or a service that is applied anew, is no reason to leave workers that
    answer; those that do not are found out by their health checks.
    """

    def __init__(
        self,
        config: DnsConfig,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        port = "" if config.port is None else f":{config.port}"
        self.name = f"dns {config.name}{port}"
        self._config = config
        self._worker_at = make_worker_factory(config.scheme, config.worker)
        self._clock = clock
        self._sleep = sleep
        self._answered_at: float | None = None
        """When there were workers last, while they are kept."""

    async def follow_workers(self, tell: ReportWorkers) -> None:
        lookup = DnsLookup(self._config)
        while True:
            try:
                answer = await lookup.resolve_name()
            except DiscoverySourceError:
                self._drop_expired(tell)
                raise
            self._answered_at = self._clock()
            tell(self._to_workers(answer))
            await self._sleep(min(max(answer.ttl_s, self._config.least_s), self._config.most_s))

    def _to_workers(self, answer: DnsAnswer) -> list[DiscoveredWorker]:
        return [DiscoveredWorker(self._worker_at(place.host, place.port)) for place in answer.places]

    def _drop_expired(self, tell: ReportWorkers) -> None:
        kept_since = self._answered_at
        if kept_since is not None and self._clock() - kept_since >= self._config.keep_s:
            self._answered_at = None
            tell(())

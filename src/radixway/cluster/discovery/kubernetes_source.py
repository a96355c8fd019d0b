"""A source of workers: the endpoints of Kubernetes services, listed once and watched from then on."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from radixway.cluster.discovery import kubernetes_api
from radixway.cluster.discovery.endpoint_slices import EndpointSlice, workers_of_slices
from radixway.cluster.discovery.kubernetes_api import Account, EndpointSlices, Event, Expired
from radixway.cluster.discovery.source import DiscoverySourceError, ReportWorkers, make_worker_factory
from radixway.core.config import KubernetesConfig

_SHORTEST_S = 1.0
"""A watch that ends sooner counts as a failure and causes a pause."""


class KubernetesSource:
    """A watch that ends or breaks is resumed at the last version that it reported.

    Only when the server has forgotten that version, all slices are listed again.
    """

    def __init__(
        self,
        config: KubernetesConfig,
        environ: Mapping[str, str] = os.environ,
        mounted: Path = kubernetes_api.MOUNTED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"kubernetes {config.namespace or 'own namespace'}: {config.selector}"
        self._config = config
        self._worker_at = make_worker_factory(config.scheme, config.worker)
        self._environ = environ
        self._mounted = mounted
        self._clock = clock
        self._slices: dict[tuple[str, str], EndpointSlice] = {}
        self._version: str | None = None
        """The version up to which all changes are known, or None."""

    async def follow_workers(self, tell: ReportWorkers) -> None:
        account = Account.of(self._config, self._environ, self._mounted)
        async with kubernetes_api.opened(self._config, account) as slices:
            while True:
                is_fresh = self._version is None
                try:
                    await self._watch_slices(slices, tell)
                except Expired as expired:
                    self._version = None
                    if is_fresh:
                        raise DiscoverySourceError(f"what was just listed has expired: {expired}") from None

    async def _watch_slices(self, slices: EndpointSlices, tell: ReportWorkers) -> None:
        version = self._version
        if version is None:
            found, version = await slices.read_all()
            self._slices = {each.key: each for each in found}
            self._version = version
            self._report_workers(tell)
        began = self._clock()
        async with slices.watch(version) as events:
            self._report_workers(tell)  # once more, if only to say that it works again
            async for event in events:
                if self._apply_event(event):
                    self._report_workers(tell)
        if self._clock() - began < _SHORTEST_S:
            raise DiscoverySourceError("the API server ends watches at once")

    def _report_workers(self, tell: ReportWorkers) -> None:
        try:
            tell(workers_of_slices(self._slices.values(), self._config.port, self._worker_at))
        except DiscoverySourceError:
            self._version = None  # what is wrong with them is to be read again
            raise

    def _apply_event(self, event: Event) -> bool:
        """Apply an event; return whether it may have changed something."""
        self._version = event.version
        if event.subject is None:
            return False
        if event.deleted:
            self._slices.pop(event.subject.key, None)
        else:
            self._slices[event.subject.key] = event.subject
        return True

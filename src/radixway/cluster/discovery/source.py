"""The contract of a source of workers, and how it makes a worker of a host and a port."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol

from yarl import URL

from radixway.core.config import FoundTraits, WorkerSettings
from radixway.routing import DiscoveredWorker

ReportWorkers = Callable[[Iterable[DiscoveredWorker]], None]
"""Says which workers there are now, all of them. Also says that the source works."""


class DiscoverySourceError(Exception):
    """The source is unreachable or its answer unusable; the message says why, without secrets."""

    def __init__(self, why: str, retry_after_s: float | None = None) -> None:
        """`retry_after_s`: asking earlier would be of no use."""
        super().__init__(why)
        self.retry_after_s = retry_after_s


class DiscoverySource(Protocol):
    """A source of workers: a name server, an API server, a controller, workers that register."""

    name: str
    """Unique among the sources, as people see it: `dns vllm-svc.ai:8000`."""

    async def follow_workers(self, tell: ReportWorkers) -> None:
        """Call `tell` with the whole set as soon as it is known, and again whenever it has changed.

        A worker that is to get no new requests is reported as `draining`, and left out once gone. Ends when
        nothing will change any more. After DiscoverySourceError it is called again, with growing pauses; the
        last report holds until then. Is cancelled in the end.
        """


_MAX_WORKERS = 20_000

WorkerFactory = Callable[[str, int], WorkerSettings]
"""The worker at a host and port. The host is a name or an address, IPv6 without brackets."""


def make_worker_factory(scheme: str, traits: FoundTraits) -> WorkerFactory:
    """Return a factory for one source. It raises DiscoverySourceError for an invalid address.

    Sources tell all workers again whenever one has changed: a worker that was made before is the same object,
    which takes a twentieth of the time of making it.
    """

    @lru_cache(_MAX_WORKERS)
    def at(host: str, port: int) -> WorkerSettings:
        try:
            return traits.worker_at(str(URL.build(scheme=scheme, host=host, port=port)))
        except ValueError as error:
            raise DiscoverySourceError(f"{host!r} port {port} is no worker's address: {error}") from None

    return at

"""A worker, of what sources say of its place."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from yarl import URL

from radixway.config import FoundTraits, WorkerSettings
from radixway.scale.discovery.source import DiscoverySourceError

_MAX_WORKERS = 20_000

WorkerFactory = Callable[[str, int], WorkerSettings]
"""The worker at a host and port. The host is a name or an address, IPv6 without brackets."""


def make_worker_factory(scheme: str, traits: FoundTraits) -> WorkerFactory:
    """For one source. It raises SourceFailed for what is no address.

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

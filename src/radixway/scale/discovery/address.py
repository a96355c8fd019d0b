"""A worker, of what sources say of its place."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from yarl import URL

from radixway.config import FoundTraits, WorkerSection
from radixway.scale.discovery.source import SourceFailed

_MOST = 20_000

At = Callable[[str, int], WorkerSection]
"""The worker at a host and port. The host is a name or an address, IPv6 without brackets."""


def workers_at(scheme: str, traits: FoundTraits) -> At:
    """For one source. It raises SourceFailed for what is no address.

    Sources tell all workers again whenever one has changed: a worker that was made before is the same object,
    which takes a twentieth of the time of making it.
    """

    @lru_cache(_MOST)
    def at(host: str, port: int) -> WorkerSection:
        try:
            return traits.at(str(URL.build(scheme=scheme, host=host, port=port)))
        except ValueError as error:
            raise SourceFailed(f"{host!r} port {port} is no worker's address: {error}") from None

    return at

"""Requests that have been admitted and wait for a part of their prefix to come up from a lower tier.

    waiting ──admit──► loading ──arrived──► running          abort: loading ──► leaving ──arrived──► gone

They hold their place and their pages, which must not be given to others before the transfer thread is done
with them, not even when the request has been aborted.
"""

from collections.abc import Iterator

from radixway.engine.cache import PrefixCache
from radixway.engine.request import Request


class Loading:
    """Loading requests, by id, and those whose pages are still being filled for nobody."""

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._requests: dict[str, Request] = {}
        self._leaving: list[Request] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests.values())

    def __contains__(self, request: Request) -> bool:
        return self._requests.get(request.id) is request

    @property
    def holding(self) -> list[Request]:
        """All that have pages."""
        return [*self._requests.values(), *self._leaving]

    def begin(self, request: Request) -> bool:
        """Fetch what lower tiers have of a request that has just been pinned. False: nothing to wait for."""
        if not self._cache.fetch(request):
            return False
        self._requests[request.id] = request
        return True

    def arrived(self, wait_s: float | None = 0.0) -> list[Request]:
        """Those that have what they waited for. Waits up to `wait_s` (None: for long) for the first."""
        ready = []
        for load in self._cache.arrived(wait_s):
            request = load.request
            if request.cached_tokens < 0:
                request.host_tokens = load.from_host * self._cache.page_size
                request.disk_tokens = load.from_disk * self._cache.page_size
            if request in self:
                del self._requests[request.id]
                ready.append(request)
            else:
                self._leaving.remove(request)
                self._cache.release(request)
        return ready

    def abandon(self, request: Request) -> None:
        """Nobody wants this one any more; its pages come back once they have been filled."""
        del self._requests[request.id]
        self._leaving.append(request)

    def settle(self) -> list[Request]:
        """Wait until nothing is on its way; those that have what they waited for."""
        ready = []
        while self.holding:
            ready += self.arrived(None)
        return ready

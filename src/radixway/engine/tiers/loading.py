"""Requests that have been admitted and wait for KV: from a lower tier, and then from a prefill engine.

    waiting ──admit──► loading ──arrived──► running          abort: loading ──► leaving ──arrived──► gone

They hold their place and their pages, which must not be given to others before the transfer thread is done
with them, not even when the request has been aborted. (What comes from another engine can be cut at once.)
"""

from collections.abc import Iterator

from radixway.engine.cache import PrefixCache
from radixway.engine.disaggregation.arrivals import Arrival, Arrivals
from radixway.engine.request import Request

WORTH_WAITING = 32
"""Tokens below which they are computed here, although another engine computes them too: that takes a step."""


class Loading:
    """Loading requests, by id, and those whose pages are still being filled for nobody."""

    def __init__(self, cache: PrefixCache, arrivals: Arrivals | None = None) -> None:
        self._cache = cache
        self._arrivals = arrivals
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
        """Fetch what others have of a request that has just been pinned. False: nothing to wait for."""
        if not self._cache.fetch(request) and not self._receive(request):
            return False
        self._requests[request.id] = request
        return True

    def arrived(self, wait_s: float | None = 0.0) -> list[Request]:
        """Those that have what they waited for. Waits up to `wait_s` (None: for long) for the first."""
        if self._arrivals is None or not len(self._arrivals):
            return self._loaded(wait_s)
        ready = self._loaded()
        for arrival in self._arrivals.arrived(0.0 if ready else wait_s or 0.0):
            ready.append(self._take(arrival))
        return ready

    def abandon(self, request: Request) -> None:
        """Nobody wants this one any more; its pages come back once they have been filled."""
        if (arrival := self._cut(request, "aborted")) is not None:
            self._cache.release(self._take(arrival))
        else:
            del self._requests[request.id]
            self._leaving.append(request)

    def settle(self) -> list[Request]:
        """Wait until nothing is on its way; those that have what they waited for.

        What another engine has not sent yet is not waited for.
        """
        ready = []
        for request in list(self):
            request.room = None
            if (arrival := self._cut(request, "everything on its way was stopped")) is not None:
                ready.append(self._take(arrival))
        while self.holding:
            ready += self.arrived(None)
        return ready

    def _loaded(self, wait_s: float | None = 0.0) -> list[Request]:
        """What has come up from lower tiers: those that need not wait for another engine then."""
        ready = []
        for load in self._cache.arrived(wait_s):
            request = load.request
            if request.cached_tokens < 0:
                request.host_tokens = load.from_host * self._cache.page_size
                request.disk_tokens = load.from_disk * self._cache.page_size
            if request not in self:
                self._leaving.remove(request)
                self._cache.release(request)
            elif not self._receive(request):
                del self._requests[request.id]
                ready.append(request)
        return ready

    def _receive(self, request: Request) -> bool:
        """Fetch what is missing from the prefill engine. False: there is none, or it would not pay."""
        room, request.room = request.room, None
        if room is None or self._arrivals is None:
            return False
        stop = request.reusable
        if stop - request.computed < WORTH_WAITING or not self._cache.extend(request, stop):
            self._arrivals.decline(request, room)
            return False
        self._arrivals.fetch(request, room, stop)
        return True

    def _cut(self, request: Request, reason: str) -> Arrival | None:
        return self._arrivals.cut(request, reason) if self._arrivals is not None else None

    def _take(self, arrival: Arrival) -> Request:
        """The request goes on with what came."""
        request = arrival.request
        del self._requests[request.id]
        request.computed = arrival.tokens(self._cache.page_size)
        if request.cached_tokens < 0:
            request.remote_tokens = request.computed - arrival.first
        self._cache.publish(request)
        return request

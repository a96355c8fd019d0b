"""Who is admitted next: the waiting requests, and the order they should run in to share most."""

from collections.abc import Iterable, Iterator
from typing import Literal

from radixway.engine.cache import PrefixCache
from radixway.engine.request import Request

Order = Literal["lpm", "fcfs"]

CONSIDERED = 256
"""Requests looked at in one pass, first by rank: what more could gain is not worth a longer step."""

STARVING = 100
"""A request that this many later ones were admitted before goes first, whatever its prefix and priority."""


class WaitingQueue:
    """Waiting requests, by id. `order` is the rule among requests of one priority."""

    def __init__(self, cache: PrefixCache, order: Order = "lpm") -> None:
        self._cache = cache
        self._order = order
        self._waiting: dict[str, Request] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._waiting.values())

    def add(self, request: Request) -> None:
        """Wait (again, if it was preempted)."""
        self._waiting[request.id] = request

    def take(self, request_id: str) -> Request | None:
        """Stop waiting."""
        return self._waiting.pop(request_id, None)

    def candidates(self, running: Iterable[Request]) -> list[Request]:
        """Those to admit, in order. What they would share with each other is computed once:

        the first that needs a page which is not cached yet *claims* it, as do running requests that are about
        to compute one; others that need the same page next are left out, and find it cached in a later step.
        """
        first = list(self)
        if len(first) > CONSIDERED:
            first = sorted(first, key=lambda r: (r.passed < STARVING, -r.priority, r.arrival))[:CONSIDERED]
        cached = {request.id: self._cache.look(request) for request in first}
        prefix = cached if self._order == "lpm" else dict.fromkeys(cached, 0)
        first.sort(key=lambda r: (r.passed < STARVING, -r.priority, -prefix[r.id], r.arrival))
        if not self._cache.enabled:
            return first
        claims = {
            self._cache.next_page(request, request.shared) for request in running if request.remaining > 1
        }
        claims.discard(None)
        leaders = []
        for request in first:
            at = cached[request.id]
            page = self._cache.next_page(request, at)
            if page in claims and at + self._cache.page_size <= request.reusable:
                continue
            leaders.append(request)
            if page is not None:
                claims.add(page)
        return leaders

    def admitted(self, request: Request) -> None:
        """Move a request from waiting to running, and count it against those it has passed."""
        del self._waiting[request.id]
        for other in self._waiting.values():
            other.passed += other.arrival < request.arrival

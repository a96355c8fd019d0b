"""The waiting requests, and the order of admission in which they share most."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from radixway.engine.engine_request import EngineRequest
from radixway.engine.kv_cache_manager import KVCacheManager

AdmissionOrder = Literal["lpm", "dfs_weight", "fcfs", "priority"]
"""Who goes first (SGLang's names). All but `fcfs` go by priority, and among requests of one priority by

- `lpm`: the longest cached prefix, then arrival;
- `dfs_weight`: a walk of the tree, busiest branch first, so that requests of one branch follow each other;
- `priority`: arrival.
"""

MAX_CONSIDERED_REQUESTS = 256
"""Requests looked at in one pass, first by rank: what more could gain is not worth a longer step."""

MAX_TIMES_PASSED = 100
"""A request that this many later ones were admitted before goes first, whatever its prefix and priority."""


class WaitingQueue:
    """Waiting requests, by id."""

    def __init__(self, cache: KVCacheManager, order: AdmissionOrder = "lpm") -> None:
        self._cache = cache
        self._order = order
        self._waiting: dict[str, EngineRequest] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[EngineRequest]:
        return iter(self._waiting.values())

    def add_request(self, request: EngineRequest) -> None:
        """Queue `request` (again, if it was preempted)."""
        self._waiting[request.id] = request

    def remove_request(self, request_id: str) -> EngineRequest | None:
        """Remove request `request_id` from the queue; None if it does not wait."""
        return self._waiting.pop(request_id, None)

    def admission_order(self, running: Iterable[EngineRequest]) -> list[EngineRequest]:
        """Return the requests to admit, in order. What they would share is computed once:

        the first that needs a page which is not cached yet *claims* it, as do running requests that are about
        to compute one; others that need the same page next are left out, and find it cached in a later step.
        """
        first = sorted(self, key=lambda r: (*self._admission_class(r), r.arrival))[:MAX_CONSIDERED_REQUESTS]
        cached = {request.id: self._cache.match_prefix(request) for request in first}
        if self._order == "lpm":
            first.sort(key=lambda r: (*self._admission_class(r), -cached[r.id]))
        elif self._order == "dfs_weight":
            places = _walk_busiest_first(first)
            first.sort(key=lambda r: (*self._admission_class(r), places[r.id]))
        if not self._cache.enabled:
            return first
        claims = {
            self._cache.next_page_key(request, request.num_shared_tokens)
            for request in running
            if request.num_remaining_tokens > 1
        }
        claims.discard(None)
        leaders = []
        for request in first:
            at = cached[request.id]
            page = self._cache.next_page_key(request, at)
            if page in claims and at + self._cache.page_size <= request.num_reusable_tokens:
                continue
            leaders.append(request)
            if page is not None:
                claims.add(page)
        return leaders

    def mark_admitted(self, request: EngineRequest) -> None:
        """Remove an admitted `request`, and count it against the earlier ones that it has passed."""
        del self._waiting[request.id]
        for other in self._waiting.values():
            other.times_passed += other.arrival < request.arrival

    def _admission_class(self, request: EngineRequest) -> tuple[bool, int]:
        """Return what ranks before prefixes and arrival."""
        return request.times_passed < MAX_TIMES_PASSED, 0 if self._order == "fcfs" else -request.priority


def _walk_busiest_first(requests: Sequence[EngineRequest]) -> dict[str, int]:
    """Return each request's place in a depth-first walk that enters busy branches first.

    A request stands where its cached prefix ends, behind those that stand deeper; the order of `requests`
    decides between branches with equally many.
    """
    paths = {r.id: r.match.node.path_from_root() if r.match is not None else [] for r in requests}
    busy = Counter(node for path in paths.values() for node in path)
    branch = {node: (-count, i) for i, (node, count) in enumerate(busy.items())}
    walked = sorted(paths, key=lambda name: [*(branch[node] for node in paths[name]), (1, 0)])
    return {name: place for place, name in enumerate(walked)}

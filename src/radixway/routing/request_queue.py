"""The bounded queue in front of the workers: who waits, and who is next when a place frees.

Every waiting request has a rank, in seconds, and the lowest goes first:

    rank = arrival - aging_s · priority + 4 · prefill_s              shortest_prefill_first
    rank = arrival - aging_s · priority                              fcfs
    rank = arrival - aging_s · priority + aging_s · uncached / 1000  shortest_uncached_first

Waiting does not raise a request's priority; later requests start lower. One that arrives later by more than
twice `aging_s · most_priority` and what is added for the prefill queues behind it, so no request starves.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from math import ceil
from typing import Generic, TypeVar

from radixway.core.config import QueueConfig
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker

_REFRESHED_PER_LINE = 8
"""Requests at the front of each line whose prefixes are looked up again when a place frees."""
_OFFERED_PER_LINE = 16
"""Requests at the front of each line that are offered places."""
_PREFILL_WEIGHT = 4.0
"""Seconds of waiting that a second of prefill weighs."""
_MAX_RETRY_AFTER_S = 60
_FORGET = 0.9


class OfferResult(Enum):
    """What became of an offer of free places to a waiting request."""

    TAKEN = 1
    PASSED = 2
    """It waits for another one; those behind it may take what it left."""
    BLOCKED = 3
    """There is no place for it, and so none for its line."""


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request in the queue."""

    prompt: RoutingRequest
    line: Hashable
    """Requests of one line can use the same workers, so the first of it goes before all others of it."""
    arrived: float
    """Monotonic seconds."""
    priority: int = 0
    uncached_tokens: int = 0
    """Tokens that the worker with the longest match would still prefill."""
    prefill_s: float = 0.0
    """Expected seconds of its prefill there; 0 before rates are known."""
    hold_until: float = 0.0
    """Until then it may wait for the worker that it prefers (`late_binding.py`); monotonic seconds."""
    preferred: Worker | None = None
    """The worker that it waits for, once it has been asked."""
    rank: float = field(default=0.0, init=False)
    number: int = field(default=0, init=False)
    """Settles equal ranks by who came first."""

    def __lt__(self, other: QueuedRequest) -> bool:
        return (self.rank, self.number) < (other.rank, other.number)


W = TypeVar("W", bound=QueuedRequest)


class RequestQueue(Generic[W]):
    """At most `size` requests in lines, one per set of workers that can serve them. Synchronous and pure."""

    def __init__(self, config: QueueConfig) -> None:
        self._config = config
        self._by_size = config.order == "shortest_uncached_first"
        self._prefill_weight = _PREFILL_WEIGHT * (config.order == "shortest_prefill_first")
        self._lines: dict[Hashable, list[W]] = {}
        self._size = 0
        self._came = 0
        self._last_served: float | None = None
        self._interval_s: float | None = None

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[W]:
        return (waiting for line in tuple(self._lines.values()) for waiting in tuple(line))

    def clamp_priority(self, given: int) -> int:
        """Return the request's priority as higher first, clamped to the limits."""
        limit = self._config.most_priority
        return max(-limit, min(limit, -given if self._config.lower_priority_first else given))

    def count_ahead(self, waiting: W) -> int:
        """Return the number of requests ahead of `waiting`."""
        return sum(other < waiting for other in self)

    def enqueue(self, waiting: W) -> W | None:
        """Add `waiting` to its line; returns the request that the full queue rejects, if any.

        When the queue is full that is the newcomer, or one of lower priority that stands last, behind it.
        """
        self._came += 1
        waiting.number = self._came
        waiting.rank = self._rank(waiting)
        left_out = None
        if self._size >= self._config.size:
            left_out = max((line[-1] for line in self._lines.values()), default=waiting)
            if left_out < waiting or left_out.priority >= waiting.priority:
                return waiting
            self.dequeue(left_out)
        insort(self._lines.setdefault(waiting.line, []), waiting)
        self._size += 1
        return left_out

    def dequeue(self, waiting: W) -> None:
        """Remove `waiting`. Does nothing if it is not in the queue."""
        line = self._lines.get(waiting.line)
        if line is not None and waiting in line:
            line.remove(waiting)
            self._size -= 1
            if not line:
                del self._lines[waiting.line]
        if not self._size:
            self._last_served = None  # the next place will not have been waited for

    def fill_free_slots(
        self, offer: Callable[[W], OfferResult], uncached: Callable[[W], int], now: float
    ) -> None:
        """Offer free places to the next requests until none of them can use one.

        `offer` gives the request a place if it finds one; it leaves the queue then. `uncached` looks up its
        uncached tokens as they are now. Behind the first `_OFFERED_PER_LINE` of a line that pass, only those
        are asked that may not pass any longer at `now`.
        """
        for line in self._lines.values():
            self._sort_line(line, uncached)
        positions = dict.fromkeys(self._lines, 0)
        while positions:
            first = min(self._lines[name][at] for name, at in positions.items())
            name = first.line
            match offer(first):
                case OfferResult.TAKEN:
                    self._note_service(now)
                    self.dequeue(first)
                    if name in self._lines and not positions[name]:
                        self._sort_line(self._lines[name], uncached)
                case OfferResult.PASSED:
                    positions[name] += 1
                case OfferResult.BLOCKED:
                    del positions[name]
                    continue
            line, at = self._lines.get(name, []), positions[name]
            while _OFFERED_PER_LINE <= at < len(line) and line[at].hold_until > now:
                at += 1
            if at < len(line):
                positions[name] = at
            else:
                del positions[name]

    def estimate_drain_s(self) -> float | None:
        """Expected seconds until one more request than now wait has been served; None before it is known."""
        return None if self._interval_s is None else self._interval_s * (self._size + 1)

    def estimate_retry_after_s(self) -> int:
        """Return a `Retry-After` for refused clients: whole seconds, 1 to 60."""
        return min(_MAX_RETRY_AFTER_S, max(1, ceil(self.estimate_drain_s() or 1)))

    def check(self) -> None:
        """Assert what always holds."""
        assert self._size == sum(map(len, self._lines.values())) <= self._config.size
        for name, line in self._lines.items():
            assert line and line == sorted(line) and all(waiting.line == name for waiting in line)

    def _rank(self, waiting: W) -> float:
        steps = waiting.uncached_tokens / 1000 * self._by_size - waiting.priority
        return waiting.arrived + self._config.aging_s * steps + self._prefill_weight * waiting.prefill_s

    def _sort_line(self, line: list[W], uncached: Callable[[W], int]) -> None:
        """Sort `line` by ranks as they are now, of which those at its front are computed again."""
        if self._by_size:
            for waiting in islice(line, _REFRESHED_PER_LINE):
                waiting.uncached_tokens = uncached(waiting)
                waiting.rank = self._rank(waiting)
        elif self._prefill_weight:
            for waiting in islice(line, _OFFERED_PER_LINE):
                waiting.rank = self._rank(waiting)
        line.sort()  # nearly sorted: cheap

    def _note_service(self, now: float) -> None:
        if self._last_served is not None:
            took = now - self._last_served
            known = self._interval_s
            self._interval_s = took if known is None else _FORGET * known + (1 - _FORGET) * took
        self._last_served = now

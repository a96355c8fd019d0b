"""What each step computes. Pure decisions over requests, cache and queue: no model, no clock, no threads.

    add ──► waiting ──admit──► running ──finish──► (the engine)
               ▲         └► loading ┘ │
               └─────preempt──────────┘   the pages stay cached: coming back is a cache hit, unless evicted

Loading are those whose prefix comes up from a lower tier of the cache, or from a prefill engine; the others
go on. In a prefill engine, those that have finished keep their pages (departing) until their KV is sent.

Every step takes running requests first (one token each, or the next chunk of a prompt), then admits waiting
ones while tokens, places and pages last.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from radixway.engine.cache import PrefixCache
from radixway.engine.disaggregation import Arrivals, Departures
from radixway.engine.queue import Order, WaitingQueue
from radixway.engine.request import Request
from radixway.engine.tiers.loading import Loading


class Work(NamedTuple):
    """One request's part of a step: compute the KV of its next `tokens` tokens."""

    request: Request
    tokens: int

    @property
    def samples(self) -> bool:
        """Whether it reaches the end of what is known, so that the next token can be sampled."""
        return self.tokens == self.request.remaining


class Scheduler:
    """Owns the requests' states. After `schedule`, compute the work; `advance`; and `finish` what ended."""

    def __init__(
        self,
        cache: PrefixCache,
        *,
        max_running: int,
        max_batch_tokens: int,
        order: Order = "lpm",
        side: Arrivals | Departures | None = None,
    ) -> None:
        """`side`: of a pair of engines, one of which prefills for the other."""
        self.cache = cache
        self.max_running = max_running
        self.max_batch_tokens = max(max_batch_tokens, max_running)
        self.waiting = WaitingQueue(cache, order)
        self.running: dict[str, Request] = {}
        self.loading = Loading(cache, side if isinstance(side, Arrivals) else None)
        self.departing: list[Request] = []
        self._departures = side if isinstance(side, Departures) else None
        self.preemptions = 0

    def add(self, request: Request) -> None:
        """Let a request wait for its turn. Its `max_len` must fit the pool."""
        self.waiting.add(request)

    def schedule(self) -> list[Work]:
        """The work of the next step: at most `max_batch_tokens` tokens, their pages taken."""
        self.await_load(0)
        self.release_departed()
        work: dict[str, Work] = {}
        budget = self.max_batch_tokens
        preempted = self.preemptions
        for request in sorted(self.running.values(), key=lambda r: (r.remaining > 1, r.rank)):
            tokens = min(budget, request.remaining)
            if tokens and request.id in self.running and self._make_room(request, tokens, work):
                work[request.id] = Work(request, tokens)
                budget -= tokens
        if self.preemptions == preempted and budget and self._places and self.waiting:
            for request in self.waiting.candidates(self._admitted):
                if not budget or not self._places or not self._admit(request):
                    break
                if request in self.loading:
                    continue
                tokens = min(budget, request.remaining)
                taken = self.cache.extend(request, request.computed + tokens)
                assert taken, "its pages were counted when it was admitted"
                work[request.id] = Work(request, tokens)
                budget -= tokens
        return list(work.values())

    def advance(self, work: list[Work]) -> None:
        """The work has been computed: its full pages are there for everyone."""
        for request, tokens in work:
            request.computed += tokens
            with request.departure.moving() if request.departure is not None else nullcontext():
                self.cache.publish(request)

    def finish(self, request: Request) -> None:
        """Take a request out, wherever it is (also to abort it). Its pages are free, or cached, at once.

        Unless its KV has still to be sent: then they are when it has been.
        """
        if self.running.pop(request.id, None) is not None:
            if request.departure is None or request.departure.is_over:
                self.cache.release(request)
            else:
                self.departing.append(request)
        elif request in self.loading:
            self.loading.abandon(request)
        else:
            self.waiting.take(request.id)

    def retract(self, which: Callable[[Request], bool] = lambda request: True) -> None:
        """Put running requests back into the queue; what they computed stays cached while there is room."""
        self.settle()
        for request in [request for request in self.running.values() if which(request)]:
            self._preempt(request)

    def clear(self) -> None:
        """Forget every cached prefix, in every tier. No request may be running."""
        self.settle()
        self.release_departed()
        self.cache.clear()

    def await_load(self, most_s: float) -> None:
        """Wait for one of the requests that are loading, or else for pages that are being sent."""
        for request in self.loading.arrived(most_s):
            self._run(request)
        if most_s and self.departing and not self.loading:
            self.release_departed(most_s)

    def release_departed(self, wait_s: float = 0.0) -> None:
        """Free the pages of finished requests whose KV has been sent; waits up to `wait_s` for the first."""
        if self._departures is None:
            return
        self._departures.ended(wait_s)
        staying = []  # one may be over whose sender has yet to tell of it
        for request in self.departing:
            if request.departure is None or request.departure.is_over:
                self.cache.release(request)
            else:
                staying.append(request)
        self.departing = staying

    def settle(self) -> None:
        """Wait until nothing is on its way up from a lower tier."""
        for request in self.loading.settle():
            self._run(request)

    def check(self) -> None:
        """Verify all invariants, by recomputing them."""
        assert not self.running.keys() & {request.id for request in (*self.waiting, *self.loading)}
        assert not {request.id for request in self.waiting} & {request.id for request in self.loading}
        assert self._places >= 0
        for request in self.waiting:
            assert not request.pages and not request.computed and request.node is None
        self.cache.check([*self.running.values(), *self.loading.holding, *self.departing])

    @property
    def _admitted(self) -> list[Request]:
        return [*self.running.values(), *self.loading]

    @property
    def _places(self) -> int:
        return self.max_running - len(self.running) - len(self.loading)

    def _make_room(self, request: Request, tokens: int, work: dict[str, Work]) -> bool:
        """Find pages for its next tokens; preempt for them, last in rank first, itself if it is that."""
        while not self.cache.extend(request, request.computed + tokens):
            victim = max(self.running.values(), key=lambda r: r.rank)
            self._preempt(victim)
            work.pop(victim.id, None)
            if victim is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        del self.running[request.id]
        if request.departure is not None:
            request.departure.let_go()
        self.cache.release(request)
        self.waiting.add(request)
        self.preemptions += 1

    def _admit(self, request: Request) -> bool:
        """Start a waiting request if its prompt and a little more fit.

        Optimistic: tokens it may sample later are not counted, since running out costs only a preemption.
        Counted are what running prompts still need, and a page of headroom for each running request.
        """
        promised = sum(self._missing_pages(other) + 1 for other in self._admitted)
        if self.cache.cost(request, self._wanted(request)) + promised > self.cache.available:
            return False
        self.cache.pin(request)
        self.waiting.admitted(request)
        if not self.loading.begin(request):
            self._run(request)
        return True

    def _run(self, request: Request) -> None:
        if request.cached_tokens < 0:
            request.cached_tokens = request.computed - request.remote_tokens
        if request.departure is not None:
            request.departure.hold()
        self.running[request.id] = request

    def _missing_pages(self, request: Request) -> int:
        """Pages a running request needs beyond those it has."""
        return max(0, self.cache.pages(self._wanted(request)) - len(request.pages))

    @staticmethod
    def _wanted(request: Request) -> int:
        """All its tokens and one more."""
        return min(len(request.tokens) + 1, request.max_len)

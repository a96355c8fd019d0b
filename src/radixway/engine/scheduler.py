"""Decides what each step computes: pure decisions over requests, cache and queue; no model, clock or
threads.

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

from radixway.engine.disaggregation import DecodeKVManager, PrefillKVManager
from radixway.engine.engine_request import EngineRequest, ScheduledRequest
from radixway.engine.kv_cache_manager import KVCacheManager
from radixway.engine.loading_requests import LoadingRequests
from radixway.engine.waiting_queue import AdmissionOrder, WaitingQueue


class Scheduler:
    """Owns the requests' states: `schedule`, compute, `update_after_step`, `finish_request` what ended."""

    def __init__(
        self,
        cache: KVCacheManager,
        *,
        max_running: int,
        max_batch_tokens: int,
        order: AdmissionOrder = "lpm",
        transfer_manager: DecodeKVManager | PrefillKVManager | None = None,
    ) -> None:
        """`transfer_manager`: this engine's side of prefill and decode in two engines, if it has one."""
        self.cache = cache
        self.max_running = max_running
        self.max_batch_tokens = max(max_batch_tokens, max_running)
        self.waiting = WaitingQueue(cache, order)
        self.running: dict[str, EngineRequest] = {}
        decoding = transfer_manager if isinstance(transfer_manager, DecodeKVManager) else None
        self.loading = LoadingRequests(cache, decoding)
        self.departing: list[EngineRequest] = []
        self._prefill_manager = transfer_manager if isinstance(transfer_manager, PrefillKVManager) else None
        self.preemptions = 0

    def add_request(self, request: EngineRequest) -> None:
        """Queue `request`. Its `max_len` must fit the pool."""
        self.waiting.add_request(request)

    def schedule(self) -> list[ScheduledRequest]:
        """The work of the next step: at most `max_batch_tokens` tokens, their pages taken."""
        self.wait_for_load(0)
        self.free_sent_requests()
        work: dict[str, ScheduledRequest] = {}
        budget = self.max_batch_tokens
        preempted = self.preemptions
        by_rank = sorted(self.running.values(), key=lambda r: (r.num_remaining_tokens > 1, r.schedule_rank))
        for request in by_rank:
            tokens = min(budget, request.num_remaining_tokens)
            if tokens and request.id in self.running and self._allocate_or_preempt(request, tokens, work):
                work[request.id] = ScheduledRequest(request, tokens)
                budget -= tokens
        if self.preemptions == preempted and budget and self._free_places and self.waiting:
            for request in self.waiting.admission_order(self._admitted_requests):
                if not budget or not self._free_places or not self._admit_request(request):
                    break
                if request in self.loading:
                    continue
                tokens = min(budget, request.num_remaining_tokens)
                taken = self.cache.allocate_slots(request, request.num_computed_tokens + tokens)
                assert taken, "its pages were counted when it was admitted"
                work[request.id] = ScheduledRequest(request, tokens)
                budget -= tokens
        return list(work.values())

    def update_after_step(self, work: list[ScheduledRequest]) -> None:
        """Advance the requests of the computed `work`; insert their full pages into the cache."""
        for request, tokens in work:
            request.num_computed_tokens += tokens
            with request.kv_sender.page_move() if request.kv_sender is not None else nullcontext():
                self.cache.insert_pages(request)

    def finish_request(self, request: EngineRequest) -> None:
        """Remove `request`, wherever it is (also to abort it). Its pages are free, or cached, at once.

        Unless its KV has still to be sent: then they are when it has been.
        """
        if self.running.pop(request.id, None) is not None:
            if request.kv_sender is None or request.kv_sender.is_over:
                self.cache.free_request(request)
            else:
                self.departing.append(request)
        elif request in self.loading:
            self.loading.abandon_request(request)
        else:
            self.waiting.remove_request(request.id)

    def retract_requests(self, which: Callable[[EngineRequest], bool] = lambda request: True) -> None:
        """Put the running requests selected by `which` back into the queue; their KV may stay cached."""
        self.settle_loads()
        for request in [request for request in self.running.values() if which(request)]:
            self._preempt_request(request)

    def reset_prefix_cache(self) -> None:
        """Drop every cached prefix, in every tier. No request may be running."""
        self.settle_loads()
        self.free_sent_requests()
        self.cache.reset_prefix_cache()

    def wait_for_load(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds for a loading request, or else for pages that are being sent."""
        for request in self.loading.poll_ready(timeout_s):
            self._start_running(request)
        if timeout_s and self.departing and not self.loading:
            self.free_sent_requests(timeout_s)

    def free_sent_requests(self, wait_s: float = 0.0) -> None:
        """Free the pages of finished requests whose KV has been sent; waits up to `wait_s` for the first."""
        if self._prefill_manager is None:
            return
        self._prefill_manager.poll_ended(wait_s)
        staying = []  # one may be over whose sender has yet to tell of it
        for request in self.departing:
            if request.kv_sender is None or request.kv_sender.is_over:
                self.cache.free_request(request)
            else:
                staying.append(request)
        self.departing = staying

    def settle_loads(self) -> None:
        """Wait until nothing is on its way up from a lower tier."""
        for request in self.loading.wait_all():
            self._start_running(request)

    def check(self) -> None:
        """Verify all invariants, by recomputing them."""
        assert not self.running.keys() & {request.id for request in (*self.waiting, *self.loading)}
        assert not {request.id for request in self.waiting} & {request.id for request in self.loading}
        assert self._free_places >= 0
        for request in self.waiting:
            assert not request.pages and not request.num_computed_tokens and request.node is None
        self.cache.check([*self.running.values(), *self.loading.requests_with_pages, *self.departing])

    @property
    def _admitted_requests(self) -> list[EngineRequest]:
        return [*self.running.values(), *self.loading]

    @property
    def _free_places(self) -> int:
        return self.max_running - len(self.running) - len(self.loading)

    def _allocate_or_preempt(
        self, request: EngineRequest, tokens: int, work: dict[str, ScheduledRequest]
    ) -> bool:
        """Allocate pages for the next tokens, preempting from the lowest rank, itself included."""
        while not self.cache.allocate_slots(request, request.num_computed_tokens + tokens):
            victim = max(self.running.values(), key=lambda r: r.schedule_rank)
            self._preempt_request(victim)
            work.pop(victim.id, None)
            if victim is request:
                return False
        return True

    def _preempt_request(self, request: EngineRequest) -> None:
        del self.running[request.id]
        if request.kv_sender is not None:
            request.kv_sender.release_pages()
        self.cache.free_request(request)
        self.waiting.add_request(request)
        self.preemptions += 1

    def _admit_request(self, request: EngineRequest) -> bool:
        """Start a waiting request if its prompt and a little more fit.

        Optimistic: tokens it may sample later are not counted, since running out costs only a preemption.
        Counted are what running prompts still need, and a page of headroom for each running request.
        """
        promised = sum(self._missing_pages(other) + 1 for other in self._admitted_requests)
        if (
            self.cache.required_pages(request, self._target_length(request)) + promised
            > self.cache.num_available_pages
        ):
            return False
        self.cache.lock_prefix(request)
        self.waiting.mark_admitted(request)
        if not self.loading.start_loading(request):
            self._start_running(request)
        return True

    def _start_running(self, request: EngineRequest) -> None:
        if request.cached_tokens < 0:
            request.cached_tokens = request.num_computed_tokens - request.remote_tokens
        if request.kv_sender is not None:
            request.kv_sender.hold_pages()
        self.running[request.id] = request

    def _missing_pages(self, request: EngineRequest) -> int:
        return max(0, self.cache.count_pages(self._target_length(request)) - len(request.pages))

    @staticmethod
    def _target_length(request: EngineRequest) -> int:
        return min(len(request.tokens) + 1, request.max_len)

"""Requests that wait for a place: for a worker below its limits, or for the one they prefer to be free."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from radixway.core.config import RoutingConfig
from radixway.core.pipeline import GatewayError, OverloadedError, RefusalReason, Request
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import RoutingRequest, Selector, Worker, WorkerChoice, WorkerRegistry, WorkerState
from radixway.routing.late_binding import LateBinding
from radixway.routing.request_queue import OfferResult, QueuedRequest, RequestQueue
from radixway.routing.transports.assignment import WorkerAssignment
from radixway.routing.worker_load import NOTHING


class PlaceFinder(Protocol):
    """What `AdmissionController` knows of places."""

    def ready_workers(self, request: Request) -> Sequence[Worker]:
        """Return the workers that may answer `request`, at their limits or not."""

    def filter_with_capacity(self, candidates: Sequence[Worker], prompt: RoutingRequest) -> Sequence[Worker]:
        """Return the `candidates` that are below their limits."""

    def needs_pair(self, candidates: Sequence[Worker]) -> bool:
        """Return True if a prefill and a decode worker are chosen together."""

    def assign_from(
        self,
        request: Request,
        prompt: RoutingRequest,
        candidates: Sequence[Worker],
        choice: WorkerChoice | None = None,
    ) -> WorkerAssignment:
        """Take a place at the worker of `choice`, or of the policy's choice among `candidates`."""


@dataclass(slots=True, eq=False, kw_only=True)
class _WaitingRequest(QueuedRequest):
    request: Request
    place: asyncio.Future[WorkerAssignment]
    since: float
    """When it joined the queue; monotonic seconds."""
    ahead: int = 0
    """How many stood before it when it came."""
    reason: str = "prefill"
    """What it waits for: `prefill`, a worker whose prefills are done, or `limit`, one below its limit."""


class WaitingRequests:
    """The queue, and what wakes it: a place that frees, a first token, and one timer for what is expected."""

    def __init__(
        self,
        finder: PlaceFinder,
        registry: WorkerRegistry,
        selector: Selector,
        metrics: MetricsRegistry,
        config: RoutingConfig,
    ) -> None:
        self._finder = finder
        self._registry = registry
        self._selector = selector
        self._metrics = metrics
        self._config = config
        self._binding = LateBinding(selector, config.queue)
        self._queue: RequestQueue[_WaitingRequest] = RequestQueue(config.queue)
        self._timer: asyncio.TimerHandle | None = None
        self._limited = False
        self.reserved: set[Worker] = set()
        """Workers reserved for the first of a line, though others would fit sooner."""
        metrics.gauge("radixway_queued", "Requests that wait for a worker", lambda: len(self._queue))

    def __len__(self) -> int:
        return len(self._queue)

    def set_limited(self, limited: bool) -> None:
        """Note whether workers have limits: then every release may free a place."""
        self._limited = limited
        self._set_wakers()

    def estimate_drain_s(self) -> float:
        """Return the seconds in which those that wait are expected to be served; 0 if that is not known."""
        return self._queue.estimate_drain_s() or 0.0

    def should_wait(self, request: Request, choice: WorkerChoice) -> bool:
        """Return True if `request` may wait for the worker of `choice`, which is busy or waited for."""
        load = choice.worker.load
        if not load.prefilling and load.elsewhere is NOTHING and not self._queue:
            return False  # of what follows most requests are spared
        if not self._queue and self._binding.is_free(choice.worker, self._selector.ledger.clock()):
            return False
        return self._may_hold(request, choice.request, self._finder.ready_workers(request))

    async def wait_for_place(self, request: Request, prompt: RoutingRequest) -> WorkerAssignment:
        """Wait for an assignment; a client that leaves frees its place. Raises GatewayError if refused."""
        loop, now = asyncio.get_running_loop(), self._selector.ledger.clock()
        elapsed_s, candidates = request.journal.elapsed_s(), self._finder.ready_workers(request)
        waiting = _WaitingRequest(
            prompt,
            (request.model, request.pinned, *self._tenant_line(request)),
            now - elapsed_s,
            self._queue.clamp_priority(request.priority),
            min(self._selector.uncached_tokens(prompt, candidates), default=prompt.tokens),
            request=request,
            place=loop.create_future(),
            since=now,
        )
        if self._may_hold(request, prompt, candidates):
            left_s = None if request.ttft_s is None else request.ttft_s - elapsed_s
            self._binding.hold_request(waiting, candidates, left_s)
        if not self._enqueue(waiting):
            return waiting.place.result()
        waiting.ahead = self._queue.count_ahead(waiting)
        self.serve()
        limit_s, reason, message = self._wait_limit(request, elapsed_s)
        timer = loop.call_later(limit_s, lambda: self._end_wait(waiting, reason, message))
        try:
            place = await waiting.place
        except asyncio.CancelledError:
            if not waiting.place.cancelled() and waiting.place.exception() is None:
                waiting.place.result().release()  # it came in the same moment
            raise
        finally:
            timer.cancel()
            self._queue.dequeue(waiting)
            self.serve()
        return place

    def serve(self) -> None:
        """Give places to those that wait, as far as there are any."""
        self.reserved.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue:
            self._binding.begin_offers(self._queue)
            self._queue.fill_free_slots(self._offer, self._uncached, self._selector.ledger.clock())
        self._set_wakers()

    def end_hopeless(self, error: Callable[[Request], GatewayError | None]) -> None:
        """Reject those for which `error` gives one."""
        for waiting in tuple(self._queue):
            if (refusal := error(waiting.request)) is not None:
                self._reject(waiting, refusal)

    def refusal_error(
        self, reason: RefusalReason, message: str, retry_after_s: int | None = None
    ) -> OverloadedError:
        """Return the error for a request that is refused, and count it."""
        self._metrics.refusals(reason).inc()
        return OverloadedError(reason, message, retry_after_s or self._queue.estimate_retry_after_s())

    def _may_hold(self, request: Request, prompt: RoutingRequest, candidates: Sequence[Worker]) -> bool:
        return (
            len(candidates) > 1
            and request.endpoint.generates
            and self._binding.can_hold(self._selector.policy_for_model(prompt.model), candidates)
            and not self._finder.needs_pair(candidates)
        )

    @staticmethod
    def _tenant_line(request: Request) -> tuple[frozenset[str], ...]:
        """Return what keeps tenants apart that may not use the same workers."""
        tenancy = request.caller.policy
        return () if tenancy is None or not tenancy.restricts_workers else (tenancy.pools,)

    def _enqueue(self, waiting: _WaitingRequest) -> bool:
        """Add `waiting` to the queue; False if it has its place instead.

        Who only waits for a free worker makes room for others in a full queue, and is never refused. Raises
        OverloadedError if `waiting` is.
        """
        left_out = self._queue.enqueue(waiting)
        if left_out is None:
            return True
        now = self._selector.ledger.clock()
        for held in (left_out, *self._queue):
            if held.hold_until > now and self._bind_at_once(held):
                self._queue.dequeue(held)
                if held is left_out:
                    return held is not waiting
                return self._queue.enqueue(left_out) is None or left_out is not waiting
        if left_out is waiting:
            raise self._queue_full_error()
        self._reject(left_out, self._queue_full_error())
        return True

    def _bind_at_once(self, waiting: _WaitingRequest) -> bool:
        free = self._finder.filter_with_capacity(self._finder.ready_workers(waiting.request), waiting.prompt)
        if not free or waiting.place.done():
            return False
        self._give_place(waiting, free)
        return True

    def _end_wait(self, waiting: _WaitingRequest, reason: RefusalReason, message: str) -> None:
        """Refuse `waiting`, which may wait no longer; one that any worker has room for goes there instead."""
        if waiting.place.done():
            return
        if waiting.hold_until and self._bind_at_once(waiting):
            self._queue.dequeue(waiting)
        else:
            self._reject(waiting, self.refusal_error(reason, message))

    def _offer(self, waiting: _WaitingRequest) -> OfferResult:
        request, binding = waiting.request, self._binding
        if waiting.place.done():
            return OfferResult.BLOCKED  # it leaves in a moment, and then the next is served
        candidates = self._finder.ready_workers(request)
        free = self._finder.filter_with_capacity(candidates, waiting.prompt)
        if not free:
            waiting.reason = "limit"
            self.reserved.update(candidates)
            return OfferResult.BLOCKED
        choice, now = None, self._selector.ledger.clock()
        if waiting.hold_until > now and (choice := binding.offer_worker(waiting, free)) is None:
            return OfferResult.PASSED
        self._give_place(waiting, free, choice)
        return OfferResult.TAKEN

    def _give_place(
        self, waiting: _WaitingRequest, free: Sequence[Worker], choice: WorkerChoice | None = None
    ) -> None:
        """Give `waiting` the place of `choice`, or of the policy's choice among the `free` workers."""
        request, waited_s = waiting.request, self._selector.ledger.clock() - waiting.since
        self._metrics.queue_time.with_labels(request.routing.metrics_model).observe_value(waited_s)
        request.journal.add("queue", waited_s=round(waited_s, 6), ahead=waiting.ahead, reason=waiting.reason)
        waiting.place.set_result(self._finder.assign_from(request, waiting.prompt, free, choice))

    def _uncached(self, waiting: _WaitingRequest) -> int:
        candidates = self._finder.ready_workers(waiting.request)
        return min(self._selector.uncached_tokens(waiting.prompt, candidates), default=waiting.prompt.tokens)

    def _set_wakers(self) -> None:
        """Have `serve` called when a place may free; while nobody waits, only where limits make it known."""
        ledger, queue = self._selector.ledger, self._queue
        ledger.on_release = self.serve if self._limited or queue else None
        ledger.on_first_token = self.serve if queue else None
        if queue and self._timer is None and (wake_s := self._next_wake_s()) is not None:
            self._timer = asyncio.get_running_loop().call_later(wake_s, self.serve)

    def _next_wake_s(self) -> float | None:
        """Return the seconds until a place is expected of which no event tells; None where none is."""
        now, wakes = self._selector.ledger.clock(), []
        if held := [each for each in self._queue if each.hold_until > now]:
            ready = [worker for worker in self._registry if worker.state is WorkerState.READY]
            wakes.append(self._binding.next_wake_s(held, ready))
        if self._registry.has_hosted():  # a provider takes requests again when its limit is over
            left = (worker.limited_until - monotonic() for worker in self._registry)
            wakes += [wait_s for wait_s in left if wait_s > 0]
        return min(wakes, default=None)

    def _wait_limit(self, request: Request, elapsed_s: float) -> tuple[float, RefusalReason, str]:
        """How long the request may wait, and what it is refused with then."""
        timeout_s, ttft_s = self._config.queue.timeout_s, request.ttft_s
        if self._config.enforce_ttft and ttft_s is not None and ttft_s - elapsed_s < timeout_s:
            message = f"no worker had room within {ttft_s:g} s, in which the first token was to come"
            return ttft_s - elapsed_s, "ttft_unreachable", message
        return timeout_s, "queue_timeout", f"no worker had room within {timeout_s:g} s"

    def _queue_full_error(self) -> OverloadedError:
        waiting = f"{len(self._queue)} requests wait" if self._queue else "requests may not wait"
        return self.refusal_error("queue_full", f"every worker is at its limit and {waiting} already")

    def _reject(self, waiting: _WaitingRequest, error: GatewayError) -> None:
        self._queue.dequeue(waiting)
        if not waiting.place.done():
            waiting.place.set_exception(error)

"""The gateways of a simulation, each with a selector and a queue of its own; what they tell each other."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from radixway.core.config import AnyPolicy, QueueConfig, RoutingConfig, WorkerSettings
from radixway.routing import LoadShare, RoutingRequest, Selector, Worker, WorkerChoice, WorkerState
from radixway.routing.late_binding import LateBinding
from radixway.routing.request_queue import OfferResult, QueuedRequest, RequestQueue
from radixway.routing.simulator.engine_model import SimulatedRequest


@dataclass(slots=True, eq=False, kw_only=True)
class _WaitingRequest(QueuedRequest):
    job: SimulatedRequest


class SimulatedGateway:
    """A gateway: a selector of its own, the workers as it sees them, and requests that wait for them."""

    def __init__(self, policy: AnyPolicy, queue: QueueConfig, clock: Callable[[], float], seed: int) -> None:
        self.selector = Selector(RoutingConfig(policy=policy), clock=clock, rng=random.Random(seed))
        self.workers: list[Worker] = []
        self.candidates: Sequence[Worker] = self.workers
        """Those that requests go to."""
        self.most_waiting = 0
        self.wake_at = inf
        """When a worker may become free, or a request has waited for long enough; seconds."""
        self._binding = LateBinding(self.selector, queue)
        self._waiting: RequestQueue[_WaitingRequest] = RequestQueue(queue)
        self._clock = clock

    @property
    def is_waiting(self) -> bool:
        """Return whether any request waits for a worker."""
        return len(self._waiting) > 0

    def add_worker(self, kv_tokens: int) -> Worker:
        """Add a worker."""
        worker = Worker(WorkerSettings(url=f"http://worker-{len(self.workers)}", kv_tokens=kv_tokens))
        worker.state = WorkerState.READY
        self.selector.add_worker(worker)
        self.workers.append(worker)
        return worker

    def route_request(
        self,
        request: RoutingRequest,
        job: SimulatedRequest,
        send: Callable[[SimulatedRequest, WorkerChoice], None],
    ) -> None:
        """Call `send` with `job` and the choice for `request`, unless it waits for a worker."""
        selector, binding, now = self.selector, self._binding, self._clock()
        policy = selector.policy_for_model(request.model)
        if not self._waiting or not binding.enabled:
            choice = selector.score_candidates(request, self.candidates, policy)
            if binding.is_free(choice.worker, now):
                selector.mark_selected(choice)
                send(job, choice)
                return
        if binding.can_hold(policy, self.candidates):
            waiting = binding.hold_request(
                _WaitingRequest(request, request.model, now, job=job), self.candidates
            )
            if self._waiting.enqueue(waiting) is None:
                self.most_waiting = max(self.most_waiting, len(self._waiting))
                self.serve_queue(send)
                return
        send(job, selector.select_worker(request, self.candidates))

    def serve_queue(self, send: Callable[[SimulatedRequest, WorkerChoice], None]) -> None:
        """Call `send` for those that wait and have a worker now."""
        self.wake_at = inf
        if not self._waiting:
            return
        now, binding = self._clock(), self._binding

        def offer(waiting: _WaitingRequest) -> OfferResult:
            choice = binding.offer_worker(waiting, self.candidates)
            if choice is None:
                return OfferResult.PASSED
            self.selector.mark_selected(choice)
            send(waiting.job, choice)
            return OfferResult.TAKEN

        binding.begin_offers(self._waiting)
        self._waiting.fill_free_slots(
            offer, lambda waiting: binding.uncached_tokens(waiting, self.candidates), now
        )
        if self._waiting:
            self.wake_at = now + binding.next_wake_s(self._waiting, self.candidates)


class LoadExchange:
    """Tells every gateway of each step of the others' leases, `delay_s` later."""

    def __init__(
        self, gateways: Sequence[SimulatedGateway], delay_s: float, clock: Callable[[], float]
    ) -> None:
        self._gateways = gateways
        self._delay_s = delay_s
        self._clock = clock
        self._on_the_way: deque[tuple[float, int, int, LoadShare]] = deque()
        """Arrival time, gateway, worker, load."""
        self._last_shares = [[LoadShare()] * len(gateway.workers) for gateway in gateways]
        """By gateway and worker: the last load received."""
        for number, gateway in enumerate(gateways):
            gateway.selector.ledger.on_step = self._listener(number, gateway)

    @property
    def next_delivery_at(self) -> float | None:
        """Time of the next delivery in seconds; None if nothing is under way."""
        return self._on_the_way[0][0] if self._on_the_way else None

    def deliver_next(self) -> None:
        """Deliver the next load share to the other gateways."""
        _, sender, number, share = self._on_the_way.popleft()
        self._last_shares[sender][number] = share
        for receiver, gateway in enumerate(self._gateways):
            if receiver != sender:
                others = (shares[number] for peer, shares in enumerate(self._last_shares) if peer != receiver)
                gateway.selector.ledger.set_remote_load(gateway.workers[number], LoadShare.sum_shares(others))

    def _listener(self, number: int, gateway: SimulatedGateway) -> Callable[[Worker], None]:
        def note(worker: Worker) -> None:
            at = self._clock() + self._delay_s
            self._on_the_way.append((at, number, gateway.workers.index(worker), worker.load.to_share()))

        return note

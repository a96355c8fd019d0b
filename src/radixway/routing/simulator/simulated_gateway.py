"""Several gateways in front of the same engines, and how late each hears of what the others sent there."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from radixway.core.config import AnyPolicy, RoutingConfig, WorkerSettings
from radixway.routing import LoadShare, Selector, Worker, WorkerState


class SimulatedGateway:
    """One gateway: a selector of its own, and the workers as it sees them."""

    def __init__(
        self, policy: AnyPolicy, workers: int, kv_tokens: int, clock: Callable[[], float], seed: int
    ) -> None:
        self.selector = Selector(RoutingConfig(policy=policy), clock=clock, rng=random.Random(seed))
        self.workers: list[Worker] = []
        for _ in range(workers):
            self.add_worker(kv_tokens)

    def add_worker(self, kv_tokens: int) -> Worker:
        """One more worker."""
        worker = Worker(WorkerSettings(url=f"http://worker-{len(self.workers)}", kv_tokens=kv_tokens))
        worker.state = WorkerState.READY
        self.selector.add_worker(worker)
        self.workers.append(worker)
        return worker


class LoadExchange:
    """Tells every gateway of each step of the others' leases, `delay_s` later."""

    def __init__(
        self, gateways: Sequence[SimulatedGateway], delay_s: float, clock: Callable[[], float]
    ) -> None:
        self._gateways = gateways
        self._delay_s = delay_s
        self._clock = clock
        self._on_the_way: deque[tuple[float, int, int, LoadShare]] = deque()
        """When it arrives, whose share it is, at which worker."""
        self._heard = [[LoadShare()] * len(gateway.workers) for gateway in gateways]
        """By gateway and worker: what arrived last."""
        for number, gateway in enumerate(gateways):
            gateway.selector.ledger.on_step = self._listener(number, gateway)

    @property
    def next_delivery_at(self) -> float | None:
        """Time of the next delivery in seconds; None if nothing is under way."""
        return self._on_the_way[0][0] if self._on_the_way else None

    def deliver_next(self) -> None:
        """Deliver the next load share to the other gateways."""
        _, sender, number, share = self._on_the_way.popleft()
        self._heard[sender][number] = share
        for receiver, gateway in enumerate(self._gateways):
            if receiver != sender:
                others = (heard[number] for who, heard in enumerate(self._heard) if who != receiver)
                gateway.selector.ledger.set_remote_load(gateway.workers[number], LoadShare.sum_shares(others))

    def _listener(self, number: int, gateway: SimulatedGateway) -> Callable[[Worker], None]:
        def note(worker: Worker) -> None:
            at = self._clock() + self._delay_s
            self._on_the_way.append((at, number, gateway.workers.index(worker), worker.load.to_share()))

        return note

"""Workers that are alike get alike shares at every concurrency; speed and prefixes still count."""

import random
from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest

from radixway.core.config import RoutingConfig
from radixway.routing import Selector, Worker
from support.routing_requests import Clock, prompt, workers

STREAMS = 200
BLOCK = 16


@dataclass
class ClosedLoop:
    """So many clients, each of which sends its next request when the answer to its last one has ended.

    A prefill takes `5 ms + 0.1 ms · tokens`, times the worker's `slowness`, give or take `noise`; the first
    `cold` of each worker take three times as long. An answer goes on for some 50 ms after it.
    """

    policy: str = "expected_time"
    seed: int = 0
    slowness: tuple[float, ...] = (1.0, 1.0)
    noise: float = 0.2
    cold: int = 0
    system_blocks: tuple[int, ...] = ()
    """What every prompt begins with."""
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._workers = workers(len(self.slowness))
        self._selector = Selector(
            RoutingConfig(policy=self.policy), clock=self.clock, rng=random.Random(self.seed)
        )
        for worker in self._workers:
            self._selector.add_worker(worker)
        self._events: list = []
        self._scheduled = 0
        self._sent = 0

    def run(self, concurrency: int, streams: int = STREAMS) -> list[int]:
        """How many of `streams` requests each worker got."""
        before = [worker.load.total for worker in self._workers]
        last = self._sent + streams
        for _ in range(concurrency):
            self._send()
        while self._events:
            self.clock.now, _, step, lease = heappop(self._events)
            if step == "first token":
                lease.mark_prefill_done()
                self._at(0.05 * self._draw.uniform(0.8, 1.2), "end", lease)
            else:
                lease.release()
                if self._sent < last:
                    self._send()
        self._selector.index.check()
        return [worker.load.total - total for worker, total in zip(self._workers, before, strict=True)]

    def _send(self) -> None:
        self._sent += 1
        own = [self._sent * 1000 + number for number in range(self._draw.randint(1, 20))]
        request = prompt(*self.system_blocks, *own, stream=True)
        choice = self._selector.select_worker(request, self._workers)
        lease = self._selector.reserve(choice)
        seconds = 0.005 + 1e-4 * (request.tokens - choice.cached_tokens)
        self._at(seconds * self._factor(choice.worker), "first token", lease)

    def _factor(self, worker: Worker) -> float:
        cold = 3 if worker.load.total <= self.cold else 1
        noise = self._draw.lognormvariate(0, self.noise)
        return self.slowness[self._workers.index(worker)] * noise * cold

    def _at(self, seconds: float, step: str, lease: object) -> None:
        self._scheduled += 1
        heappush(self._events, (self.clock.now + seconds, self._scheduled, step, lease))


@pytest.mark.parametrize("policy", ["expected_time", "kv_aware", "least_loaded"])
@pytest.mark.parametrize("concurrency", [1, 2, 4, 8])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("cold", [0, 5])
@pytest.mark.parametrize("count", [2, 5])
def test_workers_that_are_alike_get_alike_shares(policy, concurrency, noise, cold, count):
    loop = ClosedLoop(policy, slowness=(1.0,) * count, noise=noise, cold=cold)
    shares = loop.run(concurrency)
    even = STREAMS / count
    assert min(shares) > 0.7 * even and max(shares) < 1.3 * even, shares


@pytest.mark.parametrize("concurrency", [1, 2, 4])
@pytest.mark.parametrize("seed", range(10))
def test_chance_starves_nobody(seed, concurrency):
    loop = ClosedLoop(seed=seed, noise=0.5, cold=3)
    shares = loop.run(concurrency, 400)
    assert min(shares) > 100, shares


def test_a_worker_that_was_slow_is_tried_again_and_gets_its_share_when_it_is_not():
    loop = ClosedLoop(slowness=(1.0, 4.0), noise=0.1)
    loop.run(1)
    fast, slow = loop.run(1, 1000)
    assert 0 < slow < fast / 20, "it costs a request now and then to know that it is still slow"
    loop.slowness = (1.0, 1.0)
    loop.run(1, 2000)
    shares = loop.run(1, 400)
    assert min(shares) > 140, shares


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_worker_that_is_much_faster_gets_what_does_not_wait(concurrency):
    loop = ClosedLoop(slowness=(3.0, 1.0))
    loop.run(concurrency)
    slow, fast = loop.run(concurrency)
    assert fast > 5 * slow


@pytest.mark.parametrize("concurrency", [1, 2, 4, 8])
@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_in_a_mixed_fleet_those_that_are_alike_get_alike_shares(concurrency, noise):
    loop = ClosedLoop(slowness=(1.0, 1.0, 3.0, 3.0), noise=noise, cold=3)
    loop.run(concurrency, 400)
    *fast, third, fourth = loop.run(concurrency, 400)
    assert min(fast) > 0.6 * max(fast) and third + fourth < sum(fast) / 4, (fast, third, fourth)


def test_a_prefix_that_is_worth_more_than_noise_keeps_its_worker():
    loop = ClosedLoop(system_blocks=tuple(range(1, 200)), noise=0.3)
    shares = loop.run(1)
    assert max(shares) == STREAMS

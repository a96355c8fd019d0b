"""Places and copies at the moments that no socket hits on cue."""

import asyncio

import pytest

from radixway.config import HedgeSection, RoutingSection, WorkerSection
from radixway.pipeline import ENDPOINTS, Overloaded, Request
from radixway.routing import (
    Breakers,
    Hedging,
    PromptReader,
    Registry,
    Selector,
    Tokenizers,
    WeightVersions,
    WorkerState,
)
from radixway.telemetry import Journal, Metrics
from radixway.transports.admission import Admission
from radixway.transports.hedge import Hedge


def request(**fields) -> Request:
    raw = b'{"model": "m", "prompt": "hello"}'
    return Request(
        id="r",
        endpoint=ENDPOINTS["openai.completions"],
        path="/p",
        journal=Journal("r"),
        raw=raw,
        model="m",
        **fields,
    )


class Pool:
    """Ready workers of the model m, and the admission in front of them."""

    def __init__(self, workers: int = 1, **routing) -> None:
        config = RoutingSection(**routing)
        self.registry = Registry()
        selector = Selector(config)
        self.registry.on_add.append(selector.enroll)
        self.metrics = Metrics()
        prompts = PromptReader(config, Tokenizers(config))
        breakers = Breakers(config.breaker)
        weights = WeightVersions(self.registry, config.weights)
        self.admission = Admission(self.registry, selector, prompts, breakers, self.metrics, config, weights)
        self.workers = [
            self.registry.add(WorkerSection(url=f"http://w{n}", models=("m",))) for n in range(workers)
        ]
        for worker in self.workers:
            self.registry.set_state(worker, WorkerState.READY)

    def in_flight(self) -> int:
        return sum(worker.load.requests for worker in self.workers)

    def queued(self) -> float:
        return self.metrics.registry.get_sample_value("radixway_queued")


async def test_a_place_that_comes_in_the_moment_its_client_leaves_goes_to_the_next():
    pool = Pool(max_in_flight_per_worker=1)
    first = await pool.admission.place(request())
    leaving = asyncio.create_task(pool.admission.place(request()))
    waiting = asyncio.create_task(pool.admission.place(request()))
    await asyncio.sleep(0)
    assert pool.queued() == 2
    first.lease.release()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    (await waiting).lease.release()
    assert (pool.in_flight(), pool.queued()) == (0, 0)


async def test_a_place_that_frees_in_the_moment_the_first_in_line_leaves_goes_to_the_next():
    pool = Pool(max_in_flight_per_worker=1)
    first = await pool.admission.place(request())
    leaving = asyncio.create_task(pool.admission.place(request()))
    waiting = asyncio.create_task(pool.admission.place(request()))
    await asyncio.sleep(0)
    leaving.cancel()
    first.lease.release()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    (await waiting).lease.release()
    assert (pool.in_flight(), pool.queued()) == (0, 0)


async def test_one_that_is_left_out_while_it_leaves_leaves():
    pool = Pool(max_in_flight_per_worker=1, queue={"size": 1})
    first = await pool.admission.place(request())
    leaving = asyncio.create_task(pool.admission.place(request()))
    await asyncio.sleep(0)
    leaving.cancel()
    urgent = asyncio.create_task(pool.admission.place(request(priority=1)))
    with pytest.raises(asyncio.CancelledError):
        await leaving
    with pytest.raises(Overloaded):
        await pool.admission.place(request())
    first.lease.release()
    (await urgent).lease.release()
    assert (pool.in_flight(), pool.queued()) == (0, 0)


async def test_a_limit_that_goes_away_with_its_worker_lets_everybody_through():
    pool = Pool()
    pool.registry.add(WorkerSection(url="http://w0", max_in_flight=1))
    first = await pool.admission.place(request())
    waiting = [asyncio.create_task(pool.admission.place(request())) for _ in range(3)]
    await asyncio.sleep(0)
    pool.registry.add(WorkerSection(url="http://w0", max_in_flight=None))
    for task in waiting:
        (await task).lease.release()
    first.lease.release()
    assert pool.in_flight() == 0


async def test_whoever_loses_a_race_gives_its_place_back_whatever_it_got_to():
    pool = Pool(workers=2)
    begun = []

    async def attempt(request, place):
        begun.append(place)
        await asyncio.Event().wait()

    hedging = Hedging(HedgeSection(after_s=0.001, most_share=1, whole_replies=True))
    hedge = Hedge(hedging, pool.admission, attempt, pool.metrics)
    sent = request()
    racing = asyncio.create_task(hedge.send(sent, await pool.admission.place(sent)))
    while len(begun) < 2:  # noqa: ASYNC110 - the copy's delay has to pass
        await asyncio.sleep(0)
    assert {place.worker for place in begun} == set(pool.workers)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert pool.in_flight() == 0

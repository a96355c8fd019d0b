"""Places and copies at the moments that no socket hits on cue."""

import asyncio

import pytest

from radixway.core.config import HedgeConfig, WorkerSettings
from radixway.core.pipeline import OverloadedError
from radixway.routing.transports.hedged_dispatch import HedgeBudget, HedgedDispatch
from support.admission_pool import Pool, request


async def test_a_place_that_comes_in_the_moment_its_client_leaves_goes_to_the_next():
    pool = Pool(max_in_flight_per_worker=1)
    first = await pool.admission.assign_worker(request())
    leaving = asyncio.create_task(pool.admission.assign_worker(request()))
    waiting = asyncio.create_task(pool.admission.assign_worker(request()))
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
    first = await pool.admission.assign_worker(request())
    leaving = asyncio.create_task(pool.admission.assign_worker(request()))
    waiting = asyncio.create_task(pool.admission.assign_worker(request()))
    await asyncio.sleep(0)
    leaving.cancel()
    first.lease.release()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    (await waiting).lease.release()
    assert (pool.in_flight(), pool.queued()) == (0, 0)


async def test_one_that_is_left_out_while_it_leaves_leaves():
    pool = Pool(max_in_flight_per_worker=1, queue={"size": 1})
    first = await pool.admission.assign_worker(request())
    leaving = asyncio.create_task(pool.admission.assign_worker(request()))
    await asyncio.sleep(0)
    leaving.cancel()
    urgent = asyncio.create_task(pool.admission.assign_worker(request(priority=1)))
    with pytest.raises(asyncio.CancelledError):
        await leaving
    with pytest.raises(OverloadedError):
        await pool.admission.assign_worker(request())
    first.lease.release()
    (await urgent).lease.release()
    assert (pool.in_flight(), pool.queued()) == (0, 0)


async def test_a_limit_that_goes_away_with_its_worker_lets_everybody_through():
    pool = Pool()
    pool.registry.add_worker(WorkerSettings(url="http://w0", max_in_flight=1))
    first = await pool.admission.assign_worker(request())
    waiting = [asyncio.create_task(pool.admission.assign_worker(request())) for _ in range(3)]
    await asyncio.sleep(0)
    pool.registry.add_worker(WorkerSettings(url="http://w0", max_in_flight=None))
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

    hedging = HedgeBudget(HedgeConfig(after_s=0.001, most_share=1, whole_replies=True))
    hedge = HedgedDispatch(hedging, pool.admission, attempt, pool.metrics)
    sent = request()
    racing = asyncio.create_task(hedge.send_hedged(sent, await pool.admission.assign_worker(sent)))
    while len(begun) < 2:  # noqa: ASYNC110 - the copy's delay has to pass
        await asyncio.sleep(0)
    assert {place.worker for place in begun} == set(pool.workers)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert pool.in_flight() == 0

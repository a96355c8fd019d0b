"""Requests that wait at the gateway for the worker that they prefer, and what ends the wait."""

import asyncio

import pytest

from radixway.core.config import WorkerSettings
from radixway.core.pipeline import Caller, NoWorkersError, OverloadedError, TenantPolicy
from radixway.routing import RoutingRequest, Worker, WorkerState
from radixway.routing.load_ledger import WorkerLease
from support.admission_pool import Pool, request

LONG = 80_000
"""Tokens: about ten seconds at the rate that workers have shown."""


def pool(workers: int = 2, *, measured: bool = True, **routing) -> Pool:
    """Workers that have shown the rate with which all begin."""
    made = Pool(workers, **routing)
    for worker in made.workers if measured else ():
        measure(made, worker)
    return made


def measure(made: Pool, worker: Worker) -> None:
    for tokens in (100, 1000) * 4:
        made.selector.ledger.rates.observe_prefill(worker.load, tokens, 0.02 + tokens / 8000)


def occupy(made: Pool, worker: Worker, tokens: int = LONG) -> WorkerLease:
    return made.selector.ledger.reserve(worker, RoutingRequest(stream=True), tokens)


async def held(made: Pool, *several, **fields) -> list[asyncio.Task]:
    """Requests that wait, one for each of `several`, or one."""
    tasks = [
        asyncio.create_task(made.admission.assign_worker(sent)) for sent in several or (request(**fields),)
    ]
    await asyncio.sleep(0)
    return tasks


def steps(sent) -> dict[str, dict]:
    return {step["step"]: step for step in sent.journal.explain()["steps"]}


async def test_a_request_waits_for_a_first_token_and_goes_where_it_came():
    made = pool()
    _, second = (occupy(made, worker) for worker in made.workers)
    sent = request()
    (waiting,) = await held(made, sent)
    assert made.queued() == 1
    second.mark_prefill_done()
    assert (await waiting).worker is made.workers[1]
    assert made.queued() == 0
    assert steps(sent)["queue"]["reason"] == "prefill"
    assert {"ahead_s", "others_s"} <= steps(sent)["select"]["candidates"]["w1"].keys()


async def test_a_place_given_back_wakes_it_too():
    made = pool()
    first, _ = (occupy(made, worker) for worker in made.workers)
    (waiting,) = await held(made)
    first.release()
    assert (await waiting).worker is made.workers[0]


async def test_it_goes_when_the_prefills_are_expected_to_be_over_though_nothing_was_heard():
    made = pool(queue={"hold_s": 1000})
    for worker in made.workers:
        occupy(made, worker, 400)
    (waiting,) = await held(made)
    assert made.queued() == 1
    await waiting
    assert made.queued() == 0


async def test_free_workers_are_used_without_a_wait():
    made = pool()
    occupy(made, made.workers[0])
    sent = request()
    assert (await made.admission.assign_worker(sent)).worker is made.workers[1]
    assert "queue" not in steps(sent)


async def test_it_waits_for_no_longer_than_it_may():
    made = pool(queue={"hold_s": 0.01})
    occupy(made, made.workers[0], 2 * LONG)
    occupy(made, made.workers[1])
    (waiting,) = await held(made)
    assert made.queued() == 1
    assert (await waiting).worker is made.workers[1], "where it is expected soonest"


async def test_it_goes_in_time_for_its_objective():
    made = pool(queue={"hold_s": 1000})
    for worker in made.workers:
        occupy(made, worker)
    (waiting,) = await held(made, ttft_s=0.05)
    assert made.queued() == 1
    await waiting


async def test_an_objective_that_nobody_can_keep_hurries_nobody():
    made = pool(queue={"hold_s": 1000})
    first, _ = (occupy(made, worker) for worker in made.workers)
    (waiting,) = await held(made, ttft_s=0.001)
    assert made.queued() == 1
    first.mark_prefill_done()
    await waiting


async def test_priority_shortens_the_wait_to_nothing():
    made = pool(queue={"hold_s": 10, "aging_s": 10})
    for worker in made.workers:
        occupy(made, worker)
    (urgent,) = await held(made, priority=1)
    (await urgent).release()
    (waiting,) = await held(made)
    assert made.queued() == 1
    waiting.cancel()


async def test_who_leaves_while_it_waits_leaves_nothing_behind():
    made = pool()
    leases = [occupy(made, worker) for worker in made.workers]
    leaving, waiting = await held(made, request(), request())
    leaving.cancel()
    await asyncio.sleep(0)
    assert made.queued() == 1
    leases[0].release()
    (await waiting).release()
    assert (made.in_flight(), made.queued()) == (1, 0)
    ledger = made.selector.ledger
    assert (ledger.on_first_token, ledger.on_release) == (None, None), "nobody waits: nothing is called"


async def test_the_shorter_goes_first_and_a_worker_gets_one_at_a_time():
    made = pool()
    leases = [occupy(made, worker) for worker in made.workers]
    long, short = await held(made, request(list(range(4000)), stream=True), request([1] * 2000, stream=True))
    leases[0].release()
    assert (await short).worker is made.workers[0]
    assert made.queued() == 1
    leases[1].release()
    assert (await long).worker is made.workers[1]


async def test_it_waits_for_the_worker_that_holds_its_prompt():
    made = pool()
    ids = list(range(20_000))
    first = await made.admission.assign_worker(request(ids))
    first.lease.release()
    holds, other = first.worker, next(worker for worker in made.workers if worker is not first.worker)
    lease = occupy(made, holds, 4000)
    (waiting,) = await held(made, request(ids))
    assert made.queued() == 1, "half a second there is less than two and a half elsewhere"
    assert not other.load.requests
    lease.release()
    assert (await waiting).worker is holds


@pytest.mark.parametrize(
    ("routing", "fields"),
    [
        ({"policy": "least_loaded"}, {}),
        ({"policy": "kv_aware"}, {}),
        ({"queue": {"hold_s": 0}}, {}),
        ({"queue": {"size": 0}}, {}),
        ({}, {"pinned": "http://w0"}),
    ],
)
async def test_who_may_not_wait_goes_at_once(routing, fields):
    made = pool(**routing)
    for worker in made.workers:
        occupy(made, worker)
    assert (await made.admission.assign_worker(request(**fields))).worker in made.workers


async def test_nothing_waits_for_workers_whose_first_tokens_were_never_seen():
    made = pool(measured=False)
    for worker in made.workers:
        occupy(made, worker)
    measure(made, made.workers[0])
    await made.admission.assign_worker(request())
    measure(made, made.workers[1])
    (waiting,) = await held(made)
    assert made.queued() == 1
    waiting.cancel()


async def test_nobody_waits_for_whole_replies_of_which_no_first_token_tells():
    made = pool()
    for worker in made.workers:
        made.selector.ledger.reserve(worker, RoutingRequest(stream=False), LONG)
    (waiting,) = await held(made)
    assert made.queued() == 0 and waiting.done()


async def test_a_single_worker_is_not_waited_for():
    made = pool(1)
    occupy(made, made.workers[0])
    await made.admission.assign_worker(request())


async def test_a_full_queue_refuses_nobody_who_only_waits_for_a_prefill():
    made = pool(queue={"size": 1})
    leases = [occupy(made, worker) for worker in made.workers]
    (first,) = await held(made)
    (second,) = await held(made)
    await second
    assert made.queued() == 1
    urgent = await asyncio.wait_for(made.admission.assign_worker(request(priority=1)), 10)
    assert urgent.worker in made.workers
    for lease in leases:
        lease.release()
    urgent.release()
    await first


async def test_who_waits_for_a_limit_takes_the_place_in_the_queue_of_who_waits_for_a_prefill():
    made = pool(queue={"size": 1})
    other = made.registry.add_worker(WorkerSettings(url="http://limited", models=("n",), max_in_flight=1))
    made.registry.set_state(other, WorkerState.READY)
    for worker in made.workers:
        occupy(made, worker)
    lease = occupy(made, other)
    (first,) = await held(made)
    (limited,) = await held(made, model="n")
    await first
    assert made.queued() == 1
    lease.release()
    assert (await limited).worker is other


async def test_models_do_not_wait_for_each_others_workers():
    made = pool()
    others = [
        made.registry.add_worker(WorkerSettings(url=f"http://n{number}", models=("n",)))
        for number in range(2)
    ]
    for other in others:
        made.registry.set_state(other, WorkerState.READY)
        measure(made, other)
    for worker in made.workers:
        occupy(made, worker)
    (waiting,) = await held(made)
    assert (await made.admission.assign_worker(request(model="n"))).worker in others
    assert made.queued() == 1
    waiting.cancel()


async def test_workers_that_go_away_take_nobody_with_them():
    made = pool()
    for worker in made.workers:
        occupy(made, worker)
    (waiting,) = await held(made)
    new = made.registry.add_worker(WorkerSettings(url="http://new", models=("m",)))
    for worker in made.workers:
        made.registry.remove_worker(worker.url)
    made.registry.set_state(new, WorkerState.READY)
    assert (await waiting).worker is new


async def test_limits_and_prefills_are_waited_for_together():
    made = pool(max_in_flight_per_worker=2)
    leases = [occupy(made, worker) for worker in made.workers]
    answering = [occupy(made, worker, 0) for worker in made.workers]
    sent = request()
    (waiting,) = await held(made, sent)
    assert made.queued() == 1
    answering[0].release()
    await asyncio.sleep(0)
    assert made.queued() == 1, "there is room, but a prefill before it"
    leases[0].mark_prefill_done()
    assert (await waiting).worker is made.workers[0]
    assert steps(sent)["queue"]["reason"] == "limit"


async def test_the_end_of_its_time_in_the_queue_sends_it_where_there_is_room():
    made = pool(queue={"hold_s": 1000, "timeout_s": 0.01})
    for worker in made.workers:
        occupy(made, worker)
    sent = request()
    assert (await made.admission.assign_worker(sent)).worker in made.workers
    assert made.queued() == 0
    assert steps(sent)["queue"]["waited_s"] > 0


async def test_the_end_of_its_time_in_the_queue_refuses_it_where_limits_leave_no_room():
    made = pool(max_in_flight_per_worker=1, queue={"hold_s": 1000, "timeout_s": 0.01})
    for worker in made.workers:
        occupy(made, worker)
    with pytest.raises(OverloadedError, match="no worker had room"):
        await made.admission.assign_worker(request())
    assert (made.queued(), made.in_flight()) == (0, 2)


async def test_a_tenant_waits_for_its_own_workers_and_takes_no_others():
    made = pool()
    others = [
        made.registry.add_worker(WorkerSettings(url=f"http://p{number}", models=("m",), pools=("gold",)))
        for number in range(2)
    ]
    for worker in others:
        made.registry.set_state(worker, WorkerState.READY)
        measure(made, worker)
    leases = [occupy(made, worker) for worker in others]
    gold = Caller("gold", policy=TenantPolicy("gold", pools=frozenset({"gold"})))
    (waiting,) = await held(made, caller=gold)
    assert made.queued() == 1, "two workers are free, but not for it"
    assert (await made.admission.assign_worker(request())).worker in made.workers, (
        "nor does it hold up others"
    )
    leases[1].release()
    assert (await waiting).worker is others[1]


async def test_of_those_that_are_held_the_one_of_higher_priority_goes_first():
    made = pool(queue={"hold_s": 100, "aging_s": 1, "most_priority": 10})
    leases = [occupy(made, worker) for worker in made.workers]
    low, high = await held(
        made,
        request([1] * 2000, priority=-1, stream=True),
        request([2] * 2000, priority=1, stream=True),
    )
    leases[0].release()
    assert (await high).worker is made.workers[0]
    assert not low.done()
    leases[1].release()
    await low


async def test_a_worker_that_is_drained_gets_none_of_those_that_waited_for_it():
    made = pool()
    ids = list(range(20_000))
    first = await made.admission.assign_worker(request(ids))
    first.lease.release()
    lease = occupy(made, first.worker, 4000)
    (waiting,) = await held(made, request(ids))
    made.registry.set_state(first.worker, WorkerState.DRAINING)
    assert (await waiting).worker is not first.worker
    lease.release()
    assert first.worker.load.requests == 0


async def test_when_the_last_workers_are_removed_those_that_wait_are_told():
    made = pool()
    for worker in made.workers:
        occupy(made, worker)
    (waiting,) = await held(made)
    for worker in made.workers:
        made.registry.remove_worker(worker.url)
    with pytest.raises(NoWorkersError):
        await waiting
    assert made.queued() == 0

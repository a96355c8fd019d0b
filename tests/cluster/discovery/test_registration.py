"""Workers that say themselves that they are there: leases, and the calls over HTTP."""

import asyncio

import pytest

from radixway.cluster import WorkerRegistrations
from radixway.core.config import RegistrationConfig, WorkerSettings
from radixway.routing import FleetMembership, LoadLedger, WorkerRegistry, WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

A, B = "http://10.0.0.1:8000", "http://10.0.0.2:8000"


class House:
    def __init__(self, ttl_s=30):
        self.now = 0.0
        self.registry = WorkerRegistry()
        self.members = FleetMembership(self.registry)
        section = RegistrationConfig(ttl_s=ttl_s)
        self.registrations = WorkerRegistrations(section, self.members, lambda: self.now)

    def register(self, url, ttl_s=None, **fields):
        return self.registrations.register_worker(WorkerSettings(url=url, **fields), ttl_s)

    def states(self):
        return {worker.url: worker.state.value for worker in self.registry}


@pytest.fixture
def house():
    house = House()
    yield house
    house.members.check()


def test_a_worker_is_there_as_long_as_it_says_so(house):
    assert house.register(A) == 30
    assert house.register(B, ttl_s=5) == 5
    assert house.registry.get_worker(A).sources == ("registered",)
    house.now = 5
    assert house.registrations.expire_leases() == 25
    assert house.states() == {A: "joining"}
    house.register(A)
    house.now = 34
    assert house.registrations.expire_leases() == 1
    assert house.registrations.lease_left_s(A) == 1
    house.now = 35
    assert house.registrations.expire_leases() is None
    assert (house.states(), house.registrations.lease_left_s(A)) == ({}, None)


def test_where_nobody_says_how_long_a_worker_stays_until_it_leaves():
    house = House(ttl_s=None)
    assert house.register(A) is None
    assert house.register(B, ttl_s=5) == 5
    house.now = 4
    assert house.register(B) == 5, "its lease is renewed as it was"
    house.now = 1e6
    assert house.registrations.expire_leases() is None
    assert (house.states(), house.registrations.lease_left_s(A)) == ({A: "joining"}, None)
    house.registrations.deregister_worker(house.registry.get_worker(A))
    assert house.states() == {}
    house.members.check()


def test_one_that_is_silent_with_requests_in_hand_drains_and_comes_back_when_it_is_heard(house):
    house.register(A)
    lease = LoadLedger().reserve(house.registry.get_worker(A))
    house.now = 31
    house.registrations.expire_leases()
    assert house.states() == {A: "draining"}
    house.register(A)
    lease.release()
    house.members.remove_drained()
    assert house.states() == {A: "joining"}


def test_a_heartbeat_leaves_alone_what_an_administrator_did_and_new_words_do_not(house):
    house.register(A)
    house.registry.set_state(house.registry.get_worker(A), WorkerState.DRAINING)
    house.register(A)
    assert house.states() == {A: "draining"}
    house.registry.remove_worker(A)
    house.register(A)
    assert house.states() == {}
    house.register(A, max_batch_size=4)
    assert house.states() == {A: "joining"}
    assert house.registry.get_worker(A).max_batch_size == 4


def test_who_leaves_drains_even_if_somebody_else_names_it(house):
    house.members.join_worker("dns", WorkerSettings(url=A))
    house.register(A)
    house.registrations.deregister_worker(house.registry.get_worker(A))
    assert (house.states(), house.registry.get_worker(A).sources) == ({A: "draining"}, ("dns",))


def test_leases_hold_for_longer_by_the_time_in_which_the_gateway_slept(house):
    house.register(A)
    house.now = 100
    assert house.registrations.expire_leases(late_s=75) == 5
    assert house.states() == {A: "joining"}


async def test_a_lease_that_ends_before_the_others_is_looked_at_in_time():
    registry = WorkerRegistry()
    registrations = WorkerRegistrations(RegistrationConfig(), FleetMembership(registry))
    gone, following = asyncio.Event(), asyncio.Event()
    registry.on_remove.append(lambda _: gone.set())
    task = asyncio.create_task(registrations.follow_workers(lambda _: following.set()))
    await following.wait()
    registrations.register_worker(WorkerSettings(url=A), 3600)
    await asyncio.sleep(0)
    registrations.register_worker(WorkerSettings(url=B), 0.01)
    async with asyncio.timeout(10):
        await gone.wait()
    assert [worker.url for worker in registry] == [A]
    task.cancel()


async def test_a_worker_that_registers_serves_at_once_and_leaves_without_losing_what_it_has():
    arrived, finish = asyncio.Event(), asyncio.Event()

    async def slow(exchange):
        arrived.set()
        await finish.wait()
        await exchange.reply(200, b'{"choices": []}')

    async with scripted_worker(behaviour=slow) as worker, running_gateway() as gateway:
        body = {"url": worker.url, "model": "mine", "max_in_flight": 3, "ttl_s": 60}
        status, told, _ = await gateway.post("/workers", body)
        assert (status, told) == (
            200,
            {"url": worker.url, "state": "ready", "in_flight": 0, "ttl_s": 60, "heartbeat_s": 20},
        )
        _, listed = await gateway.get("/workers")
        assert listed["workers"][0]["sources"] == ["registered"]
        assert listed["workers"][0]["models"] == ["mine"]
        assert 0 < listed["workers"][0]["lease_left_s"] <= 60
        asked = asyncio.create_task(gateway.chat(model="mine"))
        await arrived.wait()
        async with gateway.client.delete(gateway.url + "/workers", params={"url": worker.url}) as answer:
            assert await answer.json() == {"url": worker.url, "state": "draining", "in_flight": 1}
        assert (await gateway.chat(model="mine"))[0] == 503
        finish.set()
        assert (await asked)[0] == 200
        await gateway.until_gone(worker.url)
        async with gateway.client.delete(gateway.url + "/workers", params={"url": worker.url}) as answer:
            assert answer.status == 404


async def test_a_worker_that_names_no_time_has_no_lease():
    async with scripted_worker() as worker, running_gateway() as gateway:
        status, told, _ = await gateway.post("/workers", {"url": worker.url, "worker_type": "regular"})
        assert (status, told["state"], told["ttl_s"], told["heartbeat_s"]) == (200, "ready", None, 0)
        _, listed = await gateway.get("/workers")
        assert listed["workers"][0]["sources"] == ["registered"]
        assert listed["workers"][0]["lease_left_s"] is None
        assert (await gateway.chat())[0] == 200


async def test_who_left_after_an_administrator_removed_it_may_come_again():
    async with scripted_worker() as worker, running_gateway() as gateway:
        body = {"url": worker.url, "model": "m"}
        assert (await gateway.post("/workers", body))[1]["state"] == "ready"
        assert (await gateway.post("/remove_worker", {"url": worker.url}))[0] == 200
        assert (await gateway.post("/workers", body))[1]["state"] == "gone"
        async with gateway.client.delete(
            gateway.url + "/workers", params={"url": worker.url + "/"}
        ) as answer:
            assert answer.status == 404
        assert (await gateway.post("/workers", body))[1]["state"] == "ready"


BAD = [
    ({}, "url"),
    ({"url": "ftp://a"}, "url"),
    ({"url": A, "role": "king"}, "role"),
    ({"url": A, "max_in_flight": 0}, "max_in_flight"),
    ({"url": A, "ttl_s": 0}, "ttl_s"),
    ({"url": A, "ttl_s": "soon"}, "ttl_s"),
    ({"url": A, "ttl_s": 1e9}, "ttl_s"),
    ({"url": A, "ttl_s": True}, "ttl_s"),
    ({"url": A, "ttl_s": 10**400}, "ttl_s"),
    ({"url": A, "kv_tokens": 10**400}, "kv_tokens"),
    ({"url": A, "capacity": 5}, "capacity"),
    ({"url": A, "model": 5}, "model"),
    ({"url": "http://127.0.0.1:9", "": 1, "bogus": 2}, None),
]


async def test_what_is_wrong_with_a_registration_is_named():
    async with running_gateway() as gateway:
        for fields, param in BAD:
            status, told, _ = await gateway.post("/workers", fields)
            assert (status, told["error"]["param"]) == (400, param)
        assert (await gateway.get("/workers"))[1]["workers"] == []


async def test_who_may_add_workers_may_register():
    async with running_gateway(gateway={"admin_key": "hush"}) as gateway:
        assert (await gateway.post("/workers", {"url": A}))[0] == 401
        key = {"authorization": "Bearer hush"}
        assert (await gateway.post("/workers", {"url": A}, headers=key))[0] == 200
        async with gateway.client.delete(gateway.url + "/workers", params={"url": A}) as answer:
            assert answer.status == 401

"""What administrators ask and change at whichever of two processes: one gateway that all tests share."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import grpc
import pytest
import pytest_asyncio

from gateway.processes.conftest import PATIENCE_S, ManyProcesses, many_processes
from support.envoy_frames import Envoy, chat
from support.free_ports import find_port
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CLOSE = {"connection": "close"}
TURNS = [f"turn-{number}" for number in range(12)]


def key_of(tenant: str) -> str:
    return f"key-of-{tenant}-0123456789"


class HeldWorker:
    """Answers `m` at once, and `held` when it is told to; records calls of administrators."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.waiting = 0
        self.calls: Counter[str] = Counter()

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path != "/v1/chat/completions":
            self.calls[exchange.path] += 1
            await exchange.reply(200, b"{}")
            return
        if exchange.json()["model"] == "held":
            self.waiting += 1
            try:
                await self.may_answer.wait()
            finally:
                self.waiting -= 1
        await exchange.reply(200, b'{"choices": [{"index": 0, "message": {"content": "hi"}}]}')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behaviour() -> HeldWorker:
    return HeldWorker()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(behaviour) -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(behaviour, models=("m", "held", *TURNS)) as worker:
        yield worker


@pytest.fixture(scope="module")
def envoy_port() -> int:
    return find_port()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(worker, envoy_port, tmp_path_factory) -> AsyncIterator[ManyProcesses]:
    tree = {
        "gateway": {"port": 0, "admin_key": key_of("admin")},
        "workers": [{"url": worker.url}],
        "tenants": {
            "a": {"keys": [{"key": key_of("a")}], "rates": {"concurrent": 6}},
            "b": {"keys": [{"key": key_of("b")}]},
        },
        "ext_proc": {"enabled": True, "port": envoy_port},
    }
    async with many_processes(tmp_path_factory.mktemp("administration"), tree) as gateway:
        gateway.headers = {"authorization": f"Bearer {key_of('admin')}"}
        async with aiohttp.ClientSession() as client:
            await gateway.until_ready(client)
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as client:
        yield client


async def ask(client, gateway, tenant: str = "b", model: str = "m", **headers) -> tuple[int, str]:
    """Status and id of a request over a connection of its own."""
    headers = CLOSE | {"authorization": f"Bearer {key_of(tenant)}"} | headers
    async with client.post(
        gateway.url + "/v1/chat/completions", json=CHAT | {"model": model}, headers=headers
    ) as answer:
        await answer.read()
        return answer.status, answer.headers["x-request-id"]


async def call(client, gateway, path: str, body: object = None) -> dict:
    """What an administrator's POST is answered, over a connection of its own."""
    async with client.post(gateway.url + path, json=body, headers=CLOSE | gateway.headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_an_id_that_is_sent_again_is_explained_by_its_newest_request(gateway, client):
    for model in TURNS:  # they come to both processes, in any order
        status, request_id = await ask(client, gateway, model=model, **{"x-request-id": "sent-again"})
        assert (status, request_id) == (200, "sent-again")
        for _ in range(2):
            told = await gateway.get(client, "/explain/sent-again")
            assert told["row"]["model"] == model
    async with client.get(f"{gateway.url}/explain/never-sent", headers=CLOSE | gateway.headers) as answer:
        assert answer.status == 404


async def test_filters_and_pages_of_requests_hold_over_both(gateway, client):
    ids = {tenant: [(await ask(client, gateway, tenant))[1] for _ in range(12)] for tenant in "ab"}
    for tenant, asked in ids.items():
        found, cursor = [], {}
        while True:
            query = {"tenant": tenant, "limit": "5", "status": "200"} | cursor
            page = await gateway.get(client, "/requests", params=query)
            assert len(page["requests"]) <= 5
            found += [row["id"] for row in page["requests"] if row["id"] != "sent-again"]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert [each for each in found if each in asked] == asked[::-1], "newest first"
        assert len(set(found)) == len(found) and not set(found) & set(ids["ab".replace(tenant, "")])
    one = await gateway.get(client, "/requests", params={"q": ids["a"][3]})
    assert [row["id"] for row in one["requests"]] == [ids["a"][3]]
    # A tenant sees its own alone, of both processes.
    headers = CLOSE | {"authorization": f"Bearer {key_of('a')}"}
    async with client.get(f"{gateway.url}/requests", params={"limit": "500"}, headers=headers) as answer:
        told = await answer.json()
    assert {row["tenant"] for row in told["requests"]} == {"a"}
    assert set(ids["a"]) <= {row["id"] for row in told["requests"]}
    for wrong in ("1", "1.2.3", "x.y", "1.-2"):
        async with client.get(
            f"{gateway.url}/requests", params={"cursor": wrong}, headers=CLOSE | gateway.headers
        ) as answer:
            assert answer.status == 400, wrong


async def read_metrics(client, gateway) -> dict[str, float]:
    """Samples by name and labels, as a scrape at either process sees them."""
    async with client.get(gateway.url + "/metrics/prometheus", headers=CLOSE | gateway.headers) as page:
        lines = (await page.text()).splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def total(metrics: dict[str, float], name: str, label: str = "") -> float:
    """The sum of a family, or of its samples with `label`."""
    return sum(value for key, value in metrics.items() if key.partition("{")[0] == name and label in key)


async def test_counters_are_summed_and_gauges_merged_by_their_kind(gateway, client, behaviour):
    held = [asyncio.create_task(ask(client, gateway, model="held")) for _ in range(12)]
    async with asyncio.timeout(PATIENCE_S):
        while behaviour.waiting < 12:
            await gateway.get(client, "/health")
        # Each process counts the others' requests there too, and says so under another name.
        while total(await read_metrics(client, gateway), "radixway_worker_in_flight") != 12:
            pass
    behaviour.may_answer.set()
    assert {status for status, _ in await asyncio.gather(*held)} == {200}
    behaviour.may_answer.clear()
    async with asyncio.timeout(PATIENCE_S):
        while total(await read_metrics(client, gateway), "radixway_requests_total", 'model="held"') != 12:
            pass  # a child publishes its counts once a second
        while total(metrics := await read_metrics(client, gateway), "radixway_worker_in_flight"):
            pass
    (state,) = [
        value
        for name, value in metrics.items()
        if name.startswith("radixway_worker_state{") and 'state="ready"' in name
    ]
    assert state == 1, "one worker is ready, not one for each process"
    assert metrics["radixway_load_sync_peers"] == 1 and metrics["radixway_load_sync_up"] == 1


async def test_a_call_to_all_workers_reaches_each_once(gateway, client, behaviour):
    behaviour.calls.clear()
    for path in ("/pause_generation", "/continue_generation", "/flush_cache"):
        for turn in range(1, 5):
            assert (await call(client, gateway, path, {}))["success"] is True
            assert behaviour.calls[path] == turn


async def test_envoy_is_answered_by_both(gateway, client, envoy_port):
    before = {row["id"] for row in (await gateway.get(client, "/requests"))["requests"]}
    processes = set()
    async with asyncio.timeout(PATIENCE_S):
        while len(processes) < 2:  # each channel is a connection that the kernel gives to one of them
            options = [("grpc.use_local_subchannel_pool", 1)]
            async with (
                grpc.aio.insecure_channel(f"127.0.0.1:{envoy_port}", options=options) as channel,
                aiohttp.ClientSession(auto_decompress=False) as carrier,
            ):
                headers = [("content-type", "application/json"), ("authorization", f"Bearer {key_of('b')}")]
                answer = await Envoy(channel, carrier).ask("POST", "/v1/chat/completions", headers, chat())
                assert answer.status == 200, answer.body
                request_id = answer.header("x-request-id")
            assert request_id not in before
            told = await gateway.get(client, f"/explain/{request_id}")
            assert told["request_id"] == request_id
            processes.add(request_id[:16])  # ids of a process begin alike


@pytest.mark.slow
async def test_a_process_that_dies_gives_its_tenants_slots_back(gateway, client, behaviour):
    for slot in (1, 0):
        held = [asyncio.create_task(ask(client, gateway, "a", "held")) for _ in range(6)]
        async with asyncio.timeout(PATIENCE_S):
            while behaviour.waiting < 6:
                await gateway.get(client, "/health")
        assert (await ask(client, gateway, "a"))[0] == 429
        pids = await gateway.children(client)
        os.kill(pids[slot], signal.SIGKILL)
        await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED, timeout=1)
        behaviour.may_answer.set()
        outcomes = await asyncio.gather(*held, return_exceptions=True)
        behaviour.may_answer.clear()
        assert all(isinstance(each, aiohttp.ClientError) or each[0] == 200 for each in outcomes)
        async with asyncio.timeout(PATIENCE_S):
            while set((pids | await gateway.children(client)).values()) == set(pids.values()):
                pass
        # All six are free again, and none is counted twice.
        again = [asyncio.create_task(ask(client, gateway, "a", "held")) for _ in range(6)]
        async with asyncio.timeout(PATIENCE_S):
            while behaviour.waiting < 6:
                assert not [task for task in again if task.done()]
                await gateway.get(client, "/health")
        assert (await ask(client, gateway, "a"))[0] == 429
        behaviour.may_answer.set()
        assert {status for status, _ in await asyncio.gather(*again)} == {200}
        behaviour.may_answer.clear()
        usage = await gateway.get(client, "/usage", params={"tenant": "a"})
        assert {limit["name"]: limit["used"] for limit in usage["limits"]} == {"concurrent": 0}


@pytest.mark.slow
async def test_when_all_die_at_once_requests_wait_until_workers_are_known(gateway, client):
    for pid in (await gateway.children(client)).values():
        os.kill(pid, signal.SIGKILL)
    statuses: Counter[int] = Counter()
    pids: set[int] = set()
    async with asyncio.timeout(PATIENCE_S):
        while len(pids) < 2 or statuses[200] < 40:
            try:
                statuses[(await ask(client, gateway))[0]] += 1
                pids.add((await gateway.get(client, "/health"))["processes"]["pid"])
            except aiohttp.ClientError:  # a connection that one of the killed had accepted
                continue
    assert set(statuses) == {200}


@pytest.mark.slow
async def test_a_worker_that_is_changed_is_changed_in_every_process(gateway, client):
    headers = CLOSE | gateway.headers

    async def shown() -> list[dict]:
        """The worker as different processes list it, each over a connection of its own."""
        return [(await gateway.get(client, "/list_workers"))["workers"][0] for _ in range(8)]

    worker_id = (await gateway.get(client, "/workers"))["workers"][0]["id"]
    for kv_tokens in (1000, 2000):
        path = f"{gateway.url}/workers/{worker_id}"
        async with client.patch(path, json={"kv_tokens": kv_tokens}, headers=headers) as answer:
            assert (answer.status, (await answer.json())["worker_id"]) == (202, worker_id)
        assert {worker["kv_tokens"] for worker in await shown()} == {kv_tokens}
        assert (await gateway.get(client, f"/workers/{worker_id}"))["kv_tokens"] == kv_tokens
    assert (await gateway.get(client, "/v1/loads"))["total_workers"] == 1

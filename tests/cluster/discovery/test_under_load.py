"""Workers come and go in front of a real gateway that is being asked all the time."""

import asyncio
from contextlib import asynccontextmanager

from yarl import URL

from radixway.routing import WorkerState
from support.endpoint_slices import KIND, endpoint, endpoint_slice
from support.kubernetes_api import kubernetes_api
from support.name_server import address_record, name_server
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

NAME = "_http._tcp.vllm-svc.ai.test"


def by_name(server):
    """`discovery` of a gateway that asks this name server, often."""
    return {"dns": [{"name": NAME, "servers": [server.address], "least_s": 0.05, "family": "ipv4"}]}


def names(server, *workers):
    """The name stands for these workers now."""
    ports = [URL(worker.url).port for worker in workers]
    server.set_srv(NAME, *((f"w{port}.test", port) for port in ports))
    for port in ports:
        server.additional[f"w{port}.test"] = [address_record(f"w{port}.test", "127.0.0.1")]


@asynccontextmanager
async def asking(gateway, clients=8):
    """Clients that ask all the time; every answer's status is in the list that this gives."""
    answers, done = [], asyncio.Event()

    async def ask():
        while not done.is_set():
            answers.append((await gateway.chat())[0])

    tasks = [asyncio.create_task(ask()) for _ in range(clients)]
    try:
        yield answers
    finally:
        done.set()
        await asyncio.gather(*tasks)


async def test_workers_appear_and_leave_by_name_and_no_request_is_lost():
    async with (
        name_server() as server,
        scripted_worker() as a,
        scripted_worker() as b,
        scripted_worker() as c,
    ):
        names(server, a)
        async with running_gateway(discovery=by_name(server)) as gateway:
            await gateway.until(a.url, WorkerState.READY)
            async with asking(gateway) as answers:
                for now, comes, goes in ([(a, b), b, None], [(b, c), c, a], [(c, a), a, b]):
                    names(server, *now)
                    await gateway.until(comes.url, WorkerState.READY)
                    if goes is not None:
                        await gateway.until_gone(goes.url)
            assert set(answers) == {200}
            assert a.requests and b.requests and c.requests


async def test_one_that_leaves_finishes_its_answers_and_gets_nothing_new():
    finish = asyncio.Event()

    async def slow(exchange):
        await exchange.begin_stream()
        await exchange.chunk(b'data: {"choices": [{"delta": {"content": "begun"}}]}\n\n')
        await finish.wait()
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    async with name_server() as server, scripted_worker() as b:
        async with scripted_worker(behaviour=slow) as a:
            names(server, a)
            async with running_gateway(discovery=by_name(server)) as gateway:
                await gateway.until(a.url, WorkerState.READY)
                body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
                async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as stream:
                    await stream.content.readuntil(b"\n\n")
                    names(server, b)
                    await gateway.until(a.url, WorkerState.DRAINING)
                    await gateway.until(b.url, WorkerState.READY)
                    assert [(await gateway.chat())[0] for _ in range(4)] == [200] * 4
                    assert len(a.requests) == 1
                    finish.set()
                    assert (await stream.read()).endswith(b"data: [DONE]\n\n")
                await gateway.until_gone(a.url)


def deploy(api, worker, **conditions):
    """A service of this worker alone."""
    port = URL(worker.url).port
    ports = [{"name": "http", "port": port}]
    one = endpoint("127.0.0.1", uid=str(port), **conditions)
    api.put(KIND, endpoint_slice(one, name=f"s{port}", ports=ports))


async def test_pods_are_rolled_over_one_dies_and_the_watch_breaks_and_no_request_is_lost():
    async with (
        kubernetes_api() as api,
        scripted_worker() as a,
        scripted_worker() as b,
        scripted_worker() as c,
    ):
        deploy(api, a)
        deploy(api, b)
        discovery = {"kubernetes": [{"server": api.url, "namespace": "ai", "selector": "model=llama"}]}
        async with running_gateway(discovery=discovery) as gateway:
            await gateway.until(a.url, WorkerState.READY)
            await gateway.until(b.url, WorkerState.READY)
            async with asking(gateway) as answers:
                deploy(api, a, ready=False, terminating=True)
                await gateway.until(a.url, WorkerState.DRAINING)
                api.end_watches(broken=True)
                api.compact()
                deploy(api, c)
                await gateway.until(c.url, WorkerState.READY)
                api.delete(KIND, "ai", f"s{URL(a.url).port}")
                await gateway.until_gone(a.url)
                await b.kill()
                await gateway.until(b.url, WorkerState.DOWN)
                api.delete(KIND, "ai", f"s{URL(b.url).port}")
                await gateway.until_gone(b.url)
            assert set(answers) == {200}
            _, health = await gateway.get("/health")
            assert health["discovery"]["kubernetes ai: model=llama"]["workers"] == 1


async def test_where_a_worker_came_from_is_shown():
    async with name_server() as server, scripted_worker() as a, scripted_worker() as b:
        names(server, a)
        async with running_gateway(b.url, discovery=by_name(server)) as gateway:
            await gateway.until(a.url, WorkerState.READY)
            _, listing = await gateway.get("/list_workers")
            assert {w["url"]: w["sources"] for w in listing["workers"]} == {
                a.url: [f"dns {NAME}"],
                b.url: ["config"],
            }
            _, _, headers = await gateway.chat()
            _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
            chosen = next(step for step in journal["steps"] if step["step"] == "select")
            assert chosen["sources"] == list(
                gateway.gateway.registry.get_worker(f"http://{chosen['worker']}").sources
            )
            assert chosen["sources"] in ([f"dns {NAME}"], ["config"])
            _, health = await gateway.get("/health")
            assert health["discovery"][f"dns {NAME}"] == {"state": "ok", "problem": None, "workers": 1}

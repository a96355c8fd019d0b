"""examples/custom_policy: chosen by its dotted path, it decides in a gateway and in the simulator."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, answer_ok, scripted_worker

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_policy"


@pytest.fixture(autouse=True)
def in_its_folder(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))


async def test_rented_machines_are_asked_when_the_owned_one_has_its_fill():
    arrived, let_go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        arrived.release()
        await let_go.wait()
        await answer_ok(exchange)

    policy = {"name": "owned_first.OwnedFirst", "pool": "owned", "patience": 3}
    async with AsyncExitStack() as stack:
        owned, rented = [await stack.enter_async_context(scripted_worker(behaviour=wait)) for _ in range(2)]
        workers = [{"url": owned.url, "pools": ["owned"]}, {"url": rented.url}]
        gateway = running_gateway(workers=workers, routing={"policy": policy})
        running = await stack.enter_async_context(gateway)
        for worker in (owned, rented):
            await running.until(worker.url, WorkerState.READY)
        asked = []
        for _ in range(6):
            asked.append(asyncio.create_task(running.chat()))
            await arrived.acquire()
        assert (len(owned.requests), len(rented.requests)) == (4, 2)
        let_go.set()
        *_, (status, _, headers) = await asyncio.gather(*asked)
        assert status == 200
        _, explained = await running.get(f"/explain/{headers['x-request-id']}")
    (chosen,) = [step for step in explained["steps"] if step["step"] == "select"]
    assert chosen["policy"] == "owned_first"
    assert {candidate["rent"] for candidate in chosen["candidates"].values()} == {0, 3}

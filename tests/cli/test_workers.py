"""`radixway workers announce`: a process beside a worker that says at gateways that it is there."""

import asyncio
import signal
import sys
from contextlib import asynccontextmanager

from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker


@asynccontextmanager
async def announcing(worker, *options):
    """The process; killed at the end if it has not ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "radixway", "workers", "announce", worker, *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_worker_serves_while_it_is_announced_and_finishes_before_that_ends():
    arrived, finish = asyncio.Event(), asyncio.Event()

    async def slow(exchange):
        arrived.set()
        await finish.wait()
        await exchange.reply(200, b'{"choices": []}')

    async with (
        scripted_worker(behaviour=slow) as worker,
        running_gateway() as one,
        running_gateway() as other,
    ):
        gateways = ("--url", one.url, "--url", other.url)
        async with announcing(worker.url, *gateways, "--ttl", "6", "--max-in-flight", "2") as process:
            for _ in (one, other):
                assert worker.url.encode() in await process.stdout.readline()
            for gateway in (one, other):
                found = await gateway.until(worker.url, WorkerState.READY)
                assert (found.sources, found.config.max_in_flight) == (("registered",), 2)
            leases = one.gateway.membership
            one.gateway.registry.remove_worker(worker.url)  # as if the gateway had been started anew
            leases.remove_member("registered", worker.url)
            await one.until(worker.url, WorkerState.READY)
            asked = asyncio.create_task(one.chat())
            await arrived.wait()
            process.send_signal(signal.SIGTERM)
            await one.until(worker.url, WorkerState.DRAINING)
            await other.until_gone(worker.url)
            assert process.returncode is None
            finish.set()
            assert (await asked)[0] == 200
            assert await process.wait() == 0


async def test_a_gateway_that_refuses_the_fields_ends_it_and_one_that_is_away_does_not(free_port):
    async with running_gateway() as gateway:
        away = f"http://127.0.0.1:{free_port}"
        async with announcing("http://127.0.0.1:9", "--url", away) as process:
            assert b"no gateway answers" in await process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        async with announcing("http://127.0.0.1:9", "--url", gateway.url, "--role", "decode") as process:
            _, told = await process.communicate()
        assert process.returncode == 2
        assert b"role decode needs disaggregation" in told

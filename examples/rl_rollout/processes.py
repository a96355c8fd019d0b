"""A gateway that records trajectories, and engines behind it: on free ports, and gone at the end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

_STOP_WITHIN_S = 10
_START_WITHIN_S = 120


@asynccontextmanager
async def gateway_with_engines(engines: int = 1, threads: int = 1) -> AsyncIterator[str]:
    """The gateway's URL once its engines can answer. Weights are kept in float32, as the trainer has them."""
    settings = {
        "RADIXWAY__ENGINE__DTYPE": "float32",
        "RADIXWAY__ENGINE__THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
    }
    async with AsyncExitStack() as running:
        workers = []
        for _ in range(engines):
            url = await running.enter_async_context(_process("engine", "--port", "0", **settings))
            workers += ["--worker", url]
        serve = ("serve", "--port", "0", "--trajectories", *workers)
        url = await running.enter_async_context(_process(*serve))
        await _until_ready(url, engines)
        yield url


@asynccontextmanager
async def _process(*command: str, **settings: str) -> AsyncIterator[str]:
    """The URL that a `radixway` command serves at: the second word it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "radixway", *command),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "RADIXWAY__TELEMETRY__LOGS__LEVEL": "warning", **settings},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_WITHIN_S):
            while not (line := (await process.stdout.readline()).decode()).startswith(
                ("engine ", "gateway ")
            ):
                if not line:
                    raise SystemExit(f"radixway {command[0]} ended with {await process.wait()}")
        reading = asyncio.create_task(process.stdout.read())  # so that it never waits for us
        yield line.split()[1]
        reading.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_WITHIN_S)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _until_ready(url: str, engines: int) -> None:
    async with asyncio.timeout(_START_WITHIN_S), aiohttp.ClientSession() as client:
        while True:
            async with client.get(f"{url}/health") as response:
                if (await response.json())["workers"]["ready"] == engines:
                    return
            await asyncio.sleep(0.1)

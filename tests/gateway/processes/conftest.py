"""`radixway serve --processes 2` as people start it: real processes, real sockets, a scripted worker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PATIENCE_S = 60


class ManyProcesses:
    """A supervisor and its children."""

    def __init__(self, url: str, process: asyncio.subprocess.Process, config: Path) -> None:
        self.url = url
        self.process = process
        self.config = config
        self.log: list[str] = []
        self.logged = asyncio.Event()
        self.headers: dict[str, str] = {}
        """Of what is asked with `get`: an administrator's, where there are keys."""

    async def children(self, client: aiohttp.ClientSession, count: int = 2) -> dict[int, int]:
        """Process ids by slot: every child is asked, by as many new connections as that takes."""
        found: dict[int, int] = {}
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                told = await self.get(client, "/health")
                found[int(told["processes"]["self"].partition("-")[0])] = told["processes"]["pid"]
        return found

    async def get(self, client: aiohttp.ClientSession, path: str, **more: Any) -> Any:
        """JSON, over a connection of its own: the kernel says which child answers."""
        headers = {"connection": "close"} | self.headers
        async with client.get(self.url + path, headers=headers, **more) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def until(self, client: aiohttp.ClientSession, path: str, is_so: Any) -> Any:
        """Ask until it is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so(told := await self.get(client, path)):
                pass
        return told

    async def until_ready(self, client: aiohttp.ClientSession, workers: int = 1, count: int = 2) -> None:
        """Wait until every child has so many workers that can answer."""
        ready: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while len(ready) < count:
                told = await self.get(client, "/health")
                if told["workers"]["ready"] == workers:
                    ready.add(told["processes"]["self"])

    async def until_logged(self, words: str) -> str:
        """The line of the log with these words."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [line for line in self.log if words in line]):
                self.logged.clear()
                await self.logged.wait()
        return found[0]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def keep_log(self, stream: asyncio.StreamReader) -> None:
        """Read standard error until it ends."""
        async for line in stream:
            self.log.append(line.decode())
            self.logged.set()


@asynccontextmanager
async def many_processes(
    directory: Path, tree: dict[str, Any], *more: str, processes: int = 2
) -> AsyncIterator[ManyProcesses]:
    """Run `radixway serve --processes N` until the end of the block; nothing of it is left then."""
    path = directory / "radixway.yaml"
    tree = {"gateway": {"port": 0}, "chat": {"enabled": False}, "console": {"enabled": False}, **tree}
    path.write_text(json.dumps(tree))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "radixway", "serve", "--config", str(path), "--processes", str(processes)),
        *more,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "RADIXWAY_HOME": str(directory)},
    )
    assert process.stdout is not None and process.stderr is not None
    running = ManyProcesses("", process, path)
    logging = asyncio.create_task(running.keep_log(process.stderr))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (line := (await process.stdout.readline()).decode()).startswith("gateway http"):
                assert line, "".join(running.log)
        running.url = line.split()[1]
        yield running
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        wrong = [line for line in running.log if "Traceback" in line or '"level":"error"' in line]
        assert not wrong, "".join(running.log[-40:])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await logging


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Connections of their own for each request, unless a test keeps one."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as client:
        yield client

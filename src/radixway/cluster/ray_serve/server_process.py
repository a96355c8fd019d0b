"""An engine server as a child process: started until it answers, watched, and drained in the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp

from radixway.cluster.ray_serve.server_plan import ServerPlan, plan_server
from radixway.core.config import EngineConfig, RayEngineConfig
from radixway.core.http import bind_tcp

_ASK_EVERY_S = 0.1
_ASK_WITHIN_S = 5.0
_KILL_AFTER_S = 10.0
"""How long a server with nothing in hand may take to end."""


class EngineServerError(Exception):
    """The server did not start, or has ended, or does not answer; the message says which."""


class ServerRefusedError(Exception):
    """The server's own word that a request is not answered: status and body."""


class ServerProcess:
    """One of them. Belongs to one event loop."""

    def __init__(self, plan: ServerPlan, drain_s: float) -> None:
        self.worker = plan.worker
        self._plan = plan
        self._drain_s = drain_s
        key = plan.worker.api_key
        self._session = aiohttp.ClientSession(
            plan.worker.url,
            headers=None if key is None else {"authorization": f"Bearer {key.get_secret_value()}"},
            timeout=aiohttp.ClientTimeout(total=_ASK_WITHIN_S),
        )
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def start_server(cls, section: RayEngineConfig, settings: EngineConfig, host: str) -> ServerProcess:
        """One at free ports of `host`, once it answers. Raises EngineServerError.

        The ports were free a moment ago; a server that finds its own taken ends, and Ray tries again.
        """
        server = cls(plan_server(section, settings, host, _free_ports(host, 3)), section.drain_s)
        try:
            async with asyncio.timeout(section.start_within_s):
                await server._start_process()
        except BaseException as error:
            await server.stop_server()
            if isinstance(error, TimeoutError):
                raise EngineServerError(
                    f"the server did not answer in {section.start_within_s:g} s"
                ) from None
            raise
        return server

    async def _start_process(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._plan.command,
            env={**os.environ, **self._plan.environment},
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        while not await self._is_answering():
            self.check_running()
            await asyncio.sleep(_ASK_EVERY_S)

    async def _is_answering(self) -> bool:
        try:
            async with self._session.get("/health") as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def check_running(self) -> None:
        """Raises EngineServerError unless it runs."""
        if self._process is None or self._process.returncode is not None:
            code = None if self._process is None else self._process.returncode
            raise EngineServerError(f"the server ended with {code}; its own words are in this replica's log")

    async def count_inflight(self) -> float:
        """Requests that run or wait in it. Raises EngineServerError."""
        try:
            async with self._session.get(self._plan.load_path) as response:
                return self._plan.in_hand(await response.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise EngineServerError(f"it does not say its load: {error}") from error

    async def stream_answer(self, path: str, body: dict[str, Any]) -> AsyncIterator[bytes]:
        """Its answer, piece by piece as it comes. Raises ServerRefusedError."""
        without_end = aiohttp.ClientTimeout(total=None, connect=_ASK_WITHIN_S)
        async with self._session.post(path, json=body, timeout=without_end) as response:
            if response.status != 200:
                raise ServerRefusedError(response.status, await response.text())
            async for piece in response.content.iter_any():
                yield piece

    async def stop_server(self) -> None:
        """Let it finish what it has, then end it, and insist. Once is enough."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain_s):
                    await self._wait_until_idle(process)
        await self._session.close()
        if process is None or process.returncode is not None:
            return
        process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILL_AFTER_S):
                await process.wait()
                return
        process.kill()
        await process.wait()

    async def _wait_until_idle(self, process: asyncio.subprocess.Process) -> None:
        """Wait until it has nothing in hand: not every server finishes that when it is told to end."""
        while process.returncode is None:
            try:
                if not await self.count_inflight():
                    return
            except EngineServerError:
                return
            await asyncio.sleep(_ASK_EVERY_S)


def _free_ports(host: str, count: int) -> list[int]:
    listeners = [bind_tcp(host, 0) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()

"""A server of somebody's as a child process: started until it answers, watched, and drained in the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp

from radixway.config import EngineConfig, RayEngineSection
from radixway.scale.ray_serve.servers import Plan, plan_server
from radixway.web import bind

_ASK_EVERY_S = 0.1
_ASK_WITHIN_S = 5.0
_KILL_AFTER_S = 10.0
"""How long a server with nothing in hand may take to end."""


class ServerFailed(Exception):
    """The server did not start, or has ended, or does not answer; the message says which."""


class Refused(Exception):
    """The server's own word that a request is not answered: status and body."""


class ServerProcess:
    """One of them. Belongs to one event loop."""

    def __init__(self, plan: Plan, drain_s: float) -> None:
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
    async def start(cls, section: RayEngineSection, settings: EngineConfig, host: str) -> ServerProcess:
        """One at free ports of `host`, once it answers. Raises ServerFailed.

        The ports were free a moment ago; a server that finds its own taken ends, and Ray tries again.
        """
        server = cls(plan_server(section, settings, host, _free_ports(host, 3)), section.drain_s)
        try:
            async with asyncio.timeout(section.start_within_s):
                await server._start()
        except BaseException as error:
            await server.stop()
            if isinstance(error, TimeoutError):
                raise ServerFailed(f"the server did not answer in {section.start_within_s:g} s") from None
            raise
        return server

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._plan.command,
            env={**os.environ, **self._plan.environment},
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        while not await self._answers():
            self.check()
            await asyncio.sleep(_ASK_EVERY_S)

    async def _answers(self) -> bool:
        try:
            async with self._session.get("/health") as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def check(self) -> None:
        """Raises ServerFailed unless it runs."""
        if self._process is None or self._process.returncode is not None:
            code = None if self._process is None else self._process.returncode
            raise ServerFailed(f"the server ended with {code}; its own words are in this replica's log")

    async def in_hand(self) -> float:
        """Requests that run or wait in it. Raises ServerFailed."""
        try:
            async with self._session.get(self._plan.load_path) as response:
                return self._plan.in_hand(await response.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ServerFailed(f"it does not say its load: {error}") from error

    async def ask(self, path: str, body: dict[str, Any]) -> AsyncIterator[bytes]:
        """Its answer, piece by piece as it comes. Raises Refused."""
        without_end = aiohttp.ClientTimeout(total=None, connect=_ASK_WITHIN_S)
        async with self._session.post(path, json=body, timeout=without_end) as response:
            if response.status != 200:
                raise Refused(response.status, await response.text())
            async for piece in response.content.iter_any():
                yield piece

    async def stop(self) -> None:
        """Let it finish what it has, then end it, and insist. Once is enough."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain_s):
                    await self._idle(process)
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

    async def _idle(self, process: asyncio.subprocess.Process) -> None:
        """Wait until it has nothing in hand: not every server finishes that when it is told to end."""
        while process.returncode is None:
            try:
                if not await self.in_hand():
                    return
            except ServerFailed:
                return
            await asyncio.sleep(_ASK_EVERY_S)


def _free_ports(host: str, count: int) -> list[int]:
    listeners = [bind(host, 0) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()

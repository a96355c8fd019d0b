"""An engine server as a child process: started until it answers, watched, and drained in the end."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from radixway.core.config import EngineConfig, KvEventsConfig, RayEngineConfig, WorkerSettings
from radixway.core.http import bind_tcp

_VLLM_LOAD = re.compile(rb"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A server as it will run at one place."""

    command: list[str]
    worker: WorkerSettings
    load_path: str
    """Path that reports requests in flight."""
    in_hand: Callable[[bytes], float]
    """Reads that: requests that run or wait. Raises ValueError."""
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_server(section: RayEngineConfig, settings: EngineConfig, host: str, ports: list[int]) -> ServerPlan:
    """Plan `section`'s server at `host`; uses what it needs of three free `ports`."""
    if section.kind == "vllm":
        return _plan_vllm_server(section, settings, host, ports)
    url = f"http://{host}:{ports[0]}"
    command = [sys.executable, "-m", "radixway", "engine", "--until-stdin-closes"]
    command += ["--config", os.devnull, "--host", host, "--port", str(ports[0])]
    command += ["--insecure"]  # the cluster's network is its own, unless `engine.api_key` says otherwise
    if settings.kv_events_endpoint is None:  # where exactly, it says in /server_info
        command += [
            "--kv-events-endpoint",
            f"tcp://{host}:*",
            "--kv-events-replay-endpoint",
            f"tcp://{host}:*",
        ]
    if settings.threads is None and not section.num_gpus:
        settings = settings.model_copy(update={"threads": max(1, int(section.num_cpus))})
    # Not by a file: that is on the machine which deploys, and this may be another one.
    environment = {"RADIXWAY__ENGINE": settings.model_dump_json(exclude_unset=True, exclude={"api_key"})}
    worker = WorkerSettings(url=url, pools=section.pools)
    if settings.api_key is not None:
        environment["RADIXWAY__ENGINE__API_KEY"] = settings.api_key.get_secret_value()
        worker = worker.model_copy(update={"api_key": settings.api_key})
    return ServerPlan(command, worker, "/server_info", _parse_radixway_load, environment)


def _plan_vllm_server(
    section: RayEngineConfig, settings: EngineConfig, host: str, ports: list[int]
) -> ServerPlan:
    port, events, replay = ports
    kv_events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{events}",
        "replay_endpoint": f"tcp://*:{replay}",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", settings.model]
    if settings.served_model_name is not None:
        command += ["--served-model-name", settings.served_model_name]
    command += ["--host", host, "--port", str(port)]
    command += ["--kv-events-config", msgspec.json.encode(kv_events).decode(), *section.arguments]
    worker = WorkerSettings(
        url=f"http://{host}:{port}",
        pools=section.pools,
        kv_events=KvEventsConfig(endpoint=f"tcp://{host}:{events}", replay_endpoint=f"tcp://{host}:{replay}"),
    )
    return ServerPlan(command, worker, "/metrics", _parse_vllm_load)


class _RadixwayLoad(msgspec.Struct):
    running: int
    waiting: int
    loading: int


def _parse_radixway_load(page: bytes) -> float:
    load = msgspec.json.decode(page, type=_RadixwayLoad)
    return load.running + load.waiting + load.loading


def _parse_vllm_load(page: bytes) -> float:
    figures = [float(figure) for figure in _VLLM_LOAD.findall(page)]
    if not figures:
        raise ValueError("there is nothing of vllm:num_requests_running in it")
    return sum(figures)


_POLL_INTERVAL_S = 0.1
_POLL_TIMEOUT_S = 5.0
_KILL_AFTER_S = 10.0
"""Time for an idle server to end."""


class EngineServerError(Exception):
    """The server did not start, or has ended, or does not answer; the message says which."""


class ServerRefusedError(Exception):
    """The server's own word that a request is not answered: status and body."""


class ServerProcess:
    """A server in a process. Belongs to one event loop."""

    def __init__(self, plan: ServerPlan, drain_s: float) -> None:
        self.worker = plan.worker
        self._plan = plan
        self._drain_s = drain_s
        key = plan.worker.api_key
        self._session = aiohttp.ClientSession(
            plan.worker.url,
            headers=None if key is None else {"authorization": f"Bearer {key.get_secret_value()}"},
            timeout=aiohttp.ClientTimeout(total=_POLL_TIMEOUT_S),
        )
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def start_server(cls, section: RayEngineConfig, settings: EngineConfig, host: str) -> ServerProcess:
        """Start a server at free ports of `host` and wait until it answers. Raises EngineServerError.

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
            await asyncio.sleep(_POLL_INTERVAL_S)

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
        """Yield the answer as it comes. Raises ServerRefusedError."""
        without_end = aiohttp.ClientTimeout(total=None, connect=_POLL_TIMEOUT_S)
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
        """Wait until no requests are in flight: not every server finishes them before it exits."""
        while process.returncode is None:
            try:
                if not await self.count_inflight():
                    return
            except EngineServerError:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)


def _free_ports(host: str, count: int) -> list[int]:
    listeners = [bind_tcp(host, 0) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()

"""A gateway, and an engine beside it where one is wanted, kept running by a task of its own.

That task enters and leaves what both hold open, so the tasks that open and close may be different ones,
as the cells of a notebook are.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from radixway.core.config import Config, WorkerSettings
from radixway.core.http import bind_tcp
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.gateway.app import Gateway
from radixway.gateway.engine_supervisor import EngineProcess, wait_until_ready
from radixway.routing import Worker, WorkerRegistry, WorkerState

_OF_THE_ENGINE = "RADIXWAY__ENGINE__"


class EngineFailedError(Exception):
    """The engine could not start; what it logged on standard error says why."""


class EmbeddedRuntime:
    """Between `open` and `close` the gateway answers."""

    def __init__(self, config: Config, *, with_engine: bool, workers_within_s: float) -> None:
        """`workers_within_s`: how long `open` waits for what it can learn of the configured workers."""
        self._config = config
        self._with_engine = with_engine
        self._workers_within_s = workers_within_s
        self._closing = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def start_gateway(self) -> Gateway:
        """Start it. Raises ConfigError; EngineFailedError, EngineKilled if there is to be an engine."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Gateway] = loop.create_future()
        self._keeping = loop.create_task(self._run_gateway(opened), name="radixway")
        try:
            futures: list[asyncio.Future[Any]] = [opened, self._keeping]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await cancel_tasks([self._keeping])
            raise
        if not opened.done():
            await self._keeping  # it failed, and says why
        return opened.result()

    async def stop_gateway(self) -> None:
        """End what is under way, and let go of everything."""
        self._closing.set()
        if self._keeping is None or self._keeping.done():
            return  # it never opened, or has been closed, for example with its event loop
        await asyncio.wait([self._keeping])  # who is cancelled here does not stop the closing
        self._keeping.result()

    async def wait_stopped(self) -> None:
        """Wait until everything has been let go of."""
        if self._keeping is not None:
            await asyncio.wait([self._keeping])

    async def _run_gateway(self, opened: asyncio.Future[Gateway]) -> None:
        async with AsyncExitStack() as stack:
            config, engine = self._config, None
            if self._with_engine:
                engine = await stack.enter_async_context(_configured_engine(config))
                workers = (*config.workers, WorkerSettings(url=engine.url, api_key=config.engine.api_key))
                config = config.model_copy(update={"workers": workers})
            gateway = Gateway(config)
            await stack.enter_async_context(gateway.running())
            if engine is not None:
                await stack.enter_async_context(_supervised_engine(engine, gateway.registry))
            with suppress(TimeoutError):  # then its answers say who is missing
                async with asyncio.timeout(self._workers_within_s):
                    await _wait_for_workers(gateway.registry)
            opened.set_result(gateway)
            await self._closing.wait()
            gateway.stopping()


@asynccontextmanager
async def _configured_engine(config: Config) -> AsyncIterator[EngineProcess]:
    """An engine, not started yet, that is configured as `config` says."""
    with TemporaryDirectory(prefix="radixway-") as folder:
        engine = EngineProcess(
            _free_port(),
            _write_engine_config(config, Path(folder)),
            None,
            publish=config.engine.kv_events_endpoint is None,
            env=_engine_environment(config),
            quiet=True,
        )
        try:
            yield engine
        finally:
            await engine.stop()


@asynccontextmanager
async def _supervised_engine(engine: EngineProcess, registry: WorkerRegistry) -> AsyncIterator[None]:
    """The engine from its first answer on, started again when it dies. Raises EngineFailedError,
    EngineKilled.
    """
    loop = asyncio.get_running_loop()
    supervising = loop.create_task(engine.keep_running(), name="radixway engine")
    ready = loop.create_task(wait_until_ready(registry, engine.url))
    try:
        await asyncio.wait([supervising, ready], return_when=asyncio.FIRST_COMPLETED)
        if supervising.done():
            supervising.result()
            raise EngineFailedError(f"the engine ended with {engine.failed_start} before it was ready")
        engine.mark_ready()
        yield
    finally:
        await cancel_tasks([ready, supervising])


async def _wait_for_workers(registry: WorkerRegistry) -> None:
    """Wait until every worker has answered once, or failed to."""
    changed = asyncio.Event()

    def note(_: Worker) -> None:
        changed.set()

    registry.on_state.append(note)
    try:
        while any(worker.state is WorkerState.JOINING for worker in registry):
            changed.clear()
            await changed.wait()
    finally:
        registry.on_state.remove(note)


def _write_engine_config(config: Config, folder: Path) -> Path:
    """The engine's section as a file, and where traces go; it has no secrets."""
    file = folder / "engine.yaml"
    section = config.engine.model_dump(mode="json", exclude_unset=True, exclude={"api_key"})
    tracing = config.telemetry.tracing.model_dump(mode="json", exclude_unset=True, exclude={"headers"})
    file.write_text(yaml.safe_dump({"engine": section, "telemetry": {"tracing": tracing}}), encoding="utf-8")
    return file


def _engine_environment(config: Config) -> dict[str, str]:
    """Ours, with the secrets that the file does not have."""
    environment = {name: value for name, value in os.environ.items() if not _is_in_file(name)}
    if headers := config.telemetry.tracing.headers:
        secrets = {name: value.get_secret_value() for name, value in headers.items()}
        environment["RADIXWAY__TELEMETRY__TRACING__HEADERS"] = json.dumps(secrets)
    if config.engine.api_key is not None:
        environment["RADIXWAY__ENGINE__API_KEY"] = config.engine.api_key.get_secret_value()
    return environment


def _is_in_file(variable: str) -> bool:
    """The file says what the variable says, or what goes before it."""
    return variable.upper().startswith(_OF_THE_ENGINE)


def _free_port() -> int:
    with bind_tcp("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
    return port

"""A gateway, and an engine beside it where one is wanted, kept running by a task of its own.

That task enters and leaves what both hold open, so the tasks that open and close may be different ones,
as the cells of a notebook are.
"""

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

_ENGINE_VARIABLES = "RADIXWAY__ENGINE__"


class EngineFailedError(Exception):
    """The engine could not start; what it logged on standard error says why."""


class EmbeddedRuntime:
    """A gateway that answers between `start_gateway` and `stop_gateway`."""

    def __init__(self, config: Config, *, with_engine: bool, workers_within_s: float) -> None:
        """Prepare a gateway of `config`; `workers_within_s` is how long starting waits for its workers."""
        self._config = config
        self._with_engine = with_engine
        self._workers_within_s = workers_within_s
        self._closing = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start_gateway(self) -> Gateway:
        """Start it. Raises ConfigError, and with an engine EngineFailedError, EngineKilledError."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Gateway] = loop.create_future()
        self._running = loop.create_task(self._run_gateway(opened), name="radixway")
        try:
            futures: list[asyncio.Future[Any]] = [opened, self._running]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await cancel_tasks([self._running])
            raise
        if not opened.done():
            await self._running  # it failed, and says why
        return opened.result()

    async def stop_gateway(self) -> None:
        """End running calls, and release everything."""
        self._closing.set()
        if self._running is None or self._running.done():
            return  # it never opened, or has been closed, for example with its event loop
        await asyncio.wait([self._running])  # who is cancelled here does not stop the closing
        self._running.result()

    async def wait_stopped(self) -> None:
        """Wait until everything is released."""
        if self._running is not None:
            await asyncio.wait([self._running])

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
    """Yield an engine, not started yet, that is configured as `config` says."""
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
    """Hold `engine` from its first answer on, started again when it dies.

    Raises EngineFailedError, EngineKilledError.
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
    """Wait until each worker has answered or failed once."""
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
    """Write the engine's section and where traces go, without secrets; return the file."""
    file = folder / "engine.yaml"
    section = config.engine.model_dump(mode="json", exclude_unset=True, exclude={"api_key"})
    tracing = config.telemetry.tracing.model_dump(mode="json", exclude_unset=True, exclude={"headers"})
    file.write_text(yaml.safe_dump({"engine": section, "telemetry": {"tracing": tracing}}), encoding="utf-8")
    return file


def _engine_environment(config: Config) -> dict[str, str]:
    """Return our environment without what the file says, but with the secrets that it does not have."""
    environment = {
        name: value for name, value in os.environ.items() if not name.upper().startswith(_ENGINE_VARIABLES)
    }
    if headers := config.telemetry.tracing.headers:
        secrets = {name: value.get_secret_value() for name, value in headers.items()}
        environment["RADIXWAY__TELEMETRY__TRACING__HEADERS"] = json.dumps(secrets)
    if config.engine.api_key is not None:
        environment["RADIXWAY__ENGINE__API_KEY"] = config.engine.api_key.get_secret_value()
    return environment


def _free_port() -> int:
    with bind_tcp("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
    return port

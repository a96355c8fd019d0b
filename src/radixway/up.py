"""`radixway up` and `radixway serve`: run a gateway, and beside it an engine that lives and dies with it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from rich.markup import escape
from rich.table import Column, Table

from radixway.app import Gateway
from radixway.client import CallFailed, Told, ask, call
from radixway.config import Config, WorkerSection
from radixway.routing import Registry, Worker, WorkerState
from radixway.telemetry import ServerConsole, configure_logging
from radixway.web import AppServer, bind

log = logging.getLogger(__name__)
out = ServerConsole(highlight=False)

GREETING = "What is Radixway?"
_RESTART_AFTER_S = (1.0, 60.0)
"""Pause before an engine that died is started again: the first, and the longest they double up to."""
_LIVED_S = 60.0
"""An engine that lived as long begins with the first pause again."""
_STOP_WITHIN_S = 10.0
_LONGEST_SOCKET_PATH = 100


class EngineKilled(Exception):
    """The engine ended before it was ready, and not by its own decision; the message says what is known."""

    def __init__(self, exit_code: int) -> None:
        by = f" by signal {-exit_code} ({signal.strsignal(-exit_code)})" if exit_code else ""
        why = "; perhaps there was not enough memory" if exit_code == -signal.SIGKILL else ""
        super().__init__(f"the engine was ended{by} before it was ready{why}")


async def run_gateway(config: Config) -> int:
    """Serve a gateway until a signal; returns the exit code. Raises CannotListen, ConfigError."""
    configure_logging(config.telemetry.log_level)
    listener = bind(config.gateway.host, config.gateway.port)
    gateway = Gateway(config)
    server = AppServer(
        gateway, listener, drain_s=config.gateway.drain_s, on_stop=gateway.stopping, websockets=True
    )
    server.stop_on_signals()
    async with gateway.running():
        await server.serve(lambda: _tell(server.url, gateway))
    return 0


async def run_up(config: Config, config_file: Path | None, model: str | None, *, greet: bool) -> int:
    """Serve a gateway with an embedded engine on the next port until a signal; returns the exit code.

    An engine that cannot start ends everything with its exit code; one that dies later is started again. A
    second signal waits for nothing.

    Raises:
        CannotListen: one of the two ports cannot be had.
        ConfigError: the configuration names something that does not exist.
        EngineKilled: the engine was ended from outside before it was ready.
    """
    configure_logging(config.telemetry.log_level)
    listener = bind(config.gateway.host, config.gateway.port)
    engine_port = _next_free_port(listener.getsockname()[1])
    engine = _EngineProcess(engine_port, config_file, model, publish=config.engine.kv_events_endpoint is None)
    workers = (*config.workers, WorkerSection(url=engine.url))
    gateway = Gateway(config.model_copy(update={"workers": workers}))
    server = AppServer(
        gateway, listener, drain_s=config.gateway.drain_s, on_stop=gateway.stopping, websockets=True
    )
    stopping = False

    def stop() -> None:
        nonlocal stopping
        if stopping:
            engine.hurry()
        stopping = True
        server.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    supervising = asyncio.create_task(engine.supervise())
    presenting = asyncio.create_task(_present(server.url, gateway.registry, engine, greet=greet))
    try:
        async with gateway.running():
            serving = asyncio.create_task(server.serve())
            await asyncio.wait({serving, supervising}, return_when=asyncio.FIRST_COMPLETED)
            presenting.cancel()
            server.stop()
            await serving
    finally:
        supervising.cancel()
        await asyncio.gather(supervising, presenting, return_exceptions=True)
        await engine.stop()
    for task in (supervising, presenting):
        if not task.cancelled() and (error := task.exception()):
            raise error
    return engine.failed_start or 0


def _tell(url: str, gateway: Gateway) -> None:
    """Say where it can be reached."""
    out.print(f"gateway {url}  ({len(gateway.config.workers)} workers)")
    if gateway.envoy_door is not None:
        out.print(f"ext_proc {gateway.envoy_door.address}")


class _EngineProcess:
    """The embedded engine in a process and session of its own, so that we decide when it stops."""

    def __init__(self, port: int, config_file: Path | None, model: str | None, *, publish: bool) -> None:
        """`publish`: have it publish KV events for this process alone; else as it is configured."""
        self.url = f"http://127.0.0.1:{port}"
        self.failed_start: int | None = None
        self._command = [
            sys.executable,
            "-m",
            "radixway",
            "engine",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        self._command += ["--until-stdin-closes"]
        if config_file is not None:
            self._command += ["--config", str(config_file)]
        if model is not None:
            self._command += ["--model", model]
        self._sockets = TemporaryDirectory(prefix="radixway-")  # nobody else may enter it
        if publish:
            for what in ("endpoint", "replay-endpoint"):
                self._command += [f"--kv-events-{what}", _endpoint(Path(self._sockets.name, what))]
        self._process: asyncio.subprocess.Process | None = None
        self._was_ready = False
        self._hurried = asyncio.Event()

    def ready(self) -> None:
        """It has answered once: from now on its death is an accident, not a bad configuration."""
        self._was_ready = True

    async def supervise(self) -> None:
        """Keep it running; returns when it cannot even start. Raises EngineKilled."""
        first, longest = _RESTART_AFTER_S
        pause_s = first
        while True:
            began = monotonic()
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, start_new_session=True
            )
            code = await self._process.wait()
            if not self._was_ready:
                if code <= 0:
                    raise EngineKilled(code)
                self.failed_start = code
                return
            pause_s = first if monotonic() - began > _LIVED_S else min(pause_s * 2, longest)
            log.warning("the engine ended with %d; starting it again in %g s", code, pause_s)
            await asyncio.sleep(pause_s)

    async def stop(self) -> None:
        """Ask it to finish and leave, then insist."""
        with self._sockets:
            await self._end()

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        ended = asyncio.create_task(process.wait())
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait({ended, hurried}, timeout=_STOP_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ended.done():
            process.kill()
        await ended

    def hurry(self) -> None:
        """Whoever waits in `stop` insists now."""
        self._hurried.set()


async def _present(url: str, registry: Registry, engine: _EngineProcess, *, greet: bool) -> None:
    """Wait for the engine, then show where everything is and one answered request with its journal."""
    with out.status("starting the engine …"):
        await _until_ready(registry, engine.url)
    engine.ready()
    table = Table.grid("", Column(no_wrap=True), "", padding=(0, 2, 0, 0))
    table.add_row("gateway", f"[bold]{url}[/]", "/v1/chat/completions, /generate, /explain/{request_id}")
    table.add_row("engine", engine.url, ", ".join(sorted(registry.models())))
    table.add_row("metrics", f"{url}/metrics/prometheus", "")
    table.add_row("API", f"{url}/docs", "")
    out.print(table)
    if greet:
        try:
            await _greet(url)
        except CallFailed as failure:
            log.warning("the first request failed: %s", failure)
    out.print("\nServing. Ctrl-C stops.")


async def _until_ready(registry: Registry, url: str) -> None:
    ready = asyncio.Event()

    def look(worker: Worker) -> None:
        if worker.url == url and worker.state is WorkerState.READY:
            ready.set()

    registry.on_state.append(look)
    for worker in registry:
        look(worker)
    await ready.wait()
    registry.on_state.remove(look)


async def _greet(url: str) -> None:
    out.print(f"\n[bold]> {GREETING}[/]")
    body = {
        "model": "auto",
        "messages": [{"role": "user", "content": GREETING}],
        "temperature": 0,
        "max_tokens": 96,
    }
    told: Told = await ask(url, body, show=lambda text: out.print(text, end="", markup=False))
    out.print(f"\n[dim]{escape(told.summary())}[/]", soft_wrap=True)
    journal = await call(url, "GET", f"/explain/{told.request_id}", dict[str, Any])
    for step in journal["steps"]:
        out.print(
            f"  [dim]{step.pop('at_ms'):8.2f} ms[/]  {step.pop('step'):<8} {_fields(step)}", soft_wrap=True
        )


def _fields(step: dict[str, Any]) -> str:
    return "  ".join(f"[dim]{name}[/] {escape(str(value))}" for name, value in step.items())


def _endpoint(path: Path) -> str:
    """A socket at that path, or at an ephemeral port where paths are too long for sockets."""
    return f"ipc://{path}" if len(str(path)) < _LONGEST_SOCKET_PATH else "tcp://127.0.0.1:*"


def _next_free_port(port: int) -> int:
    """The port after the gateway's, checked before a model is loaded for nothing. Raises CannotListen."""
    bind("127.0.0.1", port + 1).close()
    return port + 1

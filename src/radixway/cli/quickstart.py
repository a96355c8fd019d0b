"""`radixway up` and `radixway serve`: run a gateway, and beside it an engine with the same lifetime."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Column, Table
from yarl import URL

from radixway.cli.desktop_browser import open_page
from radixway.cli.embedded_models import EmbeddedEngines, make_engines
from radixway.cli.terminal import journal_lines
from radixway.core.config import Config, ConfigError, WorkerSettings
from radixway.core.http import (
    bind_tcp,
    bind_tcp_shared,
    is_loopback_host,
    raise_file_limit,
)
from radixway.core.http.gateway_client import GatewayCallError, call_gateway, stream_chat
from radixway.core.http.serving import listener_url
from radixway.core.telemetry import HeapFreezer, ServerConsole, configure_logging
from radixway.gateway.app import Gateway
from radixway.gateway.processes import (
    LimitsAuthority,
    ProcessSupervisor,
    check_processes,
    count_processes,
)
from radixway.routing import WorkerRegistry, WorkerState

log = logging.getLogger(__name__)
out = ServerConsole(highlight=False)

GREETING = "What is Radixway?"
_DRAIN_S = 0.5
"""How long answers may go on after `radixway up` was asked to stop, if `gateway.drain_s` is not set."""
_LOGS_OF_WORKERS = ("fleet_membership", "health_monitor", "kv_events.service")


def check_exposure(config: Config) -> None:
    """Raise ConfigError where other machines would reach models without a key, unless that was allowed."""
    gateway = config.gateway
    needs_keys = any(tenant.keys for tenant in config.tenants.named.values())
    if needs_keys or gateway.insecure or is_loopback_host(gateway.host):
        return
    alone = "" if gateway.admin_key is None else " (gateway.admin_key guards administrative calls alone)"
    raise ConfigError(
        f"gateway.host: {gateway.host} is reached from other machines, and they may ask models without a key"
        f"{alone}: give tenants keys (tenants.NAME.keys), listen on 127.0.0.1, or say that it is meant so: "
        "--insecure (gateway.insecure: true, RADIXWAY__GATEWAY__INSECURE=true)"
    )


async def run_gateway(config: Config) -> int:
    """Serve a gateway until a signal; return the exit code. Raises CannotListenError, ConfigError."""
    listener = _open_listener(config)
    gateway = Gateway(config)
    server = gateway.make_server(listener)
    with server.stopped_by_signals(partial(_say_stopping, gateway)):
        async with gateway.running():
            await server.serve(lambda: _announce(server.url, gateway))
    return 0


async def run_processes(config: Config, reload_config: Callable[[], Config]) -> int:
    """Serve a gateway in several processes until a signal; return the exit code.

    `reload_config`: called at SIGHUP, raises ConfigError. Raises CannotListenError, ConfigError,
    ProcessFailedError.
    """
    check_exposure(config)
    check_processes(config)
    configure_logging(config.telemetry.logs)
    raise_file_limit()
    limits = LimitsAuthority(config.tenants)
    limits.load_usage(config.tenants)
    if config.ext_proc.enabled:  # the children share its port with each other alone
        bind_tcp(config.ext_proc.host, config.ext_proc.port).close()
    listeners = bind_tcp_shared(config.gateway.host, config.gateway.port, count_processes(config))
    supervisor = ProcessSupervisor(config, listeners, reload_config, limits)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, supervisor.stop)
    loop.add_signal_handler(signal.SIGHUP, supervisor.roll)

    def announce() -> None:
        url, workers = listener_url(listeners[0]), len(config.workers)
        out.print(f"gateway {url}  ({workers} workers, {len(listeners)} processes)")

    await supervisor.run(announce)
    return 0


async def run_up(
    config: Config,
    config_file: Path | None,
    model: str | None,
    *,
    greet: bool,
    browser: bool,
    small: bool = False,
) -> int:
    """Serve a gateway with embedded engines on the next ports until a signal; return the exit code.

    `greet`: answer and explain one request at the start. `browser`: open the console, on a desktop.

    An engine that cannot start ends everything with its exit code; one that dies later is started again. A
    second signal waits for nothing.

    Raises:
        CannotListenError: one of the two ports cannot be had.
        ConfigError: the configuration names something that does not exist.
        EngineKilled: the engine was ended from outside before it was ready.
    """
    if config.gateway.processes != 1:
        log.info("gateway.processes: `radixway up` runs one; `radixway serve` runs as many as it says")
    listener = _open_listener(config)
    port = listener.getsockname()[1] + 1
    engines, config = make_engines(config, config_file, model, port, small=small)
    settings = config.gateway
    if "drain_s" not in settings.model_fields_set:
        settings = settings.model_copy(update={"drain_s": _DRAIN_S})
    gateway = Gateway(config.model_copy(update={"gateway": settings}))
    server = gateway.make_server(listener)
    with (
        server.stopped_by_signals(partial(_say_stopping, gateway), engines.force_stop),
        hide_engine_start(gateway.registry, engines.urls),
    ):
        supervising = asyncio.create_task(engines.keep_running())
        presenting = asyncio.create_task(
            _show_welcome(server.url, gateway, engines, greet=greet, browser=browser)
        )
        try:
            async with gateway.running():
                serving = asyncio.create_task(server.serve(partial(_announce_up, server.url, gateway)))
                await asyncio.wait({serving, supervising}, return_when=asyncio.FIRST_COMPLETED)
                presenting.cancel()
                server.stop()
                await serving
        finally:
            supervising.cancel()
            presenting.cancel()
            await asyncio.gather(supervising, presenting, return_exceptions=True)
            await engines.stop()
    for task in (supervising, presenting):
        if not task.cancelled() and (error := task.exception()):
            raise error
    return engines.failed_start or 0


def _open_listener(config: Config) -> socket.socket:
    """Return the gateway's socket, once its exposure is checked and the process prepared."""
    check_exposure(config)
    configure_logging(config.telemetry.logs)
    raise_file_limit()
    return bind_tcp(config.gateway.host, config.gateway.port)


def _announce(url: str, gateway: Gateway) -> None:
    """Say where it can be reached, which it can by now, and make ready what the first visitor needs."""
    HeapFreezer().freeze_startup_objects(is_idle=lambda: not gateway.in_hand)
    gateway.warm_up()
    gateway.preload_console(URL(url).port or 0)
    out.print(f"gateway {url}  ({len(gateway.config.workers)} workers)")
    if gateway.ext_proc_server is not None:
        out.print(f"ext_proc {gateway.ext_proc_server.address}")


def _announce_up(url: str, gateway: Gateway) -> None:
    """Name the page to begin with, before the engines have loaded their models."""
    if gateway.has_console:
        out.print(f"console  [bold]{console_url(url)}[/]")
    gateway.warm_up()


def console_url(url: str) -> str:
    """Return the console's address for a browser on this machine, of a gateway that listens at `url`."""
    address = URL(url)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host or "", address.host)
    return str(address.with_host(host or "") / "console")


def _say_stopping(gateway: Gateway) -> None:
    """Acknowledge a signal in one line."""
    count = sum(worker.load.requests for worker in gateway.registry)
    drain_s = gateway.config.gateway.drain_s
    rest = f": {count} in flight, {drain_s:g} s to finish; Ctrl-C again ends them now" if count else ""
    out.print(f"Stopping{rest}.")


@contextmanager
def hide_engine_start(registry: WorkerRegistry, urls: Sequence[str]) -> Iterator[None]:
    """Within it, leave out what the log says of the engines at `urls` while they start: `up` says it."""
    engines = {WorkerSettings(url=url).url.partition("://")[2]: url for url in urls}

    def is_shown(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not any(name in message and may_hide(url, record) for name, url in engines.items())

    def may_hide(url: str, record: logging.LogRecord) -> bool:
        known = registry.get_worker(url)
        is_starting = known is None or known.state is WorkerState.JOINING
        return is_starting or record.levelno <= logging.INFO

    loggers = [logging.getLogger(f"radixway.routing.{name}") for name in _LOGS_OF_WORKERS]
    for each in loggers:
        each.addFilter(is_shown)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(is_shown)


async def _show_welcome(
    url: str, gateway: Gateway, engines: EmbeddedEngines, *, greet: bool, browser: bool
) -> None:
    """Wait for the engines, then show where everything is and one answered request with its journal."""
    registry = gateway.registry
    with out.status("starting the engine …"):
        await engines.wait_until_ready(registry)
    gateway.preload_console(URL(url).port or 0)
    if browser and gateway.has_console:
        await asyncio.to_thread(open_page, console_url(url))
    table = Table.grid("", Column(no_wrap=True), "", padding=(0, 2, 0, 0))
    table.add_row("gateway", f"[bold]{url}[/]", "OpenAI's API at /v1")
    for engine_url in engines.urls:
        worker = registry.get_worker(engine_url)
        table.add_row("engine", engine_url, ", ".join(worker.models) if worker else "")
    table.add_row("metrics", f"{url}/metrics/prometheus", "")
    table.add_row("API", f"{url}/docs", "")
    out.print(table)
    if greet:
        try:
            await _ask_greeting(url)
        except GatewayCallError as failure:
            log.warning("the first request failed: %s", failure)
    HeapFreezer().freeze_startup_objects(is_idle=lambda: not gateway.in_hand)
    out.print("\nServing. Ctrl-C stops.")


async def _ask_greeting(url: str) -> None:
    out.print(f"\n[bold]> {GREETING}[/]")
    messages = [{"role": "user", "content": GREETING}]
    body = {"model": "auto", "messages": messages, "temperature": 0, "max_tokens": 96}
    answer = await stream_chat(url, body, show=lambda text: out.print(text, end="", markup=False))
    out.print(f"\n[dim]{escape(answer.summary())}[/]", soft_wrap=True)
    journal = await call_gateway(url, "GET", f"/explain/{answer.request_id}", dict[str, Any])
    for line in journal_lines(journal["steps"]):
        out.print(line, soft_wrap=True)

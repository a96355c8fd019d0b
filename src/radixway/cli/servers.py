"""`radixway up`, `serve`, `engine`, `console` and `operator`: what runs until a signal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NoReturn

from typer import Option

from radixway.cli.model_check import ModelUnavailableError, check_model
from radixway.cli.options import (
    GATEWAY,
    ConfigFile,
    GatewayUrl,
    Host,
    Insecure,
    MiddlewarePaths,
    Model,
    Port,
    Trajectories,
    Workers,
    drop_unset,
    gateway_overrides,
    load_options,
    read_config,
)
from radixway.cli.terminal import (
    err,
    exit_on,
    exit_with_error,
    exit_without_extra,
    on_stop_signal,
    out,
    terminate_when_stdin_closes,
)
from radixway.core.config import Config, ConfigError, EngineConfig


def up(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    model: Model = None,
    worker: Workers = None,
    middleware_paths: MiddlewarePaths = None,
    trajectories: Trajectories = None,
    greet: Annotated[bool, Option(help="Answer and explain one request at the start.")] = True,
    browser: Annotated[bool, Option(help="Open the console in a browser, where there is a desktop.")] = True,
    small: Annotated[bool, Option("--small", help="Serve the guide alone, without SmolLM2.")] = False,
    insecure: Insecure = None,
) -> None:
    """Start an engine and a gateway in front of it."""
    overrides = gateway_overrides(host, port, worker, insecure=insecure)
    overrides |= {"engine": drop_unset(model=model), "trajectories": drop_unset(enabled=trajectories)}
    settings = load_options(config, overrides, middleware_paths=middleware_paths or ())
    with exit_on(ModelUnavailableError):
        check_model(settings.engine.model)
    from radixway.cli.quickstart import run_up

    run_server(run_up(settings, config, model, greet=greet, browser=browser, small=small))


def serve(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    worker: Workers = None,
    model: Annotated[
        str | None, Option(help="The model that the workers given by --worker serve.", metavar="NAME")
    ] = None,
    middleware_paths: MiddlewarePaths = None,
    trajectories: Trajectories = None,
    ext_proc_port: Annotated[
        int | None,
        Option(help="Decide for Envoy too, as its external processor on this port.", min=0, max=65535),
    ] = None,
    processes: Annotated[
        str | None,
        Option(help="Processes that answer at the address; auto: one for each core.", metavar="N|auto"),
    ] = None,
    insecure: Insecure = None,
) -> None:
    """Start a gateway in front of workers that run elsewhere."""
    overrides = gateway_overrides(host, port, worker, served=model, insecure=insecure)
    overrides["gateway"] |= drop_unset(processes=processes)
    overrides |= {"trajectories": drop_unset(enabled=trajectories)}
    if ext_proc_port is not None:
        overrides["ext_proc"] = {"enabled": True, "port": ext_proc_port}
    read_options = partial(read_config, config, overrides, middleware_paths=middleware_paths or ())
    with exit_on(ConfigError):
        settings = read_options()
    from radixway.gateway.processes import count_processes

    if count_processes(settings) == 1:
        from radixway.cli.quickstart import run_gateway

        run_server(run_gateway(settings))
    from radixway.cli.quickstart import run_processes

    run_server(run_processes(settings, read_options))


def engine(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    model: Model = None,
    generation_config: Annotated[
        str | None,
        Option(
            help="Fields that requests leave out: as the model recommends (auto), or neutral (none).",
            metavar="auto|none",
        ),
    ] = None,
    eviction: Annotated[
        str | None,
        Option(help="Cached prefixes that go first: lru, lfu, slru or priority.", metavar="ORDER"),
    ] = None,
    kv_cache_dtype: Annotated[
        str | None, Option(help="Keys and values as computed, or in 8 bits.", metavar="auto|fp8|int8")
    ] = None,
    quantization: Annotated[
        str | None, Option(help="Weights in full, or in 8 or 4 bits.", metavar="none|int8wo|int4wo")
    ] = None,
    host_cache_gb: Annotated[
        float | None, Option(help="Memory for cached KV that does not fit the device.", metavar="GB")
    ] = None,
    disk_cache_dir: Annotated[
        Path | None, Option(help="Keep cached KV here too, also for the next start.", metavar="DIR")
    ] = None,
    disk_cache_gb: Annotated[
        float | None, Option(help="Most that the disk cache takes.", metavar="GB")
    ] = None,
    kv_events_endpoint: Annotated[
        str | None,
        Option(help="Publish KV events here: tcp://*:5557 binds, tcp://host:5557 connects.", metavar="ZMQ"),
    ] = None,
    kv_events_replay_endpoint: Annotated[
        str | None, Option(help="Replay missed KV events here.", metavar="ZMQ")
    ] = None,
    kv_events_topic: Annotated[str | None, Option(help="First frame of every KV event message.")] = None,
    kv_events_format: Annotated[
        str | None,
        Option(help="KV events as vLLM 0.24 and later has them, or before.", metavar="map|array"),
    ] = None,
    disaggregation_mode: Annotated[
        str | None,
        Option(help="Prefill for other engines, or have them prefill.", metavar="null|prefill|decode"),
    ] = None,
    disaggregation_bootstrap_port: Annotated[
        int | None,
        Option(help="Where a prefill engine's KV is fetched; 0 takes a free port.", metavar="PORT"),
    ] = None,
    api_key: Annotated[
        str | None,
        Option(help="A key that clients must send; or in RADIXWAY__ENGINE__API_KEY.", metavar="KEY"),
    ] = None,
    insecure: Insecure = None,
    until_stdin_closes: Annotated[bool, Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Start an embedded engine alone.

    It serves one model to clients of OpenAI's and SGLang's protocols.
    """
    given = locals()
    options = {name: given[name] for name in EngineConfig.model_fields if name in given}
    options["disaggregation_bootstrap_host"] = host
    settings = load_options(config, {"engine": drop_unset(**options)})
    address = (host or settings.gateway.host, settings.gateway.port + 1 if port is None else port)
    _check_engine_exposure(settings, address[0])
    with exit_on(ModelUnavailableError):
        check_model(settings.engine.model)
    if until_stdin_closes:
        terminate_when_stdin_closes()
    _run_engine(settings, *address)


def console(
    gateway: GatewayUrl = GATEWAY,
    listen: Annotated[str, Option(help="Where to serve the pages.", metavar="HOST:PORT")] = "127.0.0.1:30009",
    public_host: Annotated[
        list[str] | None,
        Option(help="A name under which browsers reach it; repeatable.", metavar="HOST[:PORT]"),
    ] = None,
    session_hours: Annotated[float, Option(help="Hours until an idle session ends.", min=0.01)] = 12,
    attempts_per_minute: Annotated[
        int, Option(help="Wrong keys from one address before the next is refused.", min=1)
    ] = 10,
    until_stdin_closes: Annotated[bool, Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Serve the console of a gateway that runs. A gateway does so by itself at /console."""
    storage = TemporaryDirectory(prefix="radixway-console-")
    os.environ["NICEGUI_STORAGE_PATH"] = storage.name  # read as it is imported; nothing of ours is kept there
    with exit_without_extra("the console", "console"):
        from radixway.console.server import ConsoleOptions, run_console
    from radixway.core.config import LogsConfig
    from radixway.core.http import CannotListenError
    from radixway.core.telemetry import HeapFreezer, ServerConsole, configure_logging

    if not listen.startswith("unix:") and not listen.rpartition(":")[2].isdigit():
        exit_with_error(f"--listen is HOST:PORT, not {listen!r}")
    configure_logging(LogsConfig(level="warning"))
    if until_stdin_closes:
        terminate_when_stdin_closes()
    options = ConsoleOptions(
        gateway=gateway,
        listen=listen,
        hosts=public_host or (),
        session_s=session_hours * 3600,
        attempts_per_minute=attempts_per_minute,
    )
    server_out = ServerConsole(highlight=False, markup=False)

    def ready(url: str) -> None:
        HeapFreezer().freeze_startup_objects()
        shown = url if url.startswith("unix:") else f"{url}/console"
        server_out.print(f"console {shown}", soft_wrap=True)

    with exit_on(CannotListenError), storage:
        asyncio.run(run_console(options, ready))


def operator(
    namespace: Annotated[
        list[str] | None,
        Option(envvar="RADIXWAY_OPERATOR_NAMESPACES", help="A namespace to watch; repeatable. Default: all."),
    ] = None,
    server: Annotated[
        str | None,
        Option(
            help="An API server that asks for no credentials, as of kubectl proxy. "
            "Default: the pod's, or that of $KUBECONFIG.",
            metavar="URL",
        ),
    ] = None,
    liveness: Annotated[
        str | None, Option(help="Serve liveness here: http://0.0.0.0:8080/healthz", metavar="URL")
    ] = None,
) -> None:
    """Run the Kubernetes operator.

    A Model becomes a pool of workers, a RouterPolicy rules of gateways.
    """
    with exit_without_extra("the operator", "operator"):
        from radixway.cluster.operator import ClusterNotConfiguredError, OperatorSettings, run_operator
    settings = OperatorSettings(tuple(namespace or ()), server, liveness)

    async def run() -> None:
        stop = asyncio.Event()
        on_stop_signal(stop.set)
        await run_operator(settings, stop, lambda: out.print("operator ready"))

    with exit_on(ClusterNotConfiguredError):
        asyncio.run(run())


def run_server(serving: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a gateway to its end under uvloop and exit with what it returns."""
    from radixway.core.http import CannotListenError, exit_process, run_until_exit
    from radixway.gateway.engine_supervisor import EngineKilledError
    from radixway.gateway.processes import ProcessFailedError

    with exit_on(ConfigError, CannotListenError, EngineKilledError, ProcessFailedError):
        exit_process(run_until_exit(serving))


def _check_engine_exposure(settings: Config, host: str) -> None:
    """End the command where other machines would reach an engine without a key, unless that was allowed."""
    from radixway.core.http import is_loopback_host

    if settings.engine.api_key is None and not settings.engine.insecure and not is_loopback_host(host):
        exit_with_error(
            f"{host} is reached from other machines, and the engine does whatever they ask, new weights "
            "included: give it a key (--api-key, RADIXWAY__ENGINE__API_KEY), listen on 127.0.0.1, or, where "
            "only gateways reach it, say so with --insecure (engine.insecure: true)"
        )


def _run_engine(settings: Config, host: str, port: int) -> None:
    """Run an engine to its end, with a bar while it loads."""
    with exit_without_extra("the engine", "engine"):
        from radixway.engine.server import serve as serve_engine
    from rich.progress import Progress, TaskID

    from radixway.core.http import ServerLimits, exit_process, raise_file_limit, run_until_exit
    from radixway.core.telemetry import HeapFreezer, ServerConsole, configure_logging
    from radixway.core.telemetry.tracing import build_tracing
    from radixway.engine.errors import EngineError

    configure_logging(settings.telemetry.logs)
    bar = Progress(console=err, transient=True, disable=not err.is_terminal)
    stages: dict[str, TaskID] = {}

    def show(what: str, share: float) -> None:
        bar.start()
        stages[what] = stages[what] if what in stages else bar.add_task(what, total=1.0)
        bar.update(stages[what], completed=share)

    def serving(url: str) -> None:
        bar.stop()
        HeapFreezer().freeze_startup_objects()
        ServerConsole(highlight=False, markup=False).print(f"engine {url}")

    try:
        tracing = build_tracing(settings.telemetry.tracing, service="radixway-engine", role="engine")
        raise_file_limit()
        limits = ServerLimits(**settings.limits.server.model_dump())
        run_until_exit(
            serve_engine(
                settings.engine, host, port, progress=show, on_ready=serving, tracing=tracing, limits=limits
            )
        )
    except (EngineError, ConfigError) as error:
        bar.stop()
        exit_with_error(str(error))
    exit_process(0)

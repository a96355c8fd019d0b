"""`radixway up`, `serve` and `engine`: what runs until a signal."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from radixway.cli.options import (
    ApiKey,
    BootstrapPort,
    ConfigFile,
    DisaggregationMode,
    DiskCache,
    DiskCacheDir,
    Eviction,
    ExtProcPort,
    Host,
    HostCache,
    Insecure,
    KVCacheDtype,
    KVEventsEndpoint,
    KVEventsFormat,
    KVEventsReplay,
    KVEventsTopic,
    MiddlewarePaths,
    Model,
    Port,
    Quantization,
    Trajectories,
    Workers,
    drop_unset,
    ext_proc_overrides,
    gateway_overrides,
    load_options,
)
from radixway.cli.terminal import exit_with_error, terminate_when_stdin_closes
from radixway.core.config import Config, ConfigError


def up(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    model: Model = None,
    worker: Workers = None,
    middleware_paths: MiddlewarePaths = None,
    trajectories: Trajectories = None,
    greet: Annotated[bool, typer.Option(help="Answer and explain one request at the start.")] = True,
    insecure: Insecure = None,
) -> None:
    """Start an engine and a gateway in front of it."""
    overrides = gateway_overrides(host, port, worker, insecure=insecure)
    overrides |= {"engine": drop_unset(model=model), "trajectories": drop_unset(enabled=trajectories)}
    settings = load_options(config, overrides, middleware_paths=middleware_paths or ())
    from radixway.cli.quickstart import run_up

    run_server(run_up(settings, config, model, greet=greet))


def serve(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    worker: Workers = None,
    model: Annotated[
        str | None, typer.Option(help="The model that the workers given by --worker serve.", metavar="NAME")
    ] = None,
    middleware_paths: MiddlewarePaths = None,
    trajectories: Trajectories = None,
    ext_proc_port: ExtProcPort = None,
    insecure: Insecure = None,
) -> None:
    """Start a gateway in front of workers that run elsewhere."""
    overrides = gateway_overrides(host, port, worker, served=model, insecure=insecure)
    overrides |= {"trajectories": drop_unset(enabled=trajectories)}
    overrides |= {"ext_proc": ext_proc_overrides(ext_proc_port)}
    settings = load_options(config, overrides, middleware_paths=middleware_paths or ())
    from radixway.cli.quickstart import run_gateway

    run_server(run_gateway(settings))


def engine(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    model: Model = None,
    eviction: Eviction = None,
    kv_cache_dtype: KVCacheDtype = None,
    quantization: Quantization = None,
    host_cache_gb: HostCache = None,
    disk_cache_dir: DiskCacheDir = None,
    disk_cache_gb: DiskCache = None,
    kv_events_endpoint: KVEventsEndpoint = None,
    kv_events_replay_endpoint: KVEventsReplay = None,
    kv_events_topic: KVEventsTopic = None,
    kv_events_format: KVEventsFormat = None,
    disaggregation_mode: DisaggregationMode = None,
    disaggregation_bootstrap_port: BootstrapPort = None,
    api_key: ApiKey = None,
    insecure: Insecure = None,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Start an embedded engine alone: an OpenAI and SGLang compatible server over one model."""
    options = {
        "model": model,
        "eviction": eviction,
        "kv_cache_dtype": kv_cache_dtype,
        "quantization": quantization,
        "host_cache_gb": host_cache_gb,
        "disk_cache_dir": disk_cache_dir,
        "disk_cache_gb": disk_cache_gb,
        "kv_events_endpoint": kv_events_endpoint,
        "kv_events_replay_endpoint": kv_events_replay_endpoint,
        "kv_events_topic": kv_events_topic,
        "kv_events_format": kv_events_format,
        "disaggregation_mode": disaggregation_mode,
        "disaggregation_bootstrap_port": disaggregation_bootstrap_port,
        "disaggregation_bootstrap_host": host,
        "api_key": api_key,
        "insecure": insecure,
    }
    settings = load_options(config, {"engine": drop_unset(**options)})
    address = (host or settings.gateway.host, settings.gateway.port + 1 if port is None else port)
    _check_engine_exposure(settings, address[0])
    if until_stdin_closes:
        terminate_when_stdin_closes()
    _run_engine(settings, *address)


def run_server(serving: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a gateway to its end under uvloop and exit with what it returns."""
    from radixway.core.http import CannotListenError, run_until_exit
    from radixway.gateway.engine_supervisor import EngineKilledError

    try:
        sys.exit(run_until_exit(serving))
    except (ConfigError, CannotListenError, EngineKilledError) as error:
        exit_with_error(str(error))


def _check_engine_exposure(settings: Config, host: str) -> None:
    """End the command where other machines would reach an engine without a key, unless that was said."""
    from radixway.core.http import is_loopback_host

    if settings.engine.api_key is None and not settings.engine.insecure and not is_loopback_host(host):
        exit_with_error(
            f"{host} is reached from other machines, and the engine does whatever they ask, new weights "
            "included: give it a key (--api-key, RADIXWAY__ENGINE__API_KEY), listen on 127.0.0.1, or, where "
            "only gateways reach it, say so with --insecure (engine.insecure: true)"
        )


def _run_engine(settings: Config, host: str, port: int) -> None:
    """Run an engine to its end, with a bar while it loads."""
    try:
        from radixway.engine.server import serve as serve_engine
    except ModuleNotFoundError as error:
        exit_with_error(
            f"the engine is not installed (there is no {error.name}): pip install 'radixway[engine]'"
        )
    from rich.progress import Progress, TaskID

    from radixway.core.http import ServerLimits, raise_file_limit, run_until_exit
    from radixway.core.telemetry import HeapFreezer, ServerConsole, configure_logging
    from radixway.core.telemetry.tracing import build_tracing
    from radixway.engine.errors import EngineError

    configure_logging(settings.telemetry.logs)
    terminal = Console(stderr=True)
    bar = Progress(console=terminal, transient=True, disable=not terminal.is_terminal)
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

"""The `radixway` command."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from radixway import __version__
from radixway.config import Config, ConfigError, check_worker_url, load_config

app = typer.Typer(
    name="radixway",
    help="The gateway for people who run their own language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
workers_app = typer.Typer(help="The workers of a running gateway.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration.", no_args_is_help=True)
app.add_typer(workers_app, name="workers")
app.add_typer(config_app, name="config")

out = Console(highlight=False, markup=False)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Default: ./radixway.yaml if there is one.", metavar="FILE"),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on.", min=0, max=65535)]
Model = Annotated[str | None, typer.Option(help="Model directory or hub id.", metavar="PATH_OR_ID")]
Eviction = Annotated[
    str | None,
    typer.Option(help="Cached prefixes that go first: lru, lfu, slru or priority.", metavar="ORDER"),
]
KVCacheDtype = Annotated[
    str | None, typer.Option(help="Keys and values as computed, or in 8 bits.", metavar="auto|fp8|int8")
]
Quantization = Annotated[
    str | None, typer.Option(help="Weights in full, or in 8 or 4 bits.", metavar="none|int8wo|int4wo")
]
HostCache = Annotated[
    float | None, typer.Option(help="Memory for cached KV that the device has no room for.", metavar="GB")
]
DiskCacheDir = Annotated[
    Path | None, typer.Option(help="Keep cached KV here too, also for the next start.", metavar="DIR")
]
DiskCache = Annotated[float | None, typer.Option(help="Most that the disk cache takes.", metavar="GB")]
KVEventsEndpoint = Annotated[
    str | None,
    typer.Option(help="Publish KV events here: tcp://*:5557 binds, tcp://host:5557 connects.", metavar="ZMQ"),
]
KVEventsReplay = Annotated[str | None, typer.Option(help="Replay missed KV events here.", metavar="ZMQ")]
KVEventsTopic = Annotated[str | None, typer.Option(help="First frame of every KV event message.")]
KVEventsFormat = Annotated[
    str | None,
    typer.Option(help="KV events as vLLM 0.24 and later has them, or before.", metavar="map|array"),
]
Workers = Annotated[
    list[str] | None, typer.Option("--worker", help="A worker's URL; repeatable.", metavar="URL")
]
GatewayUrl = Annotated[str, typer.Option(help="The gateway.", envvar="RADIXWAY_URL", metavar="URL")]
AdminKey = Annotated[str | None, typer.Option(help="The gateway's admin key.", envvar="RADIXWAY_ADMIN_KEY")]

AnswerT = TypeVar("AnswerT")

_GATEWAY = "http://127.0.0.1:30000"
_DEFAULT_FILE = Path("radixway.yaml")


def fail(message: str) -> NoReturn:
    """End the command with one clear sentence and exit code 2."""
    Console(stderr=True, highlight=False).print(f"[bold red]radixway:[/] {escape(message)}", soft_wrap=True)
    raise SystemExit(2)


@app.command()
def up(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    model: Model = None,
    worker: Workers = None,
    greet: Annotated[bool, typer.Option(help="Answer and explain one request at the start.")] = True,
) -> None:
    """Start an engine and a gateway in front of it."""
    settings = _load(config, host, port, worker, model)
    from radixway.up import run_up

    _run_server(run_up(settings, config, model, greet=greet))


@app.command()
def serve(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    worker: Workers = None,
    model: Annotated[
        str | None, typer.Option(help="The model that the workers given by --worker serve.", metavar="NAME")
    ] = None,
) -> None:
    """Start a gateway in front of workers that run elsewhere."""
    settings = _load(config, host, port, worker, None, served=model)
    from radixway.up import run_gateway

    _run_server(run_gateway(settings))


@app.command()
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
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Start an embedded engine alone: an OpenAI and SGLang compatible server over one model."""
    options = {
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
    }
    settings = _load(config, None, None, None, model, engine=options)
    address = (host or settings.gateway.host, settings.gateway.port + 1 if port is None else port)
    if until_stdin_closes:
        _terminate_when_stdin_closes()
    _run_engine(settings, *address)


@app.command()
def ask(
    prompt: Annotated[str, typer.Argument(help="The question.")],
    url: GatewayUrl = _GATEWAY,
    model: Annotated[str, typer.Option(help="The model; `auto` leaves it to the gateway.")] = "auto",
    system: Annotated[str | None, typer.Option(help="A system prompt.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest answer, in tokens.", min=1)] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0)] = 0.0,
) -> None:
    """Ask one question and stream the answer to the terminal."""
    from radixway.client import ask as ask_gateway

    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    body: dict[str, Any] = {"model": model, "messages": messages, "temperature": temperature}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    told = _call(ask_gateway(url, body, show=lambda text: out.print(text, end="", soft_wrap=True)))
    out.print()
    out.print(told.summary(), style="dim", soft_wrap=True)


@app.command()
def simulate(
    trace: Annotated[Path, typer.Argument(help="Mooncake's format, also gzipped.", metavar="TRACE")],
    policy: Annotated[
        str, typer.Option(help="Commas between them; parameters as in kv_aware:overlap_weight=8.")
    ] = "expected_time,kv_aware,prefix_affinity,least_loaded,round_robin",
    workers: Annotated[int, typer.Option(help="Engines.")] = 8,
    kv_tokens: Annotated[int, typer.Option(help="Tokens that each worker's cache holds.")] = 2_000_000,
    speedup: Annotated[float, typer.Option(help="How much faster requests come than in the trace.")] = 1.0,
    events: Annotated[bool, typer.Option(help="Workers publish KV events.")] = True,
    event_delay_ms: Annotated[float, typer.Option(help="From a cache's change to the selector.")] = 10.0,
    engine: Annotated[
        str | None, typer.Option(help="How fast workers are: prefill_s=0.0001,step_s=0.01 …")
    ] = None,
    block_size: Annotated[int, typer.Option(help="Tokens a block, if TRACE does not say.", min=1)] = 512,
    limit: Annotated[int | None, typer.Option(help="Only so many requests.", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one per core.", min=1)] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures here.", metavar="FILE")] = None,
    report: Annotated[Path | None, typer.Option(help="Write plots and a page here.", metavar="DIR")] = None,
) -> None:
    """Replay a trace against modelled workers under several policies, and compare them."""
    from radixway.simulate import EngineConstants, Setting
    from radixway.simulate.command import Order, Refused
    from radixway.simulate.command import simulate as carry_out

    try:
        constants = EngineConstants.parse(engine) if engine else EngineConstants()
        setting = Setting(workers, kv_tokens, speedup, events, event_delay_ms / 1e3, constants)
        order = Order(trace, policy, setting, block_size, limit, jobs or _cores(), json, report)
        carry_out(order, out, Console(stderr=True, highlight=False, markup=False))
    except (ValueError, Refused) as error:
        fail(str(error))


@app.command()
def record(
    file: Annotated[Path, typer.Option("--out", help="The trace to write.", metavar="FILE")],
    url: GatewayUrl = _GATEWAY,
    key: AdminKey = None,
    block_size: Annotated[
        int | None, typer.Option(help="Tokens a block. Default: the gateway's.", min=1)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="End after so many requests.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="End after so long.", min=0)] = None,
) -> None:
    """Write a running gateway's traffic as a trace for `simulate`: hashes, lengths and times, no text."""
    from radixway.record import record as follow

    err = Console(stderr=True, highlight=False, markup=False)
    try:
        _call(follow(url, file, err, key=key, block_tokens=block_size, limit=limit, seconds=seconds))
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")


@workers_app.command("add")
def workers_add(worker: str, url: GatewayUrl = _GATEWAY, key: AdminKey = None) -> None:
    """Add a worker by its URL."""
    from radixway.client import Loads, call

    try:
        target = check_worker_url(worker)
    except ValueError as error:
        fail(str(error))
    _call(call(url, "POST", "/add_worker", Loads, {"url": target}, key))
    out.print(f"added {target}")


@workers_app.command("remove")
def workers_remove(worker: str, url: GatewayUrl = _GATEWAY, key: AdminKey = None) -> None:
    """Remove a worker; what it is answering goes on to its end."""
    from radixway.client import Loads, call

    _call(call(url, "POST", "/remove_worker", Loads, {"url": worker}, key))
    out.print(f"removed {worker}")


@workers_app.command("list")
def workers_list(url: GatewayUrl = _GATEWAY) -> None:
    """Show the workers and their load."""
    from rich.table import Table

    from radixway.client import Listing, call

    table = Table("worker", "state", "models", "in flight", "answered", "KV tokens", box=None)
    for worker in _call(call(url, "GET", "/list_workers", Listing)).workers:
        table.add_row(
            worker.url,
            worker.state,
            ", ".join(worker.models),
            str(worker.in_flight),
            str(worker.total),
            str(worker.kv_tokens or ""),
        )
    out.print(table)


@config_app.command("show")
def config_show(config: ConfigFile = None) -> None:
    """Print the effective configuration: defaults, file, environment. Secrets are masked."""
    import yaml

    tree = _load(config, None, None, None, None).model_dump(mode="json")
    out.print(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), end="", soft_wrap=True)


@config_app.command("check")
def config_check(file: Annotated[Path, typer.Argument(help="The file to check.", metavar="FILE")]) -> None:
    """Explain every mistake in a configuration file by its line."""
    _load(file, None, None, None, None)
    out.print(f"{file} is good", soft_wrap=True)


@app.command()
def version() -> None:
    """Print the version."""
    out.print(__version__)


def _load(
    path: Path | None,
    host: str | None,
    port: int | None,
    workers: list[str] | None,
    model: str | None,
    served: str | None = None,
    engine: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of `path` or ./radixway.yaml, with what the command line says on top."""
    if path is None and _DEFAULT_FILE.exists():
        path = _DEFAULT_FILE
    overrides: dict[str, Any] = {"gateway": {}, "engine": {}}
    if host is not None:
        overrides["gateway"]["host"] = host
    if port is not None:
        overrides["gateway"]["port"] = port
    if model is not None:
        overrides["engine"]["model"] = model
    overrides["engine"] |= {key: value for key, value in (engine or {}).items() if value is not None}
    if workers:
        models = [served] if served else []
        overrides["workers"] = [{"url": url, "models": models} for url in workers]
    try:
        return load_config(path, overrides)
    except ConfigError as error:
        fail(str(error))


def _run_server(serving: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a gateway to its end under uvloop and exit with what it returns."""
    import uvloop

    from radixway.up import EngineKilled
    from radixway.web import CannotListen

    try:
        sys.exit(uvloop.run(serving))
    except (ConfigError, CannotListen, EngineKilled) as error:
        fail(str(error))


def _run_engine(settings: Config, host: str, port: int) -> None:
    """Run an engine to its end, with a bar while it loads."""
    try:
        from radixway.engine.server import run_engine
    except ModuleNotFoundError as error:
        fail(f"the engine is not installed (there is no {error.name}): pip install 'radixway[engine]'")
    from rich.progress import Progress, TaskID

    from radixway.engine.errors import EngineError
    from radixway.telemetry import ServerConsole, configure_logging

    configure_logging(settings.telemetry.log_level)
    terminal = Console(stderr=True)
    bar = Progress(console=terminal, transient=True, disable=not terminal.is_terminal)
    stages: dict[str, TaskID] = {}

    def show(what: str, share: float) -> None:
        bar.start()
        stages[what] = stages[what] if what in stages else bar.add_task(what, total=1.0)
        bar.update(stages[what], completed=share)

    def serving(url: str) -> None:
        bar.stop()
        ServerConsole(highlight=False, markup=False).print(f"engine {url}")

    try:
        run_engine(settings.engine, host, port, progress=show, on_ready=serving)
    except EngineError as error:
        bar.stop()
        fail(str(error))


def _terminate_when_stdin_closes() -> None:
    """Whoever started us holds the other end of our standard input: when they die, however hard, so do we."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="stdin watch").start()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _call(call: Coroutine[Any, Any, AnswerT]) -> AnswerT:
    """Run one call to a gateway; its refusal or absence ends the command."""
    from radixway.client import CallFailed

    try:
        return asyncio.run(call)
    except CallFailed as error:
        fail(str(error))


def main() -> None:
    """The console script."""
    sys.path.insert(0, "")  # dotted paths in the configuration may name modules of the working directory
    app()

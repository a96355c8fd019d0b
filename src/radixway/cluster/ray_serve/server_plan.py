"""The servers that engine replicas run: how each is started, and how it says what it has in hand."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from radixway.core.config import EngineConfig, KvEventsConfig, RayEngineConfig, WorkerSettings

_VLLM_LOAD = re.compile(rb"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A server as it will run at one place."""

    command: list[str]
    worker: WorkerSettings
    """As the gateway is to know it."""
    load_path: str
    """Where it says what it has in hand."""
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


def _parse_radixway_load(said: bytes) -> float:
    load = msgspec.json.decode(said, type=_RadixwayLoad)
    return load.running + load.waiting + load.loading


def _parse_vllm_load(said: bytes) -> float:
    figures = [float(figure) for figure in _VLLM_LOAD.findall(said)]
    if not figures:
        raise ValueError("there is nothing of vllm:num_requests_running in it")
    return sum(figures)

"""The gateways that are measured, and how each is started: their defaults, on 127.0.0.1 only.

Peers log errors alone, which is no default of theirs and spares them a line for each request. The three
routers choose by `cache_aware`, their own default.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from environments import PeerUnavailableError, environment
from fake_worker import MODEL


@dataclass(slots=True)
class Ports:
    """Where a gateway listens (`gateway`, and `spare` for its own metrics) and where its workers do."""

    gateway: int
    spare: int
    workers: list[int]

    @property
    def worker_urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.workers]


@dataclass(slots=True)
class Target:
    """A gateway under test.

    `command` gives the argument vector from the ports, the gateway's environment and a directory to write in.
    `share` is the part of the requests that it gets: slow gateways are measured on fewer.
    """

    name: str
    command: Callable[[Ports, Path, Path], list[str]]
    requirement: str | None = None
    share: float = 1.0
    start_s: float = 30.0
    env: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request."""


def _radixway(ports: Ports, environment: Path, scratch: Path) -> list[str]:
    binary = Path(sys.executable).parent / "radixway"
    if not binary.exists():
        raise PeerUnavailableError(
            f"there is no {binary}: install the project first (`make up` or `pip install -e .`)"
        )
    urls = [part for url in ports.worker_urls for part in ("--worker", url)]
    return [str(binary), "serve", "--port", str(ports.gateway), *urls]


def _sglang_router(ports: Ports, environment: Path, scratch: Path) -> list[str]:
    python = str(environment / "bin" / "python")
    return [python, "-m", "sglang_router.launch_router", *_router_options(ports)]


def _vllm_router(ports: Ports, environment: Path, scratch: Path) -> list[str]:
    return [str(environment / "bin" / "vllm-router"), *_router_options(ports)]


def _smg(ports: Ports, environment: Path, scratch: Path) -> list[str]:
    return [str(environment / "bin" / "smg"), "launch", *_router_options(ports)]


def _router_options(ports: Ports) -> list[str]:
    """What the three routers have in common, being of one family."""
    options = f"--host 127.0.0.1 --port {ports.gateway} --log-level error"
    metrics = f"--prometheus-host 127.0.0.1 --prometheus-port {ports.spare}"
    return ["--worker-urls", *ports.worker_urls, *options.split(), *metrics.split()]


def _litellm(ports: Ports, environment: Path, scratch: Path) -> list[str]:
    models = [
        {
            "model_name": MODEL,
            "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "none"},
        }
        for url in ports.worker_urls
    ]
    config = scratch / "litellm.yaml"
    config.write_text(json.dumps({"model_list": models, "litellm_settings": {"telemetry": False}}))
    options = f"--host 127.0.0.1 --port {ports.gateway} --config {config} --telemetry False"
    return [str(environment / "bin" / "litellm"), *options.split()]


RADIXWAY = Target("radixway", _radixway)
PEERS = [
    Target("sglang-router", _sglang_router, "sglang-router==0.3.2"),
    Target("vllm-router", _vllm_router, "vllm-router==0.1.17"),
    Target("smg", _smg, "smg==1.13.0"),
    Target(
        "litellm",
        _litellm,
        "litellm[proxy]==1.106.2",
        share=0.05,
        start_s=120.0,
        env={
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
        },
    ),
]


def custom(definition: str) -> Target:
    """A target from `NAME=COMMAND`, where {port}, {worker} and {workers} stand for port and worker URLs."""
    name, _, template = definition.partition("=")

    def command(ports: Ports, environment: Path, scratch: Path) -> list[str]:
        urls = ports.worker_urls
        return shlex.split(template.format(port=ports.gateway, worker=urls[0], workers=" ".join(urls)))

    return Target(name, command)


def environment_of(target: Target, peers_dir: Path) -> Path:
    """The directory of a peer's environment, made on first use; raises `PeerUnavailableError`."""
    home = peers_dir / target.name
    return home if target.requirement is None else environment(home, [target.requirement])

"""`radixway slime-router`: a gateway started with the flags of the Slime router."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from radixway.cli.options import ConfigFile, Host, MiddlewarePaths, Port, drop_unset, load_options
from radixway.cli.servers import run_server
from radixway.cli.terminal import err, exit_with_error

_DAY_S = 86_400.0

_AS_SLIME: dict[str, Any] = {
    "gateway": {"request_timeout_s": _DAY_S, "insecure": True},
    "routing": {
        "policy": {"name": "least_loaded"},
        "queue": {"size": 1_000_000, "timeout_s": _DAY_S},
    },
    "trajectories": {"abort": {"policy": "partial"}},
}
"""Slime's behaviour where our defaults differ: calls from other machines without a key, the least loaded
worker."""


def slime_router(
    config: ConfigFile = None,
    sglang_router_ip: Host = None,
    sglang_router_port: Port = None,
    hf_checkpoint: Annotated[
        str | None, Option(help="Whose tokenizer: directory or hub id.", metavar="PATH_OR_ID")
    ] = None,
    use_slime_router: Annotated[
        bool, Option("--use-slime-router", help="Accepted for compatibility; has no effect.")
    ] = True,
    slime_router_middleware_paths: MiddlewarePaths = None,
    rollout_health_check_interval: Annotated[
        float | None, Option(help="Seconds between health checks.")
    ] = None,
    slime_router_health_check_failure_threshold: Annotated[
        int | None, Option(help="Failed health checks in a row until a worker counts as down.")
    ] = None,
    slime_router_max_connections: Annotated[
        int | None, Option(help="Has no effect here: connections are opened as requests need them.")
    ] = None,
    slime_router_timeout: Annotated[
        float | None, Option(help="Seconds that one request may take. Default: a day.")
    ] = None,
    sglang_server_concurrency: Annotated[
        int | None, Option(help="Requests that a worker is given at a time; more wait.")
    ] = None,
    abort: Annotated[
        str | None,
        Option(
            help="What becomes of an answer that a worker aborts: partial (the default), resume or retry.",
            metavar="POLICY",
        ),
    ] = None,
    admin_network: Annotated[
        list[str] | None,
        Option(
            help="Networks from which workers may be added without a key, 10.0.0.0/8; several values.",
            metavar="NETWORK …",
        ),
    ] = None,
) -> None:
    """Start a gateway with the Slime router's options.

    Workers are added by /add_worker.
    """
    if slime_router_max_connections is not None:
        err.print(
            "radixway: --slime-router-max-connections has no effect; --sglang-server-concurrency limits each"
            " worker"
        )
    if hf_checkpoint is not None:
        _check_tokenizer(hf_checkpoint)
    gateway = drop_unset(
        host=sglang_router_ip,
        port=sglang_router_port,
        request_timeout_s=slime_router_timeout,
        admin_networks=admin_network or None,
    )
    health = drop_unset(
        interval_s=rollout_health_check_interval,
        failure_threshold=slime_router_health_check_failure_threshold,
    )
    routing = drop_unset(max_in_flight_per_worker=sglang_server_concurrency)
    overrides = {
        "gateway": gateway,
        "routing": routing | {"health": health},
        "trajectories": drop_unset(tokenizer=hf_checkpoint, abort=drop_unset(policy=abort) or None),
    }
    settings = load_options(
        config, overrides, base=_AS_SLIME, middleware_paths=slime_router_middleware_paths or ()
    )
    from radixway.cli.quickstart import run_gateway

    run_server(run_gateway(settings))


def _check_tokenizer(source: str) -> None:
    """End the command where `source` looks like a directory without a tokenizer; it may be a hub id."""
    path = Path(source)
    is_directory = path.is_dir() or path.is_absolute() or source.startswith(".")
    if is_directory and not (path / "tokenizer.json").is_file():
        exit_with_error(f"--hf-checkpoint: there is no tokenizer.json in {source}")

"""`radixway simulate` and `record`: traces, replayed and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl
from radixway.cli.terminal import exit_with_error, out, run_call


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
    from radixway.core.config import ConfigError
    from radixway.routing.simulator import EngineConstants, SimulationSettings
    from radixway.routing.simulator.command import SimulateOptions
    from radixway.routing.simulator.command import run_simulate_command as carry_out

    try:
        constants = EngineConstants.parse_constants(engine) if engine else EngineConstants()
        setting = SimulationSettings(workers, kv_tokens, speedup, events, event_delay_ms / 1e3, constants)
        order = SimulateOptions(
            trace, policy, setting, block_size, limit, jobs or _count_cores(), json, report
        )
        carry_out(order, out, Console(stderr=True, highlight=False, markup=False))
    except (ValueError, ConfigError) as error:
        exit_with_error(str(error))


def record(
    file: Annotated[Path, typer.Option("--out", help="The trace to write.", metavar="FILE")],
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    block_size: Annotated[
        int | None, typer.Option(help="Tokens a block. Default: the gateway's.", min=1)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="End after so many requests.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="End after so long.", min=0)] = None,
) -> None:
    """Write a running gateway's traffic as a trace for `simulate`: hashes, lengths and times, no text."""
    from radixway.cli.traffic_recorder import record_traffic as follow

    err = Console(stderr=True, highlight=False, markup=False)
    try:
        run_call(follow(url, file, err, key=key, block_tokens=block_size, limit=limit, seconds=seconds))
    except OSError as error:
        exit_with_error(f"cannot write {file}: {error.strerror}")


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

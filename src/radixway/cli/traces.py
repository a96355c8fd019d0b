"""`radixway simulate` and `record`: traces, replayed and written."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl
from radixway.cli.terminal import err, exit_on, exit_with_error, on_stop_signal, out, run_call
from radixway.core.usable_cores import count_usable_cores

if TYPE_CHECKING:
    from radixway.routing.simulator.trace import TraceRecorder


def simulate(
    trace: Annotated[Path, Argument(help="Mooncake's format, also gzipped.", metavar="TRACE")],
    policy: Annotated[
        str, Option(help="Separated by commas; parameters as in kv_aware:overlap_weight=8.")
    ] = "expected_time,kv_aware,prefix_affinity,least_loaded,round_robin",
    workers: Annotated[int, Option(help="Engines.")] = 8,
    kv_tokens: Annotated[int, Option(help="Tokens that each worker's cache holds.")] = 2_000_000,
    speedup: Annotated[float, Option(help="How many times faster than in the trace requests come.")] = 1.0,
    events: Annotated[bool, Option(help="Workers publish KV events.")] = True,
    event_delay_ms: Annotated[float, Option(help="Delay from a cache's change to the selector.")] = 10.0,
    engine: Annotated[str | None, Option(help="How fast workers are: prefill_s=0.0001,step_s=0.01 …")] = None,
    hold_s: Annotated[
        float, Option(help="routing.queue.hold_s: how long requests wait for a worker.")
    ] = 10.0,
    slo_ttft_ms: Annotated[
        float, Option(help="Good requests have their first token by then …", min=0)
    ] = 1000.0,
    slo_itl_ms: Annotated[float | None, Option(help="… and take no longer between tokens.", min=0)] = None,
    against: Annotated[
        str | None,
        Option(help="dynamo: our choices on its simulated engines, beside its router's.", metavar="PEER"),
    ] = None,
    open_loop: Annotated[
        bool, Option("--open-loop", help="Requests come at their times, whenever earlier answers end.")
    ] = False,
    block_size: Annotated[int, Option(help="Tokens a block, if TRACE does not say.", min=1)] = 512,
    limit: Annotated[int | None, Option(help="Only so many requests.", min=1)] = None,
    jobs: Annotated[int | None, Option(help="Processes. Default: one per core.", min=1)] = None,
    json: Annotated[Path | None, Option(help="Write the figures here.", metavar="FILE")] = None,
    report: Annotated[Path | None, Option(help="Write plots and a page here.", metavar="DIR")] = None,
) -> None:
    """Replay a trace on modelled workers and compare policies."""
    from radixway.core.config import ConfigError, QueueConfig
    from radixway.routing.simulator import EngineConstants, SimulationSettings
    from radixway.routing.simulator.command import SimulateOptions, run_simulate_command
    from radixway.routing.simulator.dynamo_replay import DYNAMO_CONSTANTS

    with exit_on(ValueError, ConfigError):
        if against not in (None, "dynamo"):
            raise ValueError(f"policies can be held against 'dynamo', not {against!r}")
        constants = DYNAMO_CONSTANTS if against else EngineConstants()
        if engine:
            constants = EngineConstants.parse_constants(engine)
        setting = SimulationSettings(
            workers,
            kv_tokens,
            speedup,
            events,
            event_delay_ms / 1e3,
            constants,
            queue=QueueConfig(hold_s=hold_s),
            slo_ttft_s=slo_ttft_ms / 1e3,
            slo_itl_s=inf if slo_itl_ms is None else slo_itl_ms / 1e3,
            open_loop=open_loop,
        )
        order = SimulateOptions(
            trace,
            policy,
            setting,
            block_size,
            limit,
            jobs or count_usable_cores(),
            json,
            report,
            against_dynamo=against is not None,
        )
        run_simulate_command(order, out, err)


def record(
    file: Annotated[Path, Option("--out", help="The trace to write.", metavar="FILE")],
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    block_size: Annotated[int | None, Option(help="Tokens a block. Default: the gateway's.", min=1)] = None,
    limit: Annotated[int | None, Option(help="End after so many requests.", min=1)] = None,
    seconds: Annotated[float | None, Option(help="End after so long.", min=0)] = None,
) -> None:
    """Write a running gateway's traffic as a trace for `simulate`.

    It has hashes, lengths and times, no text.
    """
    try:
        run_call(_record_traffic(url, file, key=key, block_tokens=block_size, limit=limit, seconds=seconds))
    except OSError as error:
        exit_with_error(f"cannot write {file}: {error.strerror}")


async def _record_traffic(
    url: str,
    path: Path,
    *,
    key: str | None,
    block_tokens: int | None,
    limit: int | None,
    seconds: float | None,
) -> None:
    """Record until a signal, or until `limit` requests or `seconds` are over.

    Raises GatewayCallError, OSError.
    """
    from radixway.routing.simulator.trace import TraceRecorder

    with path.open("xb", buffering=0) as file:
        recorder = TraceRecorder(file.write, block_tokens)
        recording = asyncio.create_task(_follow_stream(url, key, recorder, limit))
        on_stop_signal(recording.cancel)
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, recording.cancel)
        try:
            with suppress(asyncio.CancelledError):
                await recording
        finally:
            if not recorder.recorded:
                path.unlink()  # noqa: ASYNC240 - the loop has nothing else to do
    summary = f"{recorder.recorded} requests recorded" + (f" in {path}" if recorder.recorded else "")
    if recorder.left_out:
        summary += (
            f"; {recorder.left_out} left out, whose blocks do not fit into {recorder.block_tokens} tokens"
        )
    err.print(summary)


async def _follow_stream(url: str, key: str | None, recorder: TraceRecorder, limit: int | None) -> None:
    """Return once `limit` is reached. Raises GatewayCallError when the gateway ends the stream before."""
    from radixway.core.http.gateway_client import GatewayCallError, stream_lines
    from radixway.routing.simulator.trace import TraceError

    with err.status("") as status:
        async for line in stream_lines(url, "/traffic", key, began=_print_beginning):
            try:
                recorder.record_line(line)
            except TraceError as error:
                raise GatewayCallError(f"what answers at {url} is no gateway: {error}") from None
            status.update(f"{recorder.recorded} requests")
            if recorder.recorded == limit:
                return
    raise GatewayCallError(f"the gateway ended its stream after {recorder.recorded} requests")


def _print_beginning() -> None:
    err.print("recording; Ctrl-C ends it")

"""`radixway record`: follow a gateway's traffic into a file that `radixway simulate` reads."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from radixway.core.http.gateway_client import GatewayCallError, stream_lines
from radixway.routing.simulator.trace import TraceError, TraceRecorder


async def record_traffic(
    url: str,
    path: Path,
    console: Console,
    *,
    key: str | None = None,
    block_tokens: int | None = None,
    limit: int | None = None,
    seconds: float | None = None,
) -> None:
    """Record until a signal, or until `limit` requests or `seconds` are over. Raises GatewayCallError,
    OSError.
    """
    with path.open("xb", buffering=0) as file:
        recorder = TraceRecorder(file.write, block_tokens)
        recording = asyncio.create_task(_follow_stream(url, key, recorder, limit, console))
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, recording.cancel)
        if seconds is not None:
            loop.call_later(seconds, recording.cancel)
        try:
            with suppress(asyncio.CancelledError):
                await recording
        finally:
            if not recorder.recorded:
                path.unlink()  # noqa: ASYNC240 - the loop has nothing else to do
    said = f"{recorder.recorded} requests recorded" + (f" in {path}" if recorder.recorded else "")
    if recorder.left_out:
        said += f"; {recorder.left_out} left out, whose blocks do not fit into {recorder.block_tokens} tokens"
    console.print(said, soft_wrap=True)


async def _follow_stream(
    url: str, key: str | None, recorder: TraceRecorder, limit: int | None, console: Console
) -> None:
    """Returns once `limit` is reached. Raises GatewayCallError when the gateway ends the stream before."""
    with console.status("") as status:
        async for line in stream_lines(url, "/traffic", key, began=lambda: _print_progress(console)):
            try:
                recorder.record_line(line)
            except TraceError as error:
                raise GatewayCallError(f"what answers at {url} is no gateway: {error}") from None
            status.update(f"{recorder.recorded} requests")
            if recorder.recorded == limit:
                return
    raise GatewayCallError(f"the gateway ended its stream after {recorder.recorded} requests")


def _print_progress(console: Console) -> None:
    console.print("recording; Ctrl-C ends it")

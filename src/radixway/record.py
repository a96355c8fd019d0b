"""`radixway record`: follow a gateway's traffic into a file that `radixway simulate` reads."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from radixway.client import CallFailed, lines
from radixway.simulate.recorder import Recorder
from radixway.simulate.trace import TraceError


async def record(
    url: str,
    path: Path,
    console: Console,
    *,
    key: str | None = None,
    block_tokens: int | None = None,
    limit: int | None = None,
    seconds: float | None = None,
) -> None:
    """Record until a signal, or until `limit` requests or `seconds` are over. Raises CallFailed, OSError."""
    with path.open("xb", buffering=0) as file:
        recorder = Recorder(file.write, block_tokens)
        recording = asyncio.create_task(_follow(url, key, recorder, limit, console))
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


async def _follow(url: str, key: str | None, recorder: Recorder, limit: int | None, console: Console) -> None:
    """Returns once `limit` is reached. Raises CallFailed when the gateway ends the stream before."""
    with console.status("") as status:
        async for line in lines(url, "/traffic", key, began=lambda: _say(console)):
            try:
                recorder.take(line)
            except TraceError as error:
                raise CallFailed(f"what answers at {url} is no gateway: {error}") from None
            status.update(f"{recorder.recorded} requests")
            if recorder.recorded == limit:
                return
    raise CallFailed(f"the gateway ended its stream after {recorder.recorded} requests")


def _say(console: Console) -> None:
    console.print("recording; Ctrl-C ends it")

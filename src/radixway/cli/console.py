"""`radixway console`: the pages of a gateway, in a process of their own."""

from __future__ import annotations

import asyncio
import os
import tempfile
from importlib.util import find_spec
from typing import Annotated

import typer

from radixway.cli.options import GATEWAY
from radixway.cli.terminal import exit_on, exit_with_error, terminate_when_stdin_closes


def console(
    gateway: Annotated[
        str, typer.Option(help="The gateway.", envvar="RADIXWAY_URL", metavar="URL")
    ] = GATEWAY,
    listen: Annotated[
        str, typer.Option(help="Where to serve the pages.", metavar="HOST:PORT")
    ] = "127.0.0.1:30009",
    public_host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which browsers reach it; repeatable.", metavar="HOST[:PORT]"),
    ] = None,
    session_hours: Annotated[
        float, typer.Option(help="How long one who does nothing stays signed in.", min=0.01)
    ] = 12,
    attempts_per_minute: Annotated[int, typer.Option(help="Wrong keys that are looked at.", min=1)] = 10,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Serve the console of a gateway that runs. A gateway does so by itself at /console."""
    if find_spec("nicegui") is None:
        exit_with_error("the console is not installed: pip install 'radixway[console]'")
    nothing = tempfile.TemporaryDirectory(prefix="radixway-console-")
    os.environ["NICEGUI_STORAGE_PATH"] = nothing.name  # read as it is imported; nothing of ours is kept there
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
    out = ServerConsole(highlight=False, markup=False)

    def ready(url: str) -> None:
        HeapFreezer().freeze_startup_objects()
        shown = url if url.startswith("unix:") else f"{url}/console"
        out.print(f"console {shown}", soft_wrap=True)

    with exit_on(CannotListenError), nothing:
        asyncio.run(run_console(options, ready))

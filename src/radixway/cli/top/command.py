"""`radixway top`: a running gateway, live in the terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from radixway.cli.options import GATEWAY, AdminKey
from radixway.cli.terminal import exit_with_error, out, run_call

if TYPE_CHECKING:
    from radixway.cli.top.gateway_view import GatewayReader, TopView


def top(
    url: Annotated[str, Argument(help="The gateway.", envvar="RADIXWAY_URL", metavar="URL")] = GATEWAY,
    key: AdminKey = None,
    interval: Annotated[float, Option(help="Seconds between two updates.", min=0.1, max=3600)] = 2.0,
    once: Annotated[bool, Option("--once", help="Print one frame as text and end.")] = False,
    json: Annotated[bool, Option("--json", help="Print one frame as JSON and end.")] = False,
    words: Annotated[
        str, Option("--filter", help="Of one frame: only workers and requests with these words.")
    ] = "",
) -> None:
    """Watch throughput, hit rates, workers and latest requests.

    Keys: q ends, p pauses, / filters, d drains a worker or brings it back, Tab and arrows move, Enter
    explains a request. One frame samples twice, `--interval` apart, for its rates.
    """
    from radixway.cli.top.gateway_view import GatewayReader
    from radixway.cli.top.tables import to_ascii
    from radixway.cli.top.text_frame import render_json, render_text

    reader = GatewayReader(url, key)
    if not once and not json:
        _run_live(reader, interval)
        return
    view = run_call(_sample_twice(reader, interval))
    if json:
        out.print_json(data=render_json(view, words), indent=2)
        return
    text = render_text(view, words, width=out.width)
    out.print(text if _supports_unicode() else to_ascii(text))


def _run_live(reader: GatewayReader, interval_s: float) -> None:
    try:
        from radixway.cli.top.screen import TopApp
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        exit_with_error(
            "the live page needs Textual: pip install 'radixway[console]'; `--once` prints a frame without it"
        )
    if not sys.stdout.isatty():
        exit_with_error("standard output is no terminal; `--once` and `--json` print a frame")
    TopApp(reader, interval_s).run()


async def _sample_twice(reader: GatewayReader, interval_s: float) -> TopView:
    from radixway.cli.top.gateway_view import TopView

    view = TopView(reader.url)
    view.add_sample(await reader.read_sample())
    await asyncio.sleep(interval_s)
    view.add_sample(await reader.read_sample())
    return view


def _supports_unicode() -> bool:
    try:
        "▁█–…·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

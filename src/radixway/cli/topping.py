"""`radixway top`: a running gateway, live in the terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from radixway.cli.options import GATEWAY, AdminKey
from radixway.cli.terminal import fail, finish, out

if TYPE_CHECKING:
    from radixway.top import Reader, View


def top(
    url: Annotated[str, typer.Argument(help="The gateway.", envvar="RADIXWAY_URL", metavar="URL")] = GATEWAY,
    key: AdminKey = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1, max=3600)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame as text and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one frame as JSON and end.")] = False,
    words: Annotated[
        str, typer.Option("--filter", help="Of one frame: only workers and requests with these words.")
    ] = "",
) -> None:
    """Watch throughput, first tokens, hit rates, workers and the latest requests.

    Keys: q ends, p pauses, / filters, d drains a worker or brings it back, Tab and arrows move, Enter
    explains a request. One frame takes two looks, `--interval` apart, for its rates.
    """
    from radixway.top import Reader, as_json, as_text
    from radixway.top.words import in_ascii

    reader = Reader(url, key)
    if not once and not json:
        _show(reader, interval)
        return
    view = finish(_look_twice(reader, interval))
    if json:
        out.print_json(data=as_json(view, words), indent=2)
        return
    text = as_text(view, words, width=out.width)
    out.print(text if _knows_blocks() else in_ascii(text), soft_wrap=True)


def _show(reader: Reader, interval_s: float) -> None:
    try:
        from radixway.top.screen import Top
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        fail(
            "the live page needs Textual: pip install 'radixway[console]'; `--once` prints a frame without it"
        )
    if not sys.stdout.isatty():
        fail("standard output is no terminal; `--once` and `--json` print a frame")
    Top(reader, interval_s).run()


async def _look_twice(reader: Reader, interval_s: float) -> View:
    from radixway.top import View

    view = View(reader.url)
    view.saw(await reader.look())
    await asyncio.sleep(interval_s)
    view.saw(await reader.look())
    return view


def _knows_blocks() -> bool:
    try:
        "▁█–…·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

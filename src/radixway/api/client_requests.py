"""What route handlers do with a client's request: decode its body, and work until the client leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from radixway.core.http import ClientDisconnectedError, Receive, decode_json

T = TypeVar("T")


async def decode_body(request: Request, kind: type[T], default: bytes = b"") -> T:
    """Decode the JSON body of `request`, by default `default`, as a `kind`. Raises BadBodyError."""
    body: T = decode_json(msgspec.json.Decoder(kind), (await request.body()).strip() or default)
    return body


async def run_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` gives. Raises ClientDisconnectedError when the client of `request` leaves first.

    The request's body must have been read: what comes of it now is dropped.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnectedError
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass

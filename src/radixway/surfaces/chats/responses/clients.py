"""Clients that wait for an answer, or read it as it comes, and may leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse

from radixway.web import ClientDisconnectedError

T = TypeVar("T")

_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


async def run_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. The request's body has been read. Raises ClientDisconnectedError: the client left;
    work ends.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnectedError
        return working.result()
    finally:
        for each in (working, leaving):
            each.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def sse_response(events: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Server-sent events."""
    return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)

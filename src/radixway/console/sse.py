"""Server-sent events, as the gateway streams them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp


async def events_of(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str | None, str]]:
    """Each event's id, if it has one, and its data; comments are passed over."""
    id_: str | None = None
    data: list[str] = []
    rest = b""
    async for chunk in answer.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            elif name == "id":
                id_ = value
            elif not line:
                if data:
                    yield id_, "\n".join(data)
                id_, data = None, []

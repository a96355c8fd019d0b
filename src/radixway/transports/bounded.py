"""Read the answers of administrative calls: small by nature, so large ones are refused."""

from __future__ import annotations

import aiohttp

from radixway.transports.upstream import ResponseTooLargeError

__all__ = ["MAX_ANSWER_BYTES", "ResponseTooLargeError", "read_bounded"]

MAX_ANSWER_BYTES = 8 * 2**20


async def read_bounded(response: aiohttp.ClientResponse, limit: int = MAX_ANSWER_BYTES) -> bytes:
    """The whole body. Raises ResponseTooLargeError as soon as it is longer than `limit` bytes."""
    if (response.content_length or 0) > limit:
        raise ResponseTooLargeError(limit)
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit:
            raise ResponseTooLargeError(limit)
    return bytes(body)

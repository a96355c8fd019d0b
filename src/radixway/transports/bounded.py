"""Read the answers of administrative calls: small by nature, so large ones are refused."""

from __future__ import annotations

import aiohttp

from radixway.transports.upstream import AnswerTooLarge

__all__ = ["LARGEST_BYTES", "AnswerTooLarge", "read_at_most"]

LARGEST_BYTES = 8 * 2**20


async def read_at_most(response: aiohttp.ClientResponse, limit: int = LARGEST_BYTES) -> bytes:
    """The whole body. Raises AnswerTooLarge as soon as it is longer than `limit` bytes."""
    if (response.content_length or 0) > limit:
        raise AnswerTooLarge(limit)
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit:
            raise AnswerTooLarge(limit)
    return bytes(body)

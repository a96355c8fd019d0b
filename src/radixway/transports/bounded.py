"""Read the answers of administrative calls: small by nature, so large ones are refused."""

from __future__ import annotations

import aiohttp

LARGEST_BYTES = 8 * 2**20


class AnswerTooLarge(Exception):
    """The answer has more than `LARGEST_BYTES`."""


async def read_at_most(response: aiohttp.ClientResponse, limit: int = LARGEST_BYTES) -> bytes:
    """The whole body. Raises AnswerTooLarge as soon as it is longer than `limit` bytes."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit:
            raise AnswerTooLarge(f"its answer has more than {limit} bytes")
    return bytes(body)

"""Connections to a Valkey or Redis server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

ERRORS: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
"""What a server that is away, or not itself, raises."""
_CONNECT_S = 2.0
_ANSWER_S = 5.0
CHANNEL = b"radixway:chats"


def connect(url: str, *, answer_s: float | None = _ANSWER_S) -> Redis:
    """`redis://`, `rediss://`, `unix://`, and the same with `valkey`. Raises ValueError: it is none of them.

    `answer_s`: how long a command may take; None: for ever.
    """
    return Redis.from_url(
        url.replace("valkey", "redis", 1) if url.startswith("valkey") else url,
        socket_connect_timeout=_CONNECT_S,
        socket_timeout=answer_s,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
    )


class ValkeyCarrier:
    """Topics over publish and subscribe."""

    errors = ERRORS

    def __init__(self, url: str, process: str) -> None:
        """`process`: a name of this one alone."""
        self._redis = connect(url)
        self._url = url
        self._process = process.encode()

    async def carry(self, topics: Collection[str]) -> None:
        """See `Carrier`."""
        await self._redis.publish(CHANNEL, b"\n".join([self._process, *(topic.encode() for topic in topics)]))

    async def hear(self, heard: Callable[[str], None], ready: Callable[[], None]) -> None:
        """See `Carrier`."""
        async with connect(self._url, answer_s=None) as redis, redis.pubsub() as pubsub:
            await pubsub.subscribe(CHANNEL)
            while True:
                message: dict[str, Any] | None = await pubsub.get_message(timeout=None)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    ready()
                elif message["type"] == "message":
                    process, *topics = message["data"].split(b"\n")
                    for topic in topics if process != self._process else ():
                        heard(topic.decode())

    async def aclose(self) -> None:
        """See `Carrier`."""
        await self._redis.aclose()

"""Topics over a Valkey or Redis server's publish and subscribe."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from radixway.core.net.valkey import ERRORS, connect_valkey

CHANNEL = b"radixway:chats"


class ValkeyTopicTransport:
    """A connection that publishes, and one that subscribes."""

    errors = ERRORS

    def __init__(self, url: str, process: str) -> None:
        """`process`: a name of this one alone."""
        self._redis = connect_valkey(url)
        self._url = url
        self._process = process.encode()

    async def publish_topics(self, topics: Collection[str]) -> None:
        """Send `topics` to every other process."""
        await self._redis.publish(CHANNEL, b"\n".join([self._process, *(topic.encode() for topic in topics)]))

    async def receive_topics(self, heard: Callable[[str], None], ready: Callable[[], None]) -> None:
        """Call `ready` once connected, then `heard` for each topic, until the connection breaks."""
        async with connect_valkey(self._url, answer_s=None) as redis, redis.pubsub() as pubsub:
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
        """Close the connection; nothing is sent or received any more."""
        await self._redis.aclose()

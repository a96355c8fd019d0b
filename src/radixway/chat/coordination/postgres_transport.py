"""Topics over PostgreSQL's LISTEN and NOTIFY."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import asyncpg
from sqlalchemy.engine import URL

from radixway.chat.notifications import wait_for_event

_CHANNEL = "radixway_chats"
_CONNECT_S = 5.0
_ANSWER_S = 5.0
_ALIVE_S = 15.0
"""Interval between keepalives of an idle connection."""
_NOTIFY = f"SELECT pg_notify('{_CHANNEL}', topic) FROM unnest($1::text[]) AS topic"


class PostgresTopicTransport:
    """Listens on one connection and notifies on another."""

    errors: tuple[type[Exception], ...] = (
        OSError,
        TimeoutError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
    )

    def __init__(self, url: URL, process: str) -> None:
        """`process`: a name of this one alone."""
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._process = process
        self._publisher: asyncpg.Connection[Any] | None = None

    async def publish_topics(self, topics: Collection[str]) -> None:
        """Send `topics` to every other process."""
        try:
            if self._publisher is None:
                self._publisher = await self._connect()
            await self._publisher.execute(_NOTIFY, [f"{self._process}\n{topic}" for topic in topics])
        except self.errors:
            await self.aclose()
            raise

    async def receive_topics(self, on_topic: Callable[[str], None], ready: Callable[[], None]) -> None:
        """Call `ready` once connected, then `on_topic` for each topic, until the connection breaks."""
        connection = await self._connect()
        gone = asyncio.Event()

        def on_notification(_connection: object, _pid: int, _channel: str, payload: object) -> None:
            process, _, topic = str(payload).partition("\n")
            if process != self._process:
                on_topic(topic)

        try:
            connection.add_termination_listener(lambda _: gone.set())
            await connection.add_listener(_CHANNEL, on_notification)
            ready()
            while not gone.is_set():
                if not await wait_for_event(gone, _ALIVE_S):
                    await connection.execute("SELECT 1")
            raise ConnectionError("the connection was closed")
        finally:
            connection.terminate()

    async def aclose(self) -> None:
        """Close the connection; nothing is sent or received any more."""
        connection, self._publisher = self._publisher, None
        if connection is not None:
            connection.terminate()

    async def _connect(self) -> asyncpg.Connection[Any]:
        return await asyncpg.connect(self._dsn, timeout=_CONNECT_S, command_timeout=_ANSWER_S)

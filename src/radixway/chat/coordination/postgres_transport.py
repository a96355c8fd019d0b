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
_TELL = f"SELECT pg_notify('{_CHANNEL}', told) FROM unnest($1::text[]) AS told"


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
        self._telling: asyncpg.Connection[Any] | None = None

    async def publish_topics(self, topics: Collection[str]) -> None:
        """Send `topics` to every other process."""
        try:
            if self._telling is None:
                self._telling = await self._connect()
            await self._telling.execute(_TELL, [f"{self._process}\n{topic}" for topic in topics])
        except self.errors:
            await self.aclose()
            raise

    async def receive_topics(self, heard: Callable[[str], None], ready: Callable[[], None]) -> None:
        """Call `ready` once connected, then `heard` for each topic, until the connection breaks."""
        connection = await self._connect()
        gone = asyncio.Event()

        def told(_connection: object, _pid: int, _channel: str, payload: object) -> None:
            process, _, topic = str(payload).partition("\n")
            if process != self._process:
                heard(topic)

        try:
            connection.add_termination_listener(lambda _: gone.set())
            await connection.add_listener(_CHANNEL, told)
            ready()
            while not gone.is_set():
                if not await wait_for_event(gone, _ALIVE_S):
                    await connection.execute("SELECT 1")
            raise ConnectionError("the connection was closed")
        finally:
            connection.terminate()

    async def aclose(self) -> None:
        """Close the connection; nothing is sent or received any more."""
        connection, self._telling = self._telling, None
        if connection is not None:
            connection.terminate()

    async def _connect(self) -> asyncpg.Connection[Any]:
        return await asyncpg.connect(self._dsn, timeout=_CONNECT_S, command_timeout=_ANSWER_S)

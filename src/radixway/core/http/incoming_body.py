"""A request's body that is still coming in: how slow it may be, and how much of it is held."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from radixway.core.http.asgi import Message
from radixway.core.http.connections import FREE_BODY_BYTES, BodyTimeoutError, ConnectionState

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_CLOSE = (b"connection", b"close")


class IncomingBody:
    """Stands before `receive` and `send` of a request whose body was not there with its head.

    Only the time in which the application waits for the body counts: while it does not ask, the connection is
    not read either.
    """

    __slots__ = ("_cycle", "_held", "_left_s", "_missing_bytes", "_size", "_state", "ends_connection")

    def __init__(self, cycle: RequestResponseCycle, state: ConnectionState) -> None:
        self._cycle = cycle
        self._state = state
        self._size = 0
        self._held = 0
        self.ends_connection = False
        """The client was told that the connection ends with its answer."""
        self._left_s = 0.0
        self._missing_bytes = 0
        self._start_rate_window()

    async def receive(self) -> Message:
        """The next piece. Raises BodyTimeoutError, TooManyBodies."""
        cycle = self._cycle
        if not cycle.more_body:
            return self._count_piece(cast(Message, await cycle.receive()))
        loop = asyncio.get_running_loop()
        end = loop.time() + self._left_s
        try:
            async with asyncio.timeout_at(end):
                message = cast(Message, await cycle.receive())
        except TimeoutError:
            limits = self._state.limits
            self._state.counts.slow_bodies += 1
            raise BodyTimeoutError(
                f"the body stalled: {self._size} bytes of it came, in the last {limits.body_timeout_s:g} s "
                f"less than {limits.min_body_bytes_per_s} a second"
            ) from None
        self._left_s = max(end - loop.time(), 0.0)
        return self._count_piece(message)

    async def send(self, message: Message) -> None:
        """Pass a message on. An answer that begins before the whole body is there ends the connection."""
        cycle = self._cycle
        if message["type"] != "http.response.start" or not cycle.more_body:
            await cycle.send(message)  # type: ignore[arg-type]
            return
        await cycle.send({**message, "headers": [*message.get("headers", ()), _CLOSE]})  # type: ignore[arg-type]
        self.ends_connection = True
        cycle.keep_alive = True  # else it closes at once; its protocol waits until the answer can be read

    def release_memory(self) -> None:
        """Nobody reads it any more."""
        self._state.release_body(self._held)
        self._held = 0

    def _count_piece(self, message: Message) -> Message:
        size = len(message.get("body", b""))
        self._size += size
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self._start_rate_window()
        if not message.get("more_body", False):
            self.release_memory()
        elif (more := self._size - FREE_BODY_BYTES - self._held) > 0:
            self._state.hold_body(more)
            self._held += more
        return message

    def _start_rate_window(self) -> None:
        limits = self._state.limits
        self._left_s = limits.body_timeout_s
        self._missing_bytes = max(1, int(limits.body_timeout_s * limits.min_body_bytes_per_s))

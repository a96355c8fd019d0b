"""The answer to one request while it comes in from a worker, and the ways in which it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from radixway.core.pipeline import FailureReason

HIGH_WATER_BYTES = 256 * 1024
"""An answer of which more than this waits unread is not read any further from its worker."""


class ResponseConnection(Protocol):
    """What an answer needs of the connection over which it comes."""

    transport: asyncio.Transport

    def abort_connection(self, error: UpstreamLostError) -> None:
        """Cut the connection; its answer is lost by that error."""


class UpstreamLostError(Exception):
    """The connection ended before the answer did, or what came over it is not HTTP."""

    kind: FailureReason = "disconnected"
    """Reason of an attempt that fails with it."""


class TruncatedResponseError(UpstreamLostError):
    """The answer has ended in order, but it is not whole."""

    kind: FailureReason = "truncated"


class ResponseTooLargeError(UpstreamLostError):
    """The answer, or `what` of it, has more than `max_bytes`."""

    kind: FailureReason = "too_large"

    def __init__(self, max_bytes: int, what: str = "its answer", *, key: str = "") -> None:
        """`key`: of the configuration that says so."""
        super().__init__(f"{what} has more than {max_bytes} bytes" + (f" ({key})" if key else ""))


class UpstreamResponse:
    """The answer to one request while it comes in: `take` what is there, `wait` for more."""

    __slots__ = (
        "_connection",
        "_parts",
        "_size",
        "_waiter",
        "complete",
        "error",
        "headers",
        "listener",
        "moved",
        "status",
    )

    def __init__(self, connection: ResponseConnection) -> None:
        self._connection: ResponseConnection | None = connection
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0
        """0 until the head has arrived."""
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.complete = False
        """The last byte has arrived, taken or not."""
        self.error: UpstreamLostError | None = None
        self.moved = False
        """Data has come since `UpstreamOrigin.abort_stalled` last looked."""
        self.listener: Callable[[], None] | None = None
        """Called, instead of waking a waiter, whenever data has arrived."""

    def take_body(self) -> bytes:
        """Everything of the body that has arrived since; empty if nothing has."""
        parts = self._parts
        if not parts:
            return b""
        self._parts = []
        if self._size > HIGH_WATER_BYTES and self._connection is not None:
            self._connection.transport.resume_reading()
        self._size = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def wait_arrival(self) -> None:
        """Wait until something has arrived. Raises UpstreamLostError when nothing can any more."""
        if self.error is not None:
            raise self.error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def read_head(self) -> None:
        """Wait for status and headers. Raises UpstreamLostError."""
        while not self.status:
            await self.wait_arrival()

    async def read_body(self, max_bytes: int) -> bytes:
        """Return the whole body. Raises UpstreamLostError; ResponseTooLargeError as soon as that is known."""
        if self.complete and self._size <= max_bytes:
            return self.take_body()
        parts = [self.take_body()]
        size = len(parts[0])
        promised = next((int(value) for name, value in self.headers if name == b"content-length"), 0)
        while size <= max_bytes and promised <= max_bytes:
            if self.complete:
                return b"".join(parts)
            await self.wait_arrival()
            parts.append(self.take_body())  # taking is what lets the connection go on reading
            size += len(parts[-1])
        raise ResponseTooLargeError(max_bytes, key="limits.workers.max_answer_bytes")

    def cancel_response(self) -> None:
        """Cancel an unfinished answer by closing its connection, which tells the worker to stop."""
        if self._connection is not None:
            self._connection.transport.abort()
        self.error = None  # its traceback holds this answer

    def fail_response(self, error: UpstreamLostError) -> None:
        """Fail the rest of an answer with `error`."""
        if self._connection is not None:
            self._connection.abort_connection(error)

    # What follows is the connection's side.

    def append_body(self, part: bytes) -> None:
        """Add `part`, which has come."""
        self.moved = True
        self._parts.append(part)
        self._size += len(part)

    def end_body(self, error: UpstreamLostError | None = None) -> None:
        self._connection = None
        self.error = error
        self.complete = error is None

    def wake_reader(self) -> None:
        """Wake the reader of new data; without one, limit what piles up."""
        if self.listener is not None:
            self.listener()
        elif (waiter := self._waiter) is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
                return
        if self._size > HIGH_WATER_BYTES and self._connection is not None:
            self._connection.transport.pause_reading()

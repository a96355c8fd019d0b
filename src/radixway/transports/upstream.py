"""Connections to workers, made for passing bytes on: one write per request, one wake-up per piece of answer.

HTTP/1.1 over httptools, without what a general client builds around an exchange (request objects, header
dictionaries, stream readers): that was two thirds of the gateway's CPU time per request. The figures are in
docs/decisions/0002-an-http-client-of-our-own-on-the-hot-path.md.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from math import inf
from typing import cast

import aiohappyeyeballs
import httptools

from radixway.config import WorkerLimitsSection
from radixway.pipeline import FailureReason
from radixway.web import HeadLimit

HIGH_WATER_BYTES = 256 * 1024
"""An answer of which more than this waits unread is not read any further from its worker."""


_NEXT_ADDRESS_S = 0.25
"""How long one address of a name may take before the next is tried beside it (RFC 8305)."""


class Lost(Exception):
    """The connection ended before the answer did, or what came over it is not HTTP."""

    kind: FailureReason = "disconnected"
    """What an attempt fails for that ends with it."""


class Truncated(Lost):
    """The answer has ended in order, but it is not whole."""

    kind: FailureReason = "truncated"


class AnswerTooLarge(Lost):
    """The answer, or `what` of it, has more than `max_bytes`."""

    kind: FailureReason = "too_large"

    def __init__(self, max_bytes: int, what: str = "its answer", *, key: str = "") -> None:
        """`key`: of the configuration that says so."""
        super().__init__(f"{what} has more than {max_bytes} bytes" + (f" ({key})" if key else ""))


class Answer:
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

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0
        """0 until the head has arrived."""
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.complete = False
        """The last byte has arrived, taken or not."""
        self.error: Lost | None = None
        self.moved = False
        """Something has come since `Origin.break_stuck` last looked."""
        self.listener: Callable[[], None] | None = None
        """Called, instead of waking a waiter, whenever something has arrived."""

    def take(self) -> bytes:
        """Everything of the body that has arrived since; empty if nothing has."""
        parts = self._parts
        if not parts:
            return b""
        self._parts = []
        if self._size > HIGH_WATER_BYTES and self._connection is not None:
            self._connection.transport.resume_reading()
        self._size = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def wait(self) -> None:
        """Wait until something has arrived. Raises Lost when nothing can any more."""
        if self.error is not None:
            raise self.error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def read_head(self) -> None:
        """Wait for status and headers. Raises Lost."""
        while not self.status:
            await self.wait()

    async def read_all(self, max_bytes: int) -> bytes:
        """The whole body. Raises Lost; AnswerTooLarge as soon as it is known that there are more bytes."""
        parts = [self.take()]
        size = len(parts[0])
        promised = next((int(value) for name, value in self.headers if name == b"content-length"), 0)
        while size <= max_bytes and promised <= max_bytes:
            if self.complete:
                return b"".join(parts)
            await self.wait()
            parts.append(self.take())  # taking is what lets the connection go on reading
            size += len(parts[-1])
        raise AnswerTooLarge(max_bytes, key="limits.workers.max_answer_bytes")

    def close(self) -> None:
        """Nobody wants the rest: cut an unfinished answer's connection, which tells the worker to stop."""
        if self._connection is not None:
            self._connection.transport.abort()
        self.error = None  # whoever it was raised to has this answer in its traceback

    def break_off(self, error: Lost) -> None:
        """There is no use in waiting for the rest: it is lost by that error."""
        if self._connection is not None:
            self._connection.break_off(error)

    # What follows is the connection's side.

    def add(self, part: bytes) -> None:
        self.moved = True
        self._parts.append(part)
        self._size += len(part)

    def end(self, error: Lost | None = None) -> None:
        self._connection = None
        self.error = error
        self.complete = error is None

    def wake(self) -> None:
        """Something has arrived: tell whoever waits; if nobody does, do not let too much pile up."""
        if self.listener is not None:
            self.listener()
        elif (waiter := self._waiter) is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
                return
        if self._size > HIGH_WATER_BYTES and self._connection is not None:
            self._connection.transport.pause_reading()


class Connection(asyncio.Protocol):
    """One connection to a worker, for one exchange at a time."""

    __slots__ = ("_answer", "_has_length", "_head", "_origin", "_parser", "_until", "idle_since", "transport")

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._head = HeadLimit(origin.limits.max_header_bytes, origin.limits.max_header_count)
        self._answer: Answer | None = None
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = httptools.HttpResponseParser(self)
        self._until = asyncio.get_running_loop().time() + self._origin.draw_lifetime_s()

    def is_too_old(self, now: float) -> bool:
        """Whether the name that it was opened for should be looked up again."""
        return now >= self._until

    def send(self, request: bytes) -> Answer:
        """Write a request; the connection must be idle."""
        self._answer = answer = Answer(self)
        self._origin.busy.add(self)
        self._has_length = False
        self.transport.write(request)
        return answer

    def break_stuck(self, reason: str) -> None:
        """Break off the answer if nothing of it has come since the last call."""
        answer = self._answer
        if answer is None:
            return
        if answer.moved:
            answer.moved = False
        else:
            self.break_off(Lost(reason))

    def break_off(self, error: Lost) -> None:
        """Cut the connection; its answer is lost by that error."""
        self._lose(error)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        try:
            self._head.feed(self._parser, data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._lose(Lost(str(self._head.error or f"what came back is not an HTTP answer ({error})")))
            self.transport.abort()
        if answer is not None:  # it may have ended well before the part that was not
            answer.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._origin.forget(self)
        answer = self._answer
        if answer is not None and exc is None and answer.status and not self._has_length:
            self._let_go()
            answer.end()  # an answer without a length ends with its connection
            answer.wake()
        else:
            self._lose(Lost(str(exc or "the worker closed the connection")))

    def _lose(self, error: Lost) -> None:
        answer = self._let_go()
        if answer is not None:
            answer.end(error)
            answer.wake()

    def _let_go(self) -> Answer | None:
        answer, self._answer = self._answer, None
        self._origin.busy.discard(self)
        return answer

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        self._head.begin_message()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head.add_header(name, value)
        if self._answer is not None:
            name = name.lower()
            self._has_length |= name in (b"content-length", b"transfer-encoding")
            self._answer.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._head.mark_progress()
        if self._answer is None:
            raise httptools.HttpParserError("an answer that nobody asked for")
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer: the real one follows
            self._answer.headers.clear()
        elif status > 599:
            raise httptools.HttpParserError(f"status {status}")
        else:
            self._answer.status = status

    def on_body(self, body: bytes) -> None:
        self._head.mark_progress()
        if self._answer is not None:
            self._answer.add(body)

    def on_message_complete(self) -> None:
        self._head.mark_progress()
        answer = self._answer
        if answer is None or not answer.status:
            return
        self._let_go()
        answer.end()
        if self._parser.should_keep_alive():
            self._origin.keep(self)
        else:
            self.transport.close()


class Origin:
    """The connections to one `scheme://host:port`.

    The one used last is used first, so that few stay open; those that idle longer than `idle_s` are closed
    when the next one becomes idle.

    Where `host` is a name, each new connection looks it up, and its addresses take turns. A connection older
    than `max_age_s` is closed once its exchange is over, so that one which is always busy does not stay for
    ever with an address that the name has left.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        idle_s: float,
        connect_s: float,
        limits: WorkerLimitsSection,
        max_age_s: float = 60.0,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._idle_s = idle_s
        self._connect_s = connect_s
        self.limits = limits
        """What may come over each connection."""
        self._max_age_s = inf if _is_address(host) else max_age_s
        self._turn = 0
        """Connections opened: which of the addresses of the family preferred comes first at the next one."""
        self._idle: dict[Connection, None] = {}  # in the order in which they became idle
        self._closed = False
        self.busy: set[Connection] = set()
        """Those with an answer under way."""

    def break_stuck(self, reason: str) -> None:
        """Break off every answer of which nothing has come since the last call."""
        for connection in tuple(self.busy):
            connection.break_stuck(reason)

    async def send(self, request: bytes) -> Answer:
        """Write a request to an idle connection or a fresh one. Raises OSError, TimeoutError among them."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection, _ = self._idle.popitem()
            if loop.time() - connection.idle_since > self._idle_s:
                connection.transport.close()
            elif not connection.transport.is_closing():
                return connection.send(request)
        async with asyncio.timeout(self._connect_s):
            connection = await self._connect(loop)
        return connection.send(request)

    def draw_lifetime_s(self) -> float:
        """How long a fresh connection may be used: connections opened together are not closed together."""
        return self._max_age_s * random.uniform(0.8, 1.0)

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        """A fresh connection, to the next address of the name; to another one where that does not answer."""
        if self._max_age_s == inf:
            _, connection = await loop.create_connection(
                lambda: Connection(self), self._host, self._port, ssl=self._tls
            )
            return connection
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        preferred = [each for each in found if each[0] == found[0][0]]
        first, self._turn = self._turn % len(preferred), self._turn + 1
        in_turn = preferred[first:] + preferred[:first] + [each for each in found if each not in preferred]
        connected = await aiohappyeyeballs.start_connection(in_turn, happy_eyeballs_delay=_NEXT_ADDRESS_S)
        server_hostname = self._host if self._tls is not None else None
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self), sock=connected, ssl=self._tls, server_hostname=server_hostname
            )
        except BaseException:
            connected.close()
            raise
        return connection

    def keep(self, connection: Connection) -> None:
        """Its exchange is over: use the connection again. Closes those that are too old or idle too long."""
        now = asyncio.get_running_loop().time()
        if self._closed or connection.is_too_old(now):
            connection.transport.close()
            return
        connection.idle_since = now
        self._idle[connection] = None
        while now - (oldest := next(iter(self._idle))).idle_since > self._idle_s:
            del self._idle[oldest]
            oldest.transport.close()

    def forget(self, connection: Connection) -> None:
        """It is closed."""
        self._idle.pop(connection, None)

    def close(self) -> None:
        """Close what is idle; what is busy closes with its answer."""
        self._closed = True
        while self._idle:
            self._idle.popitem()[0].transport.close()


def _is_address(host: str) -> bool:
    """Whether there is no name to look up."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True

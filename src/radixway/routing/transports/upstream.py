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
from ipaddress import ip_address
from math import inf
from time import monotonic
from typing import cast

import aiohappyeyeballs
import httptools

from radixway.core.config import WorkerLimitsConfig
from radixway.core.http import HeadLimit
from radixway.core.http.write_batch import write_batch_of
from radixway.routing.transports.upstream_response import UpstreamLostError, UpstreamResponse

_NEXT_ADDRESS_S = 0.25
"""Head start of one address before the next is tried (RFC 8305)."""


class UpstreamConnection(asyncio.Protocol):
    """A connection to a worker, for one exchange at a time."""

    __slots__ = (
        "_answer",
        "_head",
        "_in_head",
        "_max_headers",
        "_origin",
        "_parser",
        "_until",
        "idle_since",
        "transport",
    )

    def __init__(self, origin: UpstreamOrigin) -> None:
        self._origin = origin
        self._head = HeadLimit(origin.limits.max_header_bytes, origin.limits.max_header_count)
        self._max_headers = origin.limits.max_header_count
        self._in_head = False
        self._answer: UpstreamResponse | None = None
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = httptools.HttpResponseParser(self)
        self._until = monotonic() + self._origin.draw_lifetime_s()

    def is_expired(self, now: float) -> bool:
        """Return True at `now` if the name that it was opened for should be looked up again."""
        return now >= self._until

    def write_request(self, request: bytes, body: bytes = b"") -> UpstreamResponse:
        """Write a request; the connection must be idle. `body`: what is not joined to it."""
        self._answer = answer = UpstreamResponse(self)
        self._origin.busy.add(self)
        self._origin.batch.write(self.transport, request)
        if body:
            self._origin.batch.flush()
            self.transport.write(body)
        return answer

    def abort_stalled(self, reason: str) -> None:
        """Break off the answer if nothing of it has come since the last call."""
        answer = self._answer
        if answer is None:
            return
        if answer.moved:
            answer.moved = False
        else:
            self.abort_connection(UpstreamLostError(reason))

    def abort_connection(self, error: UpstreamLostError) -> None:
        """Cut the connection; its answer is lost by that error."""
        self._fail_response(error)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        try:
            self._head.feed_parser(self._parser, data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail_response(
                UpstreamLostError(str(self._head.error or f"what came back is not an HTTP answer ({error})"))
            )
            self.transport.abort()
        if answer is not None:  # it may have ended well before the part that was not
            answer.wake_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._origin.remove_connection(self)
        answer = self._answer
        if answer is not None and exc is None and answer.status and not _has_length(answer.headers):
            self._detach_response()
            answer.end_body()  # an answer without a length ends with its connection
            answer.wake_reader()
        else:
            self._fail_response(UpstreamLostError(str(exc or "the worker closed the connection")))

    def _fail_response(self, error: UpstreamLostError) -> None:
        answer = self._detach_response()
        if answer is not None:
            answer.end_body(error)
            answer.wake_reader()

    def _detach_response(self) -> UpstreamResponse | None:
        answer, self._answer = self._answer, None
        self._origin.busy.discard(self)
        return answer

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        self._head.begin_message()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head and self._answer is not None:
            headers = self._answer.headers
            headers.append((name.lower(), value))
            if len(headers) > self._max_headers:
                self._head.end_head(b"", headers)  # too many, without an end
        else:
            self._head.add_header(name, value)  # a trailer

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head.end_head(b"", () if self._answer is None else self._answer.headers)
        if self._answer is None:
            raise httptools.HttpParserError("an answer without a request")
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer: the real one follows
            self._answer.headers.clear()
        elif status > 599:
            raise httptools.HttpParserError(f"status {status}")
        else:
            self._answer.status = status

    def on_body(self, body: bytes) -> None:
        self._head.unfinished_bytes = 0
        if self._answer is not None:
            self._answer.append_body(body)

    def on_message_complete(self) -> None:
        self._head.mark_progress()
        answer = self._answer
        if answer is None or not answer.status:
            return
        self._detach_response()
        answer.end_body()
        if self._parser.should_keep_alive():
            self._origin.release_connection(self)
        else:
            self.transport.close()


class UpstreamOrigin:
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
        limits: WorkerLimitsConfig,
        max_age_s: float = 60.0,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._idle_s = idle_s
        self._connect_s = connect_s
        self.limits = limits
        """Limits of each connection's input."""
        self._max_age_s = inf if _is_address(host) else max_age_s
        self._turn = 0
        """Rotates the addresses of the preferred family."""
        self._idle: dict[UpstreamConnection, None] = {}  # in the order in which they became idle
        self._closed = False
        self.batch = write_batch_of(asyncio.get_running_loop())
        self.busy: set[UpstreamConnection] = set()
        """Connections with an unfinished answer."""

    def abort_stalled(self, reason: str) -> None:
        """Break off every answer of which nothing has come since the last call."""
        for connection in tuple(self.busy):
            connection.abort_stalled(reason)

    async def send_request(self, request: bytes) -> UpstreamResponse:
        """Write a request to an idle connection or a fresh one. Raises as `write_to_new`."""
        return self.write_to_idle(request) or await self.write_to_new(request)

    def write_to_idle(self, request: bytes, body: bytes = b"") -> UpstreamResponse | None:
        """Write a request to the connection used last, if there is one that is idle."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if monotonic() - connection.idle_since > self._idle_s:
                connection.transport.close()
            elif not connection.transport.is_closing():
                return connection.write_request(request, body)
        return None

    async def write_to_new(self, request: bytes, body: bytes = b"") -> UpstreamResponse:
        """Write a request to a fresh connection. Raises OSError; TimeoutError is one."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_s):
            connection = await self._open_connection(loop)
        return connection.write_request(request, body)

    def draw_lifetime_s(self) -> float:
        """Draw how long a fresh connection may be used, so that those opened together close one by one."""
        return self._max_age_s * random.uniform(0.8, 1.0)

    async def _open_connection(self, loop: asyncio.AbstractEventLoop) -> UpstreamConnection:
        """Open a connection to the name's next address that answers."""
        if self._max_age_s == inf:
            _, connection = await loop.create_connection(
                lambda: UpstreamConnection(self), self._host, self._port, ssl=self._tls
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
                lambda: UpstreamConnection(self),
                sock=connected,
                ssl=self._tls,
                server_hostname=server_hostname,
            )
        except BaseException:
            connected.close()
            raise
        return connection

    def release_connection(self, connection: UpstreamConnection) -> None:
        """Release a connection for reuse. Closes those that are too old or idle too long."""
        now = monotonic()
        if self._closed or connection.is_expired(now):
            connection.transport.close()
            return
        connection.idle_since = now
        self._idle[connection] = None
        while now - (oldest := next(iter(self._idle))).idle_since > self._idle_s:
            del self._idle[oldest]
            oldest.transport.close()

    def remove_connection(self, connection: UpstreamConnection) -> None:
        """Remove a closed connection."""
        self._idle.pop(connection, None)

    def close_idle(self) -> None:
        """Close what is idle; what is busy closes with its answer."""
        self._closed = True
        while self._idle:
            self._idle.popitem()[0].transport.close()


def _has_length(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True

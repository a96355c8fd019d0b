"""Serve an ASGI application with uvicorn: bind first, say when it is ready, drain when asked to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from ipaddress import ip_address
from math import ceil
from pathlib import Path
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from radixway.web.asgi import App


class CannotListen(Exception):
    """The address cannot be listened on; the message says why."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send without Nagle's delay; port 0 takes a free one.

    Raises:
        CannotListen: the port is taken, or the address is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or error
        raise CannotListen(f"cannot listen on {host}:{port}: {why}") from None
    return listener


def is_loopback_host(host: str) -> bool:
    """Whether what listens there is reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind_unix(path: Path) -> socket.socket:
    """A listening Unix socket at a path where there is nothing yet. Raises CannotListen."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise CannotListen(f"cannot listen at {path}: {error.strerror or error}") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where clients reach it; of a Unix socket `unix:PATH`."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class AppServer:
    """An application on a listening socket, from `serve()` until `stop()`."""

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        *,
        drain_s: float,
        on_stop: Callable[[], None] = lambda: None,
        websockets: bool = False,
    ) -> None:
        """`on_stop` is called when it is asked to stop, before requests are given time to finish.

        `websockets`: whether they are spoken, where the package is installed.
        """
        self._on_stop = on_stop
        self.url = url_of(listener)
        self._listener = listener
        self._server = _Server(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=_Protocol,
                loop="uvloop",
                ws=_websocket if websockets and find_spec("websockets") else "none",  # type: ignore[arg-type]
                ws_per_message_deflate=False,
                lifespan="off",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                log_config=None,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=ceil(drain_s),
            )
        )

    async def serve(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Answer requests until stopped; then let running ones finish for `drain_s` seconds."""
        self._server.on_ready = on_ready
        await self._server.serve(sockets=[self._listener])

    def stop_on_signals(self) -> None:
        """Take SIGINT and SIGTERM as `stop`. Main thread only."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, self.stop)

    def stop(self) -> None:
        """Drain and end; called again, end at once."""
        if self._server.should_exit:
            self._server.force_exit = True
        self._server.should_exit = True
        self._on_stop()


def _websocket(**given: Any) -> asyncio.Protocol:
    """uvicorn's, imported with the first connection that wants it."""
    from radixway.web.sockets import WebSocket

    return WebSocket(**given)


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to us: its own handling raises them again after a clean end."""

    on_ready: Callable[[], None] = staticmethod(lambda: None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_ready()


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 that declines an offer to upgrade, but to a WebSocket, by taking no notice of it.

    uvicorn goes on without the body of such a request, and curl and some proxies offer HTTP/2 with each.
    """

    def on_headers_complete(self) -> None:
        if not self.parser.should_upgrade() or self._opens_websocket():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if self._opens_websocket():
                self.handle_websocket_upgrade()
                return
            self._read_again(data[offer.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _opens_websocket(self) -> bool:
        """With GET alone: what has a body is a request."""
        return self.parser.get_method() == b"GET" and bool(self._should_upgrade())

    def _read_again(self, rest: bytes) -> None:
        """The parser stopped at the offer, before the body: give a new one the same request without it."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("This server is no proxy.")
            return
        head = b"%b %b HTTP/1.1\r\n" % (method, self.url)
        for name, value in self.headers:
            if name not in (b"upgrade", b"connection", b"http2-settings"):
                head += b"%b: %b\r\n" % (name, value)
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"%b\r\n%b" % (head, rest))

"""HTTP as bytes over a real socket, and a gateway on uvloop in a thread that answers it as in production."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import uvloop

from radixway.core.http import AppServer, Receive, Scope, Send, ServerLimits
from radixway.gateway.app import Gateway
from support.echoing_worker import answering, event
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

TIMEOUT_S = 30
LARGE_BYTES = 32 * 2**20
"""More than sockets hold."""
PROBE = b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
"""The request that tells whether a connection is still open."""

ResultT = TypeVar("ResultT")


@dataclass
class RawAnswer:
    """One response as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def said(self) -> str:
        """What the echoing worker was told, in a whole answer of the chat endpoint."""
        text: str = self.json()["choices"][0]["message"]["content"]
        return text


class RawClient:
    """A client's side of one connection: it sends bytes and reads responses."""

    def __init__(self, host: str, port: int, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:  # before it connects, or the window is larger
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Send all of `data`; a server that has already closed the connection is no error."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def send_bytewise(self, data: bytes, size: int = 1) -> None:
        """Send `data` in pieces of `size` bytes, each in a segment of its own."""
        for i in range(0, len(data), size):
            self.send(data[i : i + size])

    def end_sending(self) -> None:
        """Close this side of the connection only."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close the connection with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def answer(self, method: str = "POST") -> RawAnswer:
        """The next final response; interim ones (`100 Continue`) before it are skipped. Raises EOFError."""
        while (answer := self.next_response(method)).status < 200 and answer.status != 101:
            pass
        return answer

    def next_response(self, method: str = "POST") -> RawAnswer:
        """The next response, interim or final, to a request of `method`. Raises EOFError."""
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])
        }
        if status < 200 or method == "HEAD":
            return RawAnswer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return RawAnswer(status, headers, self._chunks())
        return RawAnswer(status, headers, self.read_exactly(int(headers.get("content-length", "0"))))

    def rest(self) -> bytes:
        """Everything that comes until the server closes the connection, or resets it."""
        with suppress(ConnectionError):
            while self._receive():
                pass
        rest, self._buffer = self._buffer, b""
        return rest

    def read_exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive_more()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to `mark`, which is read too."""
        return self._until(mark)

    def is_kept(self) -> bool:
        """Whether the server answers one more request here; there must be nothing else to read."""
        self.send(PROBE)
        rest = self.rest()
        assert not rest or rest.startswith(b"HTTP/1.1 200 "), rest
        assert rest.count(b"HTTP/1.1 ") <= 1, rest
        return bool(rest)

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._until(b"\r\n").split(b";")[0], 16):
            body += self.read_exactly(size)
            assert self.read_exactly(2) == b"\r\n"
        assert self._until(b"\r\n") == b"\r\n"
        return body

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._receive_more()
        end = self._buffer.index(mark) + len(mark)
        found, self._buffer = self._buffer[:end], self._buffer[end:]
        return found

    def _receive_more(self) -> None:
        try:
            size = self._receive()
        except ConnectionResetError:
            size = 0
        if not size:
            raise EOFError(f"the server closed the connection after {self._buffer!r}")

    def _receive(self) -> int:
        data = self.socket.recv(2**16)
        self._buffer += data
        return len(data)


@dataclass
class ThreadedGateway:
    """A running gateway, its worker, and what its thread logged of errors."""

    host: str
    port: int
    gateway: Gateway
    server: AppServer
    worker: ScriptedWorker
    echo: EchoBehaviour
    loop: asyncio.AbstractEventLoop
    errors: list[str] = field(default_factory=list)
    _clients: list[RawClient] = field(default_factory=list)

    def connect(self, receive_buffer_bytes: int | None = None) -> RawClient:
        client = RawClient(self.host, self.port, receive_buffer_bytes)
        self._clients.append(client)
        return client

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run `work` in the gateway's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    def take_seen(self) -> list[tuple[str, str, bytes]]:
        """Method, path and body of each request that reached the worker since the last call."""
        seen = [(each.method, each.path, each.body) for each in self.worker.requests]
        self.worker.requests.clear()
        return seen

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until `is_so()`, asked in the gateway's loop, at most `TIMEOUT_S`."""

        async def wait() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                while not is_so():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)

        self.run(wait())

    def wait_for_requests(self, count: int) -> None:
        """Wait until the worker has got `count` requests."""
        self.wait_until(lambda: len(self.worker.requests) >= count)

    def release(self) -> None:
        """Let the worker answer what waits."""
        self.loop.call_soon_threadsafe(self.echo.release.set)

    def stop(self) -> None:
        """Ask the server to stop, as SIGTERM does."""
        self.loop.call_soon_threadsafe(self.server.stop)

    def connections(self) -> int:
        """The number of open connections."""
        return len(self.server._server.server_state.connections)

    def unread_answers(self) -> int:
        """The number of connections whose client does not read what is written."""
        return sum(each.flow.write_paused for each in self.server._server.server_state.connections)

    def wait_until_idle(self) -> None:
        """Wait until no client is connected, no request is under way and none is held for a worker."""
        self.close_clients()
        state = self.server._server.server_state
        workers = self.gateway.registry
        self.wait_until(
            lambda: (
                not state.connections
                and not state.tasks
                and not any(worker.load.requests for worker in workers)
            )
        )


class EchoBehaviour:
    """Answers as `answering` does, and what is no request for it with the number of its bytes.

    `wait` is answered when `release` is set, a stream after its first letter; `flood` is a stream that does
    not end, or a large answer; `no content` is answered with 204, and with a body where there must be none.
    """

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        try:
            body = json.loads(exchange.body)
            said = body["messages"][-1]["content"]
        except (ValueError, LookupError, TypeError):
            await exchange.reply(200, b'{"bytes": %d}' % len(exchange.body))
            return
        if said == "no content":
            await exchange.reply(204, b"HTTP/1.1 200 OK\r\n\r\n")
            return
        if said == "wait" and not body.get("stream"):
            await self.release.wait()
        if said not in ("wait", "flood") or not body.get("stream"):
            await answering(exchange) if said != "flood" else await exchange.reply(200, bytes(LARGE_BYTES))
            return
        await exchange.begin_stream()
        if said == "wait":
            await exchange.chunk(event("w"))
            await self.release.wait()
            await exchange.chunk(event("ait") + b"data: [DONE]\n\n")
            await exchange.end_stream()
        else:
            while True:
                await exchange.chunk(event("x" * 2**16))


class _ErrorHandler(logging.Handler):
    """Keeps what the thread that makes it logs at `ERROR` and above."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._errors.append(self.format(record))


def serve_through_asgi(gateway: Gateway, listener: socket.socket) -> AppServer:
    """A server that knows nothing of the gateway but that it is an ASGI application."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await gateway(scope, receive, send)

    return AppServer(
        application,
        listener,
        drain_s=gateway.config.gateway.drain_s,
        on_stop=gateway.stopping,
        websockets=True,
        limits=ServerLimits(**gateway.config.limits.server.model_dump()),
    )


SERVERS: dict[str, Callable[[Gateway, socket.socket], AppServer]] = {
    "configured": Gateway.make_server,
    "asgi": serve_through_asgi,
}
"""Two ways to serve one gateway, between which no client can tell a difference."""


@contextmanager
def gateway_in_a_thread(server: str = "configured", **sections: Any) -> Iterator[ThreadedGateway]:
    """A gateway in front of one worker, both on uvloop in a thread; `server` is a key of `SERVERS`."""
    ready = threading.Event()
    found: list[ThreadedGateway] = []
    failed: list[BaseException] = []
    stop = asyncio.Event()

    async def serve() -> None:
        errors: list[str] = []
        handler = _ErrorHandler(errors)
        logging.getLogger().addHandler(handler)
        try:
            async with (
                scripted_worker(echo := EchoBehaviour()) as worker,
                running_gateway(worker.url, make_server=SERVERS[server], **sections) as running,
            ):
                host, _, port = running.url.removeprefix("http://").rpartition(":")
                loop = asyncio.get_running_loop()
                found.append(
                    ThreadedGateway(
                        host, int(port), running.gateway, running.server, worker, echo, loop, errors
                    )
                )
                ready.set()
                await stop.wait()
        finally:
            logging.getLogger().removeHandler(handler)

    def run() -> None:
        try:
            uvloop.run(serve())
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="gateway")
    thread.start()
    assert ready.wait(TIMEOUT_S)
    if failed:
        raise failed[0]
    running = found[0]
    try:
        yield running
    finally:
        running.close_clients()
        running.loop.call_soon_threadsafe(stop.set)
        thread.join()

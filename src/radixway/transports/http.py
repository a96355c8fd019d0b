"""Carry a request to a worker over HTTP, byte for byte."""

from __future__ import annotations

from typing import Self

import aiohttp
from yarl import URL

from radixway.pipeline import Chunks, Reply, Request, StreamBroken, WorkerFailed
from radixway.routing import Lease, Worker

# aiohttp's names for "the worker is not there" and "the worker went away".
_UNREACHABLE = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_LOST = (aiohttp.ClientError, TimeoutError, OSError)

# Its own word that it cannot answer now, though another worker may.
_UNAVAILABLE = frozenset({502, 503})

# Framing is ours to choose; the rest describes one connection, or names the software behind it.
_DROPPED = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server", "x-request-id"}
)


class HttpTransport:
    """A pool of connections to all workers. Use it inside one event loop; `close` it at the end."""

    def __init__(self) -> None:
        self.session = aiohttp.ClientSession(
            # uvicorn, which most workers run on, closes idle connections after 5 s: let go before it does.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            read_bufsize=2**18,
        )
        self._targets: dict[tuple[str, str], URL] = {}

    async def send(self, request: Request, worker: Worker, lease: Lease) -> Reply:
        """Ask `worker` and return its answer; `lease` is released when the answer has been read or closed.

        A whole reply is read to its end; a stream is read up to its first chunk. Until then nothing has
        reached the client, so every failure raises WorkerFailed and can be tried elsewhere.
        """
        headers = {"content-type": "application/json", "x-request-id": request.id}
        headers.update(request.headers)
        if worker.api_key:
            headers["authorization"] = f"Bearer {worker.api_key}"
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self.session.post(
                self._target(worker, request.path),
                data=request.payload(),
                headers=headers,
                allow_redirects=False,
            )
            if response.status in _UNAVAILABLE:
                raise WorkerFailed(worker.name, "unavailable", f"it answered {response.status}")
            reply = Reply(response.status, _kept(response), worker.name)
            if request.stream and response.status == 200:
                chunks = _EventStream(response, worker.name, lease)
                if await chunks.begin():
                    reply.chunks = chunks
                    return reply
                raise WorkerFailed(worker.name, "disconnected", "the stream ended before its first event")
            reply.body = await response.read()
            lease.release()
            return reply
        except BaseException as error:
            if response is not None:
                response.close()
            lease.release()
            if isinstance(error, _UNREACHABLE):
                raise WorkerFailed(worker.name, "unreachable", str(error)) from error
            if isinstance(error, _LOST):
                raise WorkerFailed(worker.name, "disconnected", str(error) or type(error).__name__) from error
            raise

    async def call(
        self, worker: Worker, method: str, path: str, body: bytes, *, timeout_s: float = 30
    ) -> tuple[int, str, bytes]:
        """A single administrative call: status, content type, body. Raises WorkerFailed."""
        headers = {"content-type": "application/json"}
        if worker.api_key:
            headers["authorization"] = f"Bearer {worker.api_key}"
        try:
            async with self.session.request(
                method,
                worker.url + path,
                data=body or None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,
            ) as response:
                return response.status, response.content_type, await response.read()
        except _LOST as error:
            raise WorkerFailed(worker.name, "unreachable", str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close all connections."""
        await self.session.close()

    def _target(self, worker: Worker, path: str) -> URL:
        target = self._targets.get((worker.url, path))
        if target is None:
            target = URL(worker.url + path, encoded=True)
            if "?" not in path:  # queries come from clients: never grow with them
                self._targets[worker.url, path] = target
        return target


class _EventStream(Chunks):
    """Server-sent events as the worker wrote them, passed on in whole events.

    What arrives after the last blank line is held back until its event is complete, so that an error event
    can follow at any time without landing in the middle of another.
    """

    __slots__ = ("_first", "_held", "_lease", "_response", "_worker")

    def __init__(self, response: aiohttp.ClientResponse, worker: str, lease: Lease) -> None:
        self._response = response
        self._worker = worker
        self._lease = lease
        self._held = b""
        self._first = b""

    async def begin(self) -> bool:
        """Wait for the first event; False if the stream ends without one."""
        self._first = await self._read()
        return bool(self._first)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        try:
            chunk = await self._read()
        except _LOST as error:
            await self.aclose()
            raise StreamBroken(self._worker, str(error) or type(error).__name__) from error
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        # Closing an unread response drops its connection, which tells the worker to stop; at its end the
        # connection went back to the pool and there is nothing to close.
        self._response.close()
        self._lease.release()

    async def _read(self) -> bytes:
        while chunk := await self._response.content.readany():
            if not self._held and chunk.endswith((b"\n\n", b"\r\n\r\n")):
                return chunk
            chunk = self._held + chunk
            end = max(chunk.rfind(b"\n\n") + 2, chunk.rfind(b"\r\n\r\n") + 4)
            if end >= 4:
                self._held = chunk[end:]
                return chunk[:end]
            self._held = chunk
        rest, self._held = self._held, b""
        return rest


def _kept(response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """The worker's headers that reach the client."""
    return [
        (name.lower(), value)
        for name, value in response.raw_headers
        if name.decode("latin-1").lower() not in _DROPPED
    ]

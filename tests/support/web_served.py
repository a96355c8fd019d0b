"""An application on a server of its own, and clients that write bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from radixway.core.http import AppServer, HttpError, ServerCounts, ServerLimits, bind_tcp, read_body
from radixway.core.http.direct_exchange import DirectHandlers

MAX_BODY_BYTES = 4 * 2**20
LARGE_BYTES = 32 * 2**20


class Application:
    """Answers a path each; `began` and `ended` tell of every call, `release` lets those that wait go on."""

    def __init__(self) -> None:
        self.began: asyncio.Queue[str] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.release = asyncio.Event()
        self.headers: list[tuple[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self.socket(receive, send)
            return
        path = scope["path"]
        self.began.put_nowait(path)
        self.headers = scope["headers"]
        how = "cancelled"
        try:
            how = await getattr(self, path[1:])(scope, receive, send)
        finally:
            self.ended.put_nowait(how)

    async def read(self, scope: Any, receive: Any, send: Any) -> str:
        """The size of the body."""
        try:
            body = await read_body(scope, receive, MAX_BODY_BYTES)
        except HttpError as error:
            await reply(send, error.status, error.body())
            return error.code or ""
        await reply(send, 200, b"%d" % len(body))
        return "read"

    async def leak(self, scope: Any, receive: Any, send: Any) -> str:
        """Lets the server answer what is wrong with the body."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        return "read"

    async def refuse(self, scope: Any, receive: Any, send: Any) -> str:
        """Without reading anything."""
        await reply(send, 401, b"no")
        return "refused"

    async def large(self, scope: Any, receive: Any, send: Any) -> str:
        """More than sockets hold."""
        await reply(send, 200, bytes(LARGE_BYTES))
        return "answered"

    async def wait(self, scope: Any, receive: Any, send: Any) -> str:
        """Till it is released, or the client leaves."""
        while (message := await receive())["type"] == "http.request":
            if not message.get("more_body", False):
                break
        leaving = asyncio.ensure_future(receive())
        releasing = asyncio.ensure_future(self.release.wait())
        try:
            await asyncio.wait({leaving, releasing}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                return "left"
            await reply(send, 200, b"released")
            return "answered"
        finally:
            leaving.cancel()
            releasing.cancel()

    async def socket(self, receive: Any, send: Any) -> None:
        """A WebSocket that says something when it is released."""
        await receive()
        await send({"type": "websocket.accept"})
        self.began.put_nowait("socket")
        await self.release.wait()
        await send({"type": "websocket.send", "text": "released"})
        await send({"type": "websocket.close"})

    async def stream(self, scope: Any, receive: Any, send: Any) -> str:
        """A piece, and when it is released the end."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await self.release.wait()
        await send({"type": "http.response.body", "body": b"over", "more_body": False})
        return "answered"


async def reply(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@dataclass
class Peer:
    """A client's side of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body by its length or in chunks."""
        async with asyncio.timeout(20):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:-2])
            body = b""
            if "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            return int(lines[0].split()[1]), headers, body

    async def rest(self) -> bytes:
        """Everything till the server closes."""
        async with asyncio.timeout(20):
            return await self.reader.read(-1)

    def close(self) -> None:
        self.writer.close()


@dataclass
class Served:
    app: Application
    host: str
    port: int
    counts: ServerCounts
    server: AppServer
    peers: list[Peer] = field(default_factory=list)

    async def connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection(self.host, self.port))
        self.peers.append(peer)
        return peer

    async def ask(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """On a connection of its own."""
        peer = await self.connect()
        await peer.send(head(path))
        return await peer.answer()

    async def next_end(self) -> str:
        async with asyncio.timeout(20):
            return await self.app.ended.get()

    async def next_beginning(self) -> str:
        async with asyncio.timeout(20):
            return await self.app.began.get()


def head(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: a", *headers, "", ""]).encode()


@asynccontextmanager
async def served(
    *, drain_s: float = 5, handlers: DirectHandlers | None = None, **limits: Any
) -> AsyncIterator[Served]:
    """The application behind a server with these limits, and beside it `handlers`."""
    app, counts = Application(), ServerCounts()
    server = AppServer(
        app,
        bind_tcp("127.0.0.1", 0),
        drain_s=drain_s,
        websockets=True,
        limits=ServerLimits(**limits),
        counts=counts,
        handlers=handlers,
    )
    ready = asyncio.Event()
    serving = asyncio.create_task(server.serve(ready.set))
    await ready.wait()
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    running = Served(app, host, int(port), counts, server)
    try:
        yield running
    finally:
        app.release.set()
        for peer in running.peers:
            peer.close()
        server.stop()
        await serving

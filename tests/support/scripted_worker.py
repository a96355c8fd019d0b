"""A worker that misbehaves on purpose, over a real socket: what no healthy engine does on cue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Exchange:
    """One request as the worker received it, and the means to answer it in pieces."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def json(self) -> dict:
        return json.loads(self.body)

    async def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await self.writer.drain()

    async def begin_stream(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self.writer.write(head)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def until_peer_leaves(self) -> None:
        await self.reader.read()

    def die(self) -> None:
        self.writer.transport.abort()


Behaviour = Callable[[Exchange], Awaitable[None]]


async def answer_ok(exchange: Exchange) -> None:
    """A small whole reply."""
    await exchange.reply(200, b'{"choices": [{"message": {"content": "ok"}}], "odd":  1e-5}')


@dataclass
class ScriptedWorker:
    """Answers health checks by itself; everything else by `behaviour`."""

    models: list[str] = field(default_factory=lambda: ["m"])
    behaviour: Behaviour = answer_ok
    requests: list[Exchange] = field(default_factory=list)
    url: str = ""
    tokenizes: bool = False
    """It has `/tokenize`, which its behaviour answers."""
    adapters: dict[str, str] = field(default_factory=dict)
    """LoRA adapters by name, and whose they are."""
    root: str | None = None
    """Where its model lies."""
    context: int | None = None
    """How many tokens its model holds, as `max_model_len`."""
    weight_version: str | None = None
    """What `/model_info` says of its weights; without one it has no such path."""
    info: dict[str, object] = field(default_factory=dict)
    """What else `/server_info` says."""
    metrics: bytes | None = None
    """Its own `/metrics`, if it has some."""
    own_metrics: bool = False
    """Its behaviour answers for them."""
    silent_paths: frozenset[str] = frozenset()
    """Of its own pages those that get no answer."""
    missing_paths: frozenset[str] = frozenset()
    """Those that it does not have."""
    deaf: bool = False
    """Health checks get no answer."""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a peer closed a connection over which it asked something: health checks close theirs."""
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"

    async def kill(self) -> None:
        """Gone at once: nothing listens any more and every connection is reset."""
        if self._server is not None:
            self._server.close()
            for writer in tuple(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        was_asked = False
        try:
            while (exchange := await _read(reader, writer)) is not None:
                if exchange.path in self.silent_paths:
                    await exchange.until_peer_leaves()
                    return
                if exchange.path in self.missing_paths:
                    await exchange.reply(404, b"{}")
                elif exchange.path == "/health":
                    if self.deaf:
                        await exchange.until_peer_leaves()
                        return
                    await exchange.reply(200, b"{}")
                elif exchange.path == "/v1/models":
                    more = {} if self.context is None else {"max_model_len": self.context}
                    entries = [{"id": name, "root": self.root} | more for name in self.models]
                    entries += [{"id": name, "parent": parent} for name, parent in self.adapters.items()]
                    listing = {"object": "list", "data": entries}
                    await exchange.reply(200, json.dumps(listing).encode())
                elif exchange.path == "/server_info":
                    told = {"max_total_num_tokens": 4096, "max_running_requests": 8} | self.info
                    await exchange.reply(200, json.dumps(told).encode())
                elif exchange.method == "GET" and exchange.path in ("/model_info", "/get_weight_version"):
                    said = {"weight_version": self.weight_version}
                    await exchange.reply(
                        404 if self.weight_version is None else 200, json.dumps(said).encode()
                    )
                elif exchange.path == "/metrics" and not self.own_metrics:
                    page = self.metrics
                    await exchange.reply(404 if page is None else 200, page or b"", "text/plain")
                elif exchange.path == "/tokenize" and exchange.method == "GET":
                    await exchange.reply(405 if self.tokenizes else 404, b"{}")
                else:
                    was_asked = True
                    self.requests.append(exchange)
                    await self.behaviour(exchange)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            if was_asked:
                self.hung_up.set()
            self._writers.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    if headers.get("transfer-encoding") == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(method, path, headers, body, reader, writer)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:size]
    await reader.readuntil(b"\r\n")
    return body


@asynccontextmanager
async def scripted_worker(behaviour: Behaviour = answer_ok, **more) -> AsyncIterator[ScriptedWorker]:
    worker = ScriptedWorker(behaviour=behaviour, **more)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.kill()

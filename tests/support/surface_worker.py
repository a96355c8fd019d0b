"""A worker with the surfaces of vLLM and SGLang beside completions, behind aiohttp's own server.

It answers in their shapes, says in `/openapi.json` what it offers, and keeps what it was sent, byte for byte.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from typing import Any

from aiohttp import web

AUDIO = bytes(range(256)) * 40
"""What is spoken: no text in any encoding."""


@dataclass(frozen=True)
class SeenCall:
    """One call as it came."""

    method: str
    target: str
    """Path and query."""
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Handler = Callable[[web.Request, bytes], web.StreamResponse | Any]


@dataclass
class SurfaceWorker:
    """Serves `offered` and says so; what else is asked gets 404, as FastAPI gives it."""

    offered: frozenset[str]
    models: list[str] = field(default_factory=lambda: ["m"])
    card: dict[str, Any] = field(default_factory=dict)
    """More of each model's card."""
    tokenizes: bool = False
    """It says that `/tokenize` takes POST alone."""
    describes: bool = True
    """It has `/openapi.json`."""
    seen: list[SeenCall] = field(default_factory=list)
    described: int = 0
    """How often `/openapi.json` was read."""
    failures: int = 0
    """So many calls of the models are answered 503 from now on."""
    answers: dict[str, Handler] = field(default_factory=dict)
    """By path: answers in place of those below."""
    url: str = ""

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(call.method, call.target) for call in self.seen]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/health":
            return web.json_response({})
        if path == "/openapi.json" and self.describes:
            self.described += 1
            paths = {"/health": {}, "/v1/models": {}} | {each: {"post": {}} for each in self.offered}
            return web.json_response({"openapi": "3.1.0", "paths": paths})
        if path == "/v1/models":
            cards = [{"id": name, "object": "model", **self.card} for name in self.models]
            return web.json_response({"object": "list", "data": cards})
        if path in ("/openapi.json", "/server_info", "/model_info", "/get_weight_version", "/metrics") or (
            request.method == "GET" and path == "/tokenize"
        ):
            status = 405 if self.tokenizes and path == "/tokenize" else 404
            return web.json_response({"detail": "Not Found"}, status=status)
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(SeenCall(request.method, request.raw_path, headers, body))
        if self.failures:
            self.failures -= 1
            return web.json_response({"error": {"message": "busy"}}, status=503)
        if not self._offers(path):
            return web.json_response({"detail": "Not Found"}, status=404)
        answer = self.answers.get(path) or _ANSWERS.get(path) or _echo
        reply = answer(request, body)
        return await reply if hasattr(reply, "__await__") else reply

    def _offers(self, path: str) -> bool:
        parts = path.split("/")
        return any(
            len(parts) == len(other := each.split("/"))
            and all(a == b or b.startswith("{") for a, b in zip(parts, other, strict=True))
            for each in self.offered
        )


def _echo(request: web.Request, body: bytes) -> web.Response:
    return web.json_response({"object": request.path, "bytes": len(body)})


def _speak(request: web.Request, body: bytes) -> web.Response:
    return web.Response(body=AUDIO, content_type="audio/mpeg")


def _draw(request: web.Request, body: bytes) -> web.Response:
    return web.json_response({"created": int(time.time()), "data": [{"b64_json": "aGVsbG8="}]})


_ANSWERS: dict[str, Handler] = {"/v1/audio/speech": _speak, "/v1/images/generations": _draw}


@asynccontextmanager
async def surface_worker(
    *offered: str, kind: type[SurfaceWorker] = SurfaceWorker, **more: Any
) -> AsyncIterator[Any]:
    worker = kind(frozenset(offered), **more)
    async with _served(worker.serve) as worker.url:
        yield worker


@asynccontextmanager
async def _served(serve: Callable[[web.Request], Any]) -> AsyncIterator[str]:
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_route("*", "/{rest:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def paths_of(worker: SurfaceWorker) -> Collection[str]:
    return {target.partition("?")[0] for _, target in worker.calls}


def form_of(call: SeenCall) -> dict[str, list[bytes]]:
    """The parts of a form as the standard library reads them, by name."""
    head = f"content-type: {call.headers['content-type']}\r\n\r\n".encode()
    parts: dict[str, list[bytes]] = {}
    for part in BytesParser().parsebytes(head + call.body).get_payload():
        assert isinstance(part, Message)
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        parts.setdefault(str(name), []).append(bytes(content))
    return parts

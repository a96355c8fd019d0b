"""A proxy in front of an engine that keeps every request of `/generate` and what the engine said to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
from aiohttp import web

from support.engine_record import Call, EngineRecord

_OF_ONE_HOP = {"host", "connection", "content-length", "transfer-encoding", "keep-alive"}


class RecordingProxy:
    """`record` is what the engine itself says; sessions are what the `rid` of a request begins with."""

    def __init__(self, engine: str, client: aiohttp.ClientSession) -> None:
        self.engine = engine
        self.record = EngineRecord()
        self.url = ""
        self._client = client

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """One exchange."""
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP}
        said = b""
        try:
            async with self._client.request(
                request.method, self.engine + request.path_qs, data=body, headers=headers
            ) as answer:
                passed = web.StreamResponse(status=answer.status)
                passed.content_type = answer.content_type
                await passed.prepare(request)
                with suppress(ConnectionError):  # the gateway left
                    async for chunk in answer.content.iter_any():
                        said += chunk
                        await passed.write(chunk)
                    await passed.write_eof()
                return passed
        finally:
            if request.path == "/generate":
                self._keep(json.loads(body), said)

    def _keep(self, body: dict[str, Any], said: bytes) -> None:
        for answer in _answers(said):
            meta = answer["meta_info"]
            made = answer["output_ids"]
            versions: list[Any] = [None] * len(made)
            for span in meta["weight_versions"]:
                versions[span["start"] : span["end"]] = [span["version"]] * (span["end"] - span["start"])
            if isinstance(body.get("input_ids"), list) and meta.get("output_token_logprobs") is not None:
                logprobs = [row[0] for row in meta["output_token_logprobs"]]
                assert [row[1] for row in meta["output_token_logprobs"]] == made
                rid = body.get("rid")
                session = str(rid).partition(".")[0]
                call = Call(session, rid, "", body["input_ids"], made, logprobs, versions)
                self.record.calls.append(call)


def _answers(said: bytes) -> list[dict[str, Any]]:
    """Those in a whole reply, or the last of each in a stream."""
    if said.startswith(b"data:"):
        last: dict[int, dict[str, Any]] = {}
        for line in said.split(b"\n"):
            if line.startswith(b"data: {") and line.endswith(b"}"):
                event = json.loads(line[6:])
                if "meta_info" in event:
                    last[event.get("index", 0)] = event
        return [*last.values()]
    try:
        whole = json.loads(said)
    except ValueError:
        return []
    return [answer for answer in (whole if isinstance(whole, list) else [whole]) if "meta_info" in answer]


@asynccontextmanager
async def recording_proxy(engine: str) -> AsyncIterator[RecordingProxy]:
    """A running proxy. A client that leaves it leaves the engine too."""
    unlimited = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=unlimited, connector=connector) as client:
        proxy = RecordingProxy(engine, client)
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", proxy.pass_on)
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        proxy.url = "http://{}:{}".format(*runner.addresses[0][:2])
        try:
            yield proxy
        finally:
            await runner.cleanup()

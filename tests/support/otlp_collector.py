"""A collector of traces on loopback, over HTTP or gRPC, built on OpenTelemetry's own protobufs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from aiohttp import web
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

MOST_S = 60


@dataclass
class Received:
    """One span as it came."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    began_ns: int
    ended_ns: int
    fields: dict[str, object]
    events: list[str]
    links: list[str]
    failed: bool
    service: str
    state: str

    def holds(self, other: Received) -> bool:
        return self.began_ns <= other.began_ns and other.ended_ns <= self.ended_ns


@dataclass
class Collector:
    url: str = ""
    status: int = 200
    """What exports over HTTP are answered with."""
    hold: asyncio.Event | None = None
    """Until it is set, exports wait for their answer."""
    spans: list[Received] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, enough: Callable[[list[Received]], bool]) -> list[Received]:
        """The spans, once they are enough."""
        async with asyncio.timeout(MOST_S):
            while not enough(self.spans):
                self._came.clear()
                await self._came.wait()
        return self.spans

    async def asked(self, times: int) -> None:
        """Wait until so many exports have come, whatever became of them."""
        async with asyncio.timeout(MOST_S):
            while len(self.bodies) < times:
                self._came.clear()
                await self._came.wait()

    async def take(self, body: bytes, headers: dict[str, str]) -> int:
        self.bodies.append(body)
        self.headers.append(headers)
        self._came.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.status == 200:
            self.spans += _spans_in(ExportTraceServiceRequest.FromString(body))
            self._came.set()
        return self.status


def _spans_in(message: ExportTraceServiceRequest) -> list[Received]:
    return [
        Received(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            span.kind,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _fields(span.attributes),
            [event.name for event in span.events],
            [link.trace_id.hex() for link in span.links],
            span.status.code == 2,
            str(_fields(resource.resource.attributes)["service.name"]),
            span.trace_state,
        )
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _fields(attributes) -> dict[str, object]:
    told = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        told[each.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return told


@asynccontextmanager
async def http_collector() -> AsyncIterator[Collector]:
    collector = Collector()

    async def export(request: web.Request) -> web.Response:
        status = await collector.take(await request.read(), dict(request.headers))
        said = ExportTraceServiceResponse().SerializeToString()
        return web.Response(status=status, body=said, content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", export)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        if collector.hold is not None:
            collector.hold.set()
        await runner.cleanup()


@asynccontextmanager
async def grpc_collector() -> AsyncIterator[Collector]:
    collector = Collector()

    class Servicer(trace_service_pb2_grpc.TraceServiceServicer):
        async def Export(self, request, context):  # noqa: N802 - gRPC's name for it
            metadata = {name: str(value) for name, value in context.invocation_metadata()}
            await collector.take(request.SerializeToString(), metadata)
            return ExportTraceServiceResponse()

    server = grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Servicer(), server)
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(0)

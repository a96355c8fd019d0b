"""Envoy's part of ext_proc, played over gRPC: its frames as it sends them, and what it makes of the answers.

A request goes to the worker that it is sent to over a real socket, headers and body as they were changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import grpc
from envoy.config.core.v3.base_pb2 import HeaderMap, HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpBody,
    HttpHeaders,
    ProcessingRequest,
    ProtocolConfiguration,
)

BUFFERED = ProtocolConfiguration(
    request_body_mode=ProcessingMode.BUFFERED, response_body_mode=ProcessingMode.BUFFERED
)
ANY_NAME = re.compile(rb"[:a-z0-9_-]+")
AUTOMATIC = ("accept", "accept-encoding", "content-type", "user-agent")
"""Headers that a client adds by itself."""
FRAMING = ("content-length", "transfer-encoding", "connection", "date", "server")


@dataclass
class Heard:
    """What a client gets."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    at_once: bool = False
    """From the gateway, in place of a worker."""
    pieces: list[bytes] = field(default_factory=list)
    """Of a stream: what each frame was replaced by."""

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)


def headers_message(headers, **more) -> HttpHeaders:
    values = [HeaderValue(key=name, raw_value=value.encode("latin-1")) for name, value in headers]
    return HttpHeaders(headers=HeaderMap(headers=values), **more)


def changed(headers, mutation):
    """Headers after a mutation, as Envoy applies it."""
    headers = [header for header in headers if header[0] not in mutation.remove_headers]
    for option in mutation.set_headers:
        name, value = option.header.key, option.header.raw_value.decode("latin-1")
        assert ANY_NAME.fullmatch(name.encode()) and not option.header.value
        if option.append_action != HeaderValueOption.APPEND_IF_EXISTS_OR_ADD:
            headers = [header for header in headers if header[0] != name]
        headers.append((name, value))
    return headers


def replaced(body: bytes, mutation) -> bytes:
    match mutation.WhichOneof("mutation"):
        case "body":
            return mutation.body
        case "clear_body":
            return b""
    return body


class Envoy:
    """One listener, before one external processor."""

    def __init__(self, channel: grpc.aio.Channel, client: aiohttp.ClientSession) -> None:
        self._stub = external_processor_pb2_grpc.ExternalProcessorStub(channel)
        self._client = client
        self.piece_bytes = 1 << 20
        """Bytes that a frame of a streamed answer has at most."""

    def call(self, metadata=()):
        """One request's conversation, to be had by hand."""
        return self._stub.Process(metadata=tuple(metadata))

    async def ask(
        self, method: str, path: str, headers=(), body: bytes = b"", address: str = "", metadata=()
    ) -> Heard:
        """A whole request; `address`: who asks, as Envoy's attributes say it. `metadata`: the call's own."""
        call = self.call(metadata)
        pseudo = [(":method", method), (":path", path), (":authority", "envoy"), (":scheme", "http")]
        framing = [("content-length", str(len(body)))] if body else []
        head = [*pseudo, *framing, *headers]
        message = ProcessingRequest(
            request_headers=headers_message(head, end_of_stream=not body), protocol_config=BUFFERED
        )
        if address:
            message.attributes["envoy.filters.http.ext_proc"].update({"source.address": address})
        said = await tell(call, message)
        if body and not said.HasField("immediate_response"):
            said = await tell(call, request_body=HttpBody(body=body, end_of_stream=True))
        if said.HasField("immediate_response"):
            return await finished(call, immediate(said))
        common = said.request_body.response
        head, body = changed(head, common.header_mutation), replaced(body, common.body_mutation)
        return await finished(call, await self._carried(call, head, body))

    async def _carried(self, call, head, body) -> Heard:
        given = dict(head)
        headers = [(name, value) for name, value in head if name[0] != ":" and name not in FRAMING]
        url = f"http://{given['x-gateway-destination-endpoint']}{given[':path']}"
        async with self._client.post(
            url, data=body, headers=headers, skip_auto_headers=AUTOMATIC
        ) as response:
            headers = [
                (name.decode().lower(), value.decode("latin-1")) for name, value in response.raw_headers
            ]
            headers = [(":status", str(response.status)), *headers]
            said = await tell(call, response_headers=headers_message(headers))
            if said.HasField("immediate_response"):
                return immediate(said)
            headers = changed(headers, said.response_headers.response.header_mutation)
            if said.mode_override.response_body_mode == ProcessingMode.STREAMED:
                return await self._streamed(call, headers, response)
            assert said.mode_override.response_body_mode == ProcessingMode.BUFFERED
            body = await response.read()
            said = await tell(call, response_body=HttpBody(body=body, end_of_stream=True))
            if said.HasField("immediate_response"):
                return immediate(said)
            common = said.response_body.response
            body = replaced(body, common.body_mutation)
            return heard(changed(headers, common.header_mutation), body)

    async def _streamed(self, call, headers, response) -> Heard:
        pieces = []
        async for chunk in response.content.iter_any():
            for at in range(0, len(chunk), self.piece_bytes):
                piece = chunk[at : at + self.piece_bytes]
                said = await tell(call, response_body=HttpBody(body=piece))
                pieces.append(replaced(piece, said.response_body.response.body_mutation))
        said = await tell(call, response_body=HttpBody(end_of_stream=True))
        pieces.append(replaced(b"", said.response_body.response.body_mutation))
        return heard(headers, b"".join(pieces), pieces=pieces)


async def tell(call, message=None, **kind):
    """The next message, and what is said to it."""
    await call.write(message or ProcessingRequest(**kind))
    said = await call.read()
    assert said is not grpc.aio.EOF
    return said


async def finished(call, answer: Heard) -> Heard:
    """Envoy closes its side, and the other one ends without an error."""
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    return answer


def immediate(said) -> Heard:
    answer = said.immediate_response
    return Heard(answer.status.code, changed([], answer.headers), answer.body, at_once=True)


def heard(headers, body: bytes, **more) -> Heard:
    status = next(int(value) for name, value in headers if name == ":status")
    return Heard(status, [header for header in headers if header[0] != ":status"], body, **more)


@asynccontextmanager
async def envoy_of(gateway) -> AsyncIterator[Envoy]:
    """Envoy before a running gateway whose door is open."""
    async with grpc.aio.insecure_channel(gateway.gateway.ext_proc_server.address) as channel:
        async with aiohttp.ClientSession(auto_decompress=False) as client:
            yield Envoy(channel, client)


CHAT = "/v1/chat/completions"
HEAD = [(":method", "POST"), (":path", CHAT), (":authority", "envoy"), (":scheme", "http")]


def chat(**fields) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}).encode()


async def handed_over(envoy: Envoy, **fields):
    """A call whose chat completion is with its worker."""
    call = envoy.call()
    message = ProcessingRequest(request_headers=headers_message(HEAD), protocol_config=BUFFERED)
    await tell(call, message)
    said = await tell(call, request_body=HttpBody(body=chat(**fields), end_of_stream=True))
    assert said.HasField("request_body")
    return call

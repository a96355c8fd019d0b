"""A request for Anthropic's messages: on to a worker that has them, or as a chat completion and back."""

from __future__ import annotations

import time
from typing import Any, Self

import msgspec

from radixway.api.messages.chat_translation import build_chat_request
from radixway.api.native_surfaces import NativeSurfaces
from radixway.api.request_handler import RequestHandler
from radixway.core.http import HttpError, ReshapedError
from radixway.core.pipeline import Chunks, Next, Pipeline, Reply, Request
from radixway.core.protocols import (
    AnswerDelta,
    AnthropicAdapter,
    EventWriter,
    FinishInfo,
    GeneratedAnswer,
    NormalizedRequest,
    ReplyMetadata,
)
from radixway.core.protocols.base import encode_event
from radixway.core.protocols.completion_parser import CompletionParser, build_finish_info, worker_error

ADAPTER = AnthropicAdapter(takes_images=True)
_REQUEST_ID = b"request-id"
_JSON = (b"content-type", b"application/json")
_EVENTS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
_REWRITTEN = frozenset({b"content-type", b"content-encoding", b"cache-control"})


class MessagesDispatcher:
    """Sends requests down the gateway's pipeline as what they are, or as chat completions."""

    def __init__(self, native: NativeSurfaces, pipeline: Pipeline) -> None:
        """`pipeline`: that of declared endpoints."""
        self._native = native
        self._pipeline = pipeline

    async def __call__(self, request: Request) -> Reply:
        """Return the answer to `request`, as Anthropic writes it. Raises HttpError."""
        if await may_pass(self._native, request):
            return await self._pipeline(request)
        request.journal.add("translated", to="openai.chat")
        ask = ADAPTER.parse_request(request.raw)
        inner = build_chat_request(request, ask)
        try:
            reply = await self._pipeline(inner)
        finally:
            request.routing.metrics_model = inner.routing.metrics_model
            request.routing.resolved_model = inner.routing.resolved_model
        head = ReplyMetadata(request.id, inner.routing.resolved_model or ask.model or "", int(time.time()))
        if reply.chunks is None:
            return _translate_reply(reply, ask, head)
        writer = ADAPTER.create_event_writer(ask, head)
        chunks: Chunks = TranslatedEvents(reply.chunks, writer)
        request.open_streams.append(chunks)
        return Reply(200, [*_EVENTS, *_other_headers(reply)], reply.worker, chunks=chunks)


async def may_pass(native: NativeSurfaces, request: Request) -> bool:
    """Return whether `request` is passed on as it is."""
    path, caller = request.endpoint.path, request.caller
    return await native.may_pass(path, request.model, caller.policy, request.pinned)


class MessagesHandler(RequestHandler):
    """A request handler whose errors are in Anthropic's shape."""

    def shape_error(self, request: Request, error: HttpError) -> HttpError:
        body = ADAPTER.encode_error_body(error)
        event = encode_event(msgspec.json.decode(body), named=True)
        return ReshapedError(error, body, event, [(_REQUEST_ID, request.id.encode("ascii"))])


class RequestIdHeader:
    """A middleware that tells the request's id where Anthropic's clients look for it."""

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        reply = await call_next(request)
        reply.headers = [header for header in reply.headers if header[0] != _REQUEST_ID]
        reply.headers.append((_REQUEST_ID, request.id.encode("ascii")))
        return reply


class TranslatedEvents(Chunks):
    """The events of Anthropic's messages that a streamed chat completion comes to."""

    def __init__(self, chunks: Chunks, writer: EventWriter) -> None:
        self._chunks = chunks
        self._writer = writer
        self._parser = CompletionParser()
        self._state = "new"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._state == "ended":
            raise StopAsyncIteration
        start = self._writer.encode_start() if self._state == "new" else b""
        self._state = "open"
        async for chunk in self._chunks:
            events = start + self._writer.encode_delta(AnswerDelta(self._parser.parse_chunk(chunk)))
            if events:
                return events
        self._state = "ended"
        return start + self._writer.encode_end(_finish_info(self._parser))

    async def aclose(self) -> None:
        await self._chunks.aclose()


def _translate_reply(reply: Reply, ask: NormalizedRequest, head: ReplyMetadata) -> Reply:
    """Return the whole `reply` to a chat completion as Anthropic's. Raises GatewayError: it is a refusal."""
    if reply.status != 200:
        raise worker_error(reply.status, _decode_or_none(reply.body))
    parser = CompletionParser()
    is_stream = any(
        name == b"content-type" and value.startswith(b"text/event-stream") for name, value in reply.headers
    )
    delta = AnswerDelta(parser.parse_chunk(reply.body) if is_stream else parser.parse_reply(reply.body))
    ending, headers = _finish_info(parser), _other_headers(reply)
    if ask.stream:
        writer = ADAPTER.create_event_writer(ask, head)
        body = writer.encode_start() + writer.encode_delta(delta) + writer.encode_end(ending)
        return Reply(200, [*_EVENTS, *headers], reply.worker, body)
    answer = GeneratedAnswer()
    answer.apply_delta(delta)
    body = ADAPTER.encode_reply(ask, head, answer, ending)
    return Reply(200, [_JSON, *headers], reply.worker, body)


def _finish_info(parser: CompletionParser) -> FinishInfo:
    return build_finish_info(parser.finish_reason, parser.usage, parser.stop)


def _other_headers(reply: Reply) -> list[tuple[bytes, bytes]]:
    return [header for header in reply.headers if header[0] not in _REWRITTEN]


def _decode_or_none(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

"""One HTTP request and its answer, over plain ASGI: body in, JSON or server-sent events out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, time
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from radixway.core.http import (
    ClientWatch,
    HttpError,
    Receive,
    ReshapedError,
    Scope,
    Send,
    choose_request_id,
    read_body,
)
from radixway.core.telemetry.tracing import CallerSpan, TraceRecord, parse_caller_span
from radixway.engine.errors import (
    ContextLengthError,
    EngineError,
    EngineQueueFullError,
    EngineStoppedError,
    InvalidRequestError,
)
from radixway.engine.generation_stream import GenerationStream

encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class TracedRequest:
    """An HTTP request while it is answered, for its trace."""

    trace: TraceRecord
    generations: Sequence[GenerationStream] = ()
    began_at: float = field(default_factory=time)
    origin: float = field(default_factory=perf_counter)


class HttpExchange:
    """An endpoint's view of its request, and its means to answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, max_body_bytes: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.request_id = choose_request_id(dict(scope["headers"]).get(b"x-request-id"))
        """The client's `x-request-id`, or one of ours."""
        self.traced: TracedRequest | None = None
        """Set if the request is traced."""
        self.shape_error: Callable[[HttpError], HttpError] | None = None
        """Gives an error its protocol's form, where that is not OpenAI's."""
        self.encode_failure: Callable[[HttpError], bytes] | None = None
        """Makes the last events of a stream that an error breaks off, where they are not OpenAI's."""
        self.arrived_at = 0.0
        """When its body had been read, as `perf_counter` reads."""
        self.body_bytes = 0
        self.started = False
        self.status = 499
        """Status of the answer; 499 (client closed request) before it."""
        self.ended_at = 0.0
        """End of the answer, as `perf_counter` reads; 0 before that."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._watch: ClientWatch | None = None

    @property
    def caller(self) -> CallerSpan | None:
        """The span that it comes from, if it says so."""
        return parse_caller_span(self._scope["headers"])

    def get_header(self, name: bytes) -> str:
        """A header's value by its name in lower case; empty without it."""
        value: bytes = dict(self._scope["headers"]).get(name, b"")
        return value.decode("latin-1")

    @property
    def query(self) -> dict[str, str]:
        """The query string's fields; of one that comes twice, the last."""
        return dict(parse_qsl(self._scope["query_string"].decode("latin-1"), keep_blank_values=True))

    async def read_body(self) -> bytes:
        """The whole body. Raises BadBodyError (413) if it is too large, ClientDisconnectedError."""
        body = await read_body(self._scope, self._receive, self._max_body_bytes)
        self.arrived_at, self.body_bytes = perf_counter(), len(body)
        return body

    def watch_disconnect(self) -> ClientWatch:
        """Cancel this task if the client leaves before the end of its answer; once the body has been read."""
        self._watch = ClientWatch()
        self._watch.watch(self._receive)
        return self._watch

    async def send_json(self, reply: Any) -> None:
        """Answer with `reply` as JSON."""
        await self.send_whole(encode(reply), content_type=b"application/json")

    async def send_whole(self, body: bytes, *, content_type: bytes) -> None:
        """Answer with the document `body` of any type."""
        await self._send_document(200, [(b"content-type", content_type)], body)

    async def send_events(self, events: bytes) -> None:
        """Write server-sent events, the first of which start the answer."""
        await self._start_events()
        await self._send({"type": "http.response.body", "body": events, "more_body": True})

    async def end_events(self, events: bytes) -> None:
        """Write the last events of the answer."""
        await self._start_events()
        await self._finish_response(events)

    async def send_error(self, error: HttpError) -> None:
        """Answer with an error; a stream that has begun ends with it as its last event."""
        if self.started:
            failure = error.event() if self.encode_failure is None else self.encode_failure(error)
            await self.end_events(failure)
        else:
            error = error if self.shape_error is None else self.shape_error(error)
            await self._send_document(error.status, error.headers(), error.body())

    async def _send_document(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        await self._start_response(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self._finish_response(body)

    async def _start_events(self) -> None:
        if not self.started:
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-cache"),
            ]
            await self._start_response(200, headers)

    async def _finish_response(self, body: bytes) -> None:
        self.ended_at = perf_counter()
        if self._watch is not None:
            self._watch.stop_watching()  # from here on, that the connection ends is no news
        await self._send({"type": "http.response.body", "body": body})

    async def _start_response(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        self.status = status
        request_id = (b"x-request-id", self.request_id.encode("ascii"))
        await self._send({"type": "http.response.start", "status": status, "headers": [request_id, *headers]})


def to_http_error(error: EngineError, *, field_names: dict[str, str] | None = None) -> HttpError:
    """The HTTP error for `error`; `field_names` are the protocol's own names of the engine's fields."""
    if isinstance(error, InvalidRequestError):
        wire_name = (field_names or {}).get(error.field, error.field)
        code = "context_length_exceeded" if isinstance(error, ContextLengthError) else "invalid_value"
        message = str(error)
        if message.startswith(f"{error.field} "):
            message = wire_name + message.removeprefix(error.field)
        return HttpError(message, status=400, param=wire_name, code=code)
    if isinstance(error, EngineQueueFullError):
        return HttpError(str(error), status=429, code="queue_full", retry_after_s=1)
    if isinstance(error, EngineStoppedError):
        return HttpError(str(error), status=503, code="engine_unavailable", retry_after_s=5)
    return HttpError(str(error), status=500, code="engine_failed")


def weight_update_error(error: HttpError) -> HttpError:
    """`error` of a call that updates the weights: SGLang's clients look at `success` and `message`."""
    fields = msgspec.json.decode(error.body()) | {"success": False, "message": error.client_message}
    return ReshapedError(error, encode(fields))

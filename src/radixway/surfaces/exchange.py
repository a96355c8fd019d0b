"""One HTTP exchange on the hot path: bytes in, the pipeline, bytes out. Raw ASGI."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Protocol

from radixway.pipeline import (
    BadRequest,
    DeadlineExceeded,
    GatewayError,
    MethodNotAllowed,
    Pipeline,
    Reply,
    Request,
    StreamBroken,
)
from radixway.telemetry import Journal, JournalBook, Metrics
from radixway.web import BadBody, ClientGone, ClientWatch, Receive, Scope, Send, read_body

log = logging.getLogger(__name__)


class Surface(Protocol):
    """One wire protocol: how its bodies are read and how it says that something went wrong."""

    name: str

    def read(self, raw: bytes) -> tuple[str | None, bool]:
        """The model asked for and whether to stream. Raises BadBody naming the field at fault."""
        ...

    def error(self, error: GatewayError) -> bytes:
        """The body of an error reply."""
        ...

    def error_event(self, error: GatewayError) -> bytes:
        """A server-sent event that ends a stream in error."""
        ...


class Exchange:
    """An ASGI application that takes requests of one surface through the pipeline."""

    def __init__(
        self,
        surface: Surface,
        pipeline: Pipeline,
        metrics: Metrics,
        book: JournalBook,
        *,
        max_body_bytes: int,
        timeout_s: float,
    ) -> None:
        self._surface = surface
        self._pipeline = pipeline
        self._metrics = metrics
        self._book = book
        self._max_body_bytes = max_body_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, headers = _read_headers(scope["headers"])
        journal = Journal(request_id)
        answer = _Answer(send, journal)
        watch: ClientWatch | None = None
        model = "unknown"
        reply: Reply | None = None
        try:
            if scope["method"] not in ("POST", "PUT"):
                raise MethodNotAllowed(f"{scope['path']} takes POST, not {scope['method']}")
            raw = await read_body(scope, receive, self._max_body_bytes)
            asked, stream = self._surface.read(raw)
            journal.add("receive", surface=self._surface.name, model=asked, stream=stream, bytes=len(raw))
            watch = ClientWatch(receive, self._timeout_s)
            path, query = scope["path"], scope["query_string"]
            request = Request(
                id=request_id,
                surface=self._surface.name,
                path=f"{path}?{query.decode('latin-1')}" if query else path,
                raw=raw,
                model=asked,
                stream=stream,
                journal=journal,
                deadline=watch.deadline,
                headers=headers,
            )
            reply = await self._pipeline(request)
            model = asked or "default"
            await answer.send_reply(reply)
        except ClientGone:
            pass
        except BadBody as error:
            await self._fail(answer, journal, BadRequest.of(error))
        except GatewayError as error:
            await self._fail(answer, journal, error)
        except asyncio.CancelledError:
            if watch is None or watch.ended_by is None:
                raise  # the server itself is stopping
            watch.uncancel()
            if watch.ended_by == "deadline":
                slow = DeadlineExceeded(f"no answer within {self._timeout_s:g} s")
                await self._fail(answer, journal, slow)
            elif not answer.ended:
                journal.add("client_left")
                self._metrics.disconnects.inc()
        except Exception as error:  # the rim: a defect of ours must not take the connection down
            log.exception("request %s met a defect of the gateway", request_id)
            await self._fail(answer, journal, GatewayError(f"internal error ({type(error).__name__})"))
        finally:
            if watch is not None:
                watch.close()
            if reply is not None and reply.chunks is not None:
                await reply.chunks.aclose()
            journal.add("end", status=answer.status)
            self._book.keep(journal)
            self._metrics.answered(
                self._surface.name, model, answer.status, answer.first_byte_s, journal.elapsed_s()
            )

    async def _fail(self, answer: _Answer, journal: Journal, error: GatewayError) -> None:
        journal.add("error", code=error.code, status=error.status, message=str(error))
        if isinstance(error, StreamBroken):
            self._metrics.broken_streams.inc()
        if answer.started:
            await answer.end_stream(self._surface.error_event(error))
        else:
            await answer.send_error(error, self._surface.error(error))


class _Answer:
    """What has been sent of the answer."""

    __slots__ = ("_journal", "_send", "ended", "first_byte_s", "started", "status")

    def __init__(self, send: Send, journal: Journal) -> None:
        self._send = send
        self._journal = journal
        self.started = False
        self.ended = False
        self.status = 499
        """The status sent; 499 (client closed request) while none was."""
        self.first_byte_s = 0.0

    async def send_reply(self, reply: Reply) -> None:
        """Send a reply, a stream chunk by chunk as it comes."""
        headers = reply.headers
        headers.append((b"x-radixway-worker", reply.worker.encode("latin-1")))
        if reply.chunks is None:
            await self._send_whole(reply.status, headers, reply.body)
            return
        await self._start(reply.status, headers)
        await reply.chunks.pass_on(self._send_chunk)
        await self._end(b"")

    async def send_error(self, error: GatewayError, body: bytes) -> None:
        """Send an error as the whole answer."""
        headers = [(b"content-type", b"application/json")]
        if error.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % error.retry_after_s))
        await self._send_whole(error.status, headers, body)

    async def end_stream(self, event: bytes) -> None:
        """End a stream that has begun with a last event."""
        await self._end(event)

    async def _send_chunk(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _send_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        headers.append((b"content-length", b"%d" % len(body)))
        await self._start(status, headers)
        await self._end(body)

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        self.status = status
        self.first_byte_s = self._journal.elapsed_s()
        headers.append((b"x-request-id", self._journal.request_id.encode("ascii")))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _end(self, body: bytes) -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


# Believed only from a trusted hop, or about a connection that ends here.
_STRIPPED = (
    b"x-forwarded-",
    b"x-real-ip",
    b"x-tenant-id",
    b"x-vsr-",
    b"x-radixway-",
    b"x-worker-",
    b"x-prefill-",
)
_PASSED = frozenset({b"accept", b"traceparent", b"tracestate"})


def _read_headers(raw: list[tuple[bytes, bytes]]) -> tuple[str, tuple[tuple[bytes, bytes], ...]]:
    """The request's id (the client's, or a fresh one) and the headers that travel on to the worker."""
    request_id = ""
    passed = []
    for header in raw:
        name = header[0]
        if name == b"x-request-id":
            request_id = header[1].decode("latin-1")
        elif name in _PASSED or (name[:2] == b"x-" and not name.startswith(_STRIPPED)):
            passed.append(header)
    if not (0 < len(request_id) <= 128 and request_id.isascii() and request_id.isprintable()):
        request_id = uuid.uuid4().hex
    return request_id, tuple(passed)

"""The handler of one HTTP request on the hot path: bytes in, the pipeline, bytes out."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from msgspec import UNSET

from radixway.api.authentication import CallerAuthenticator
from radixway.api.request_headers import apply_gateway_headers, read_headers
from radixway.api.request_log import export_request_trace, log_request, summarize_request
from radixway.core.http import (
    AsgiExchange,
    ClientDisconnectedError,
    ClientWatch,
    HttpError,
    HttpExchange,
    LoopGuard,
    MethodNotAllowedError,
    Receive,
    RequestDeadlines,
    Scope,
    Send,
    ServerStoppingError,
    is_server_stopping,
    parse_form,
)
from radixway.core.http.asgi import FORWARDER
from radixway.core.http.exchange import Headers
from radixway.core.pipeline import (
    DeadlineExceededError,
    Endpoint,
    GatewayError,
    InFlightRequests,
    Pipeline,
    ReceivedRequest,
    Reply,
    Request,
    RoutingContext,
    StreamBrokenError,
    SubjectErasedError,
)
from radixway.core.pipeline.endpoints.large_bodies import LARGE_BODY_BYTES
from radixway.core.telemetry import Journal, JournalStore, MetricsRegistry
from radixway.core.telemetry.trace_record import CallerSpan
from radixway.core.telemetry.tracing import RequestTracer, split_trace_headers
from radixway.core.work_slices import run_in_slices
from radixway.routing import DefaultModelResolver

log = logging.getLogger(__name__)


CALLER_SPAN = "radixway.caller"
"""Scope key of the caller's span (`CallerSpan`), set by a trusted server."""


_MAX_NOTE_CHARS = 500
"""Characters of an error's message in its journal."""

CLIENT_LEFT = 499
"""Client closed request: the status of requests without a response."""

_WITHOUT_CONTENT = frozenset({204, 304})
"""Statuses of replies that end with their head and tell no length (RFC 9110, section 8.6)."""

_SEND_ERROR_TIMEOUT_S = 5.0
"""Time for a client to read that its request failed."""


class RequestHandler:
    """Takes requests of one endpoint through the pipeline; also an ASGI application."""

    def __init__(
        self,
        endpoint: Endpoint,
        pipeline: Pipeline,
        metrics: MetricsRegistry,
        book: JournalStore,
        via: LoopGuard,
        callers: CallerAuthenticator,
        in_hand: InFlightRequests,
        default_model: DefaultModelResolver,
        tracing: RequestTracer | None = None,
        *,
        max_body_bytes: int,
        timeout_s: float,
    ) -> None:
        self._endpoint = endpoint
        self._chain = pipeline.chain_of(endpoint)
        self._metrics = metrics
        self._book = book
        self._via = via
        self._callers = callers
        self._in_flight = in_hand
        self._models = default_model
        self._tracing = tracing
        self._max_body_bytes = max_body_bytes
        self._deadlines = RequestDeadlines(timeout_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.answer(AsgiExchange(scope, receive, send))

    async def answer(self, exchange: HttpExchange) -> None:
        """Answer the request of `exchange`."""
        scope = exchange.scope
        request_id, headers, own = read_headers(scope["headers"])
        caller = None
        if self._tracing is not None:
            caller, headers = split_trace_headers(headers)
        request = Request(
            id=request_id,
            endpoint=self._endpoint,
            path=_path_with_query(scope),
            journal=Journal(request_id),
            headers=headers,
            routing=RoutingContext(scope.get(FORWARDER)),
        )
        if self._tracing is not None:
            caller = scope.get(CALLER_SPAN) or caller
            believed = CALLER_SPAN in scope or not self._callers.any
            request.journal.trace = self._tracing.start_trace(caller, believed=believed)
        self._in_flight.add_request(request)
        try:
            await self._answer_request(request, exchange, caller, own)
        finally:
            self._in_flight.remove_request(request)

    async def _answer_request(
        self,
        request: Request,
        exchange: HttpExchange,
        caller: CallerSpan | None,
        own: dict[bytes, bytes],
    ) -> None:
        """Answer `request`, which has `own` headers for the gateway, and store what it leaves.

        `caller`: the span that sent it, believed or not.
        """
        scope = exchange.scope
        sent = _ResponseSender(exchange, request.journal)
        watch = ClientWatch(self._deadlines, exchange.task)
        failure: HttpError | None = None
        try:
            if (
                await self._read_request(request, exchange)
                and caller is not None
                and self._tracing is not None
            ):
                request.journal.trace = self._tracing.start_trace(caller, believed=True)
            if own:
                apply_gateway_headers(request, own)
            exchange.watch_client(watch)
            await sent.send_reply(await self._chain(request))
        except ClientDisconnectedError:
            self._note_client_left(request)
        except HttpError as error:
            # Its traceback has this frame, which has it: bodies would stay until a garbage collection.
            failure = error.with_traceback(None)
        except asyncio.CancelledError:
            if watch.ended_by is None and not is_server_stopping(scope):
                raise
            watch.uncancel()
            if watch.ended_by is None:
                failure = ServerStoppingError()
            elif watch.ended_by == "deadline":
                failure = DeadlineExceededError(f"no answer within {self._deadlines.timeout_s:g} s")
            elif not sent.ended:
                self._note_client_left(request)
        except Exception as error:  # an unexpected error must not take the connection down
            log.exception("request %s failed unexpectedly", request.id)
            failure = GatewayError(f"internal error ({type(error).__name__})")
        finally:
            watch.stop_watching()
            for chunks in request.open_streams:
                await chunks.aclose()
        if failure is not None:
            await self._send_failure(request, sent, failure)
        request.journal.add(
            "end", summarize_request(request, sent.status, sent.first_byte_s, sent.last_byte_s)
        )
        self._book.save_journal(request.journal)
        code = None if failure is None else failure.code
        if request.journal.is_traced:
            export_request_trace(
                self._tracing, request, scope["method"], scope["path"], sent.status, sent.first_byte_s, code
            )
        log_request(request, sent.status, sent.first_byte_s, code)
        self._record_metrics(request, sent, failure)

    async def _read_request(self, request: Request, exchange: HttpExchange) -> bool:
        """Fill in the caller and the fields of the body; return whether routing headers are trusted.

        The caller is known from the head: without a required key the body is not read. Raises HttpError,
        ClientDisconnectedError.
        """
        scope = exchange.scope
        if scope["method"] not in self._endpoint.methods:
            allowed = ", ".join(self._endpoint.methods)
            raise MethodNotAllowedError(scope["path"], scope["method"], allowed)
        self._via.check_loop(scope)
        trusted = self._callers.any and self._callers.authenticate(request, scope)
        request.journal.tenant, request.journal.user = request.caller.tenant, request.caller.user
        raw = await exchange.read_body(self._max_body_bytes)
        if self._endpoint.takes_forms:
            request.content_type = _content_type(scope)
            request.form = parse_form(raw, request.content_type)
            parsed = self._endpoint.read_form(request.form)
        elif len(raw) < LARGE_BODY_BYTES:
            parsed = self._endpoint.read(raw)
        else:
            parsed = await run_in_slices(self._endpoint.read_in_slices(raw))
        model, stream = parsed.model, parsed.stream
        priority, ttft_slo_ms = parsed.priority, parsed.ttft_slo_ms
        request.raw, request.model, request.stream, request.rids = raw, model, stream, parsed.rids
        if (
            model is not None
            and (named := self._models.resolve_model(model, request.caller.policy, request)) is not None
        ):
            request.model = named
            request.edit(model=named)
        request.claimed_user, request.answers = parsed.user, parsed.answers
        if request.rids:
            self._in_flight.add_rids(request)
        request.journal.user = request.caller.user or request.claimed_user
        request.journal.add("receive", ReceivedRequest(self._endpoint.name, model, stream, len(raw)))
        if priority is not None:
            request.priority = priority
        if ttft_slo_ms is not None:
            request.ttft_s = ttft_slo_ms / 1e3
            request.edit(ttft_slo_ms=UNSET)
        if parsed.max_staleness is not None or parsed.min_weight_version is not None:
            request.max_staleness = parsed.max_staleness
            min_version = parsed.min_weight_version
            request.min_weight_version = None if min_version is None else str(min_version)
            request.edit(max_staleness=UNSET, min_weight_version=UNSET)
        if parsed.vllm_xargs is not None:
            request.edit(vllm_xargs=parsed.vllm_xargs or UNSET)
        if request.journal.is_erased:
            raise SubjectErasedError
        if trusted:
            self._callers.apply_overrides(request, scope)
        if request.caller.policy is not None:
            request.note_parsed(parsed)  # the edits above change none of its figures
        return bool(trusted)

    def _record_metrics(self, request: Request, sent: _ResponseSender, failure: HttpError | None) -> None:
        surface, model = self._endpoint.name, request.routing.metrics_model
        exchanges = self._metrics.exchanges
        exchanges.record_completed(
            surface,
            model,
            sent.status,
            sent.first_byte_s,
            request.journal.elapsed_s(),
            tenant=None if request.caller.policy is None else request.caller.policy.name,
            trace_id=request.journal.trace_id,
        )
        if failure is not None:
            exchanges.record_error(surface, model, failure.code or "unknown")
        elif sent.status >= 400 and sent.status != CLIENT_LEFT:
            kind = f"worker_{sent.status // 100}xx" if request.routing.attempted_workers else "refused"
            exchanges.record_error(surface, model, kind)

    async def _send_failure(self, request: Request, sent: _ResponseSender, error: HttpError) -> None:
        details: dict[str, Any] = {"code": error.code, "status": error.status, "param": error.param}
        if not error.quotes:
            details["message"] = str(error)[:_MAX_NOTE_CHARS]
        request.journal.add("error", **details)
        if isinstance(error, StreamBrokenError):
            self._metrics.exchanges.broken_streams.value += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEND_ERROR_TIMEOUT_S):
                await sent.send_error(self.shape_error(request, error))

    def shape_error(self, request: Request, error: HttpError) -> HttpError:
        """Return `error` in the shape of the endpoint's clients, by default OpenAI's."""
        return error

    def _note_client_left(self, request: Request) -> None:
        request.journal.add("client_left")
        self._metrics.exchanges.disconnects.value += 1


class _ResponseSender:
    """Sends the answer and knows what was sent."""

    __slots__ = ("_exchange", "_journal", "ended", "first_byte_s", "last_byte_s", "started", "status")

    def __init__(self, exchange: HttpExchange, journal: Journal) -> None:
        self._exchange = exchange
        self._journal = journal
        self.started = False
        self.ended = False
        self.status = CLIENT_LEFT
        """The status sent; this one while none was."""
        self.first_byte_s: float | None = None
        self.last_byte_s: float | None = None

    async def send_reply(self, reply: Reply) -> None:
        """Send `reply`. Raises what its stream raises."""
        headers = reply.headers
        headers.append((b"x-radixway-worker", reply.worker.encode("latin-1")))
        if reply.chunks is None:
            await self._send_complete(reply.status, headers, reply.body)
            return
        self._note_start(reply.status, headers)
        await self._exchange.send_start(reply.status, headers)
        await reply.chunks.pass_on(self._exchange.send_chunk)
        self.ended = True
        self.last_byte_s = self._journal.elapsed_s()
        await self._exchange.send_end(b"")

    async def send_error(self, error: HttpError) -> None:
        """Send an error as the whole answer, or as the last event of a stream that has begun."""
        if not self.started:
            await self._send_complete(error.status, error.headers(), error.body())
        elif not self.ended:
            self.ended = True
            self.last_byte_s = self._journal.elapsed_s()
            await self._exchange.send_end(error.event())

    async def _send_complete(self, status: int, headers: Headers, body: bytes) -> None:
        if status in _WITHOUT_CONTENT:
            body = b""  # a client would read it as the next answer
        else:
            headers.append((b"content-length", b"%d" % len(body)))
        self._note_start(status, headers)
        self.ended = True
        self.last_byte_s = self.first_byte_s
        await self._exchange.send_complete(status, headers, body)

    def _note_start(self, status: int, headers: Headers) -> None:
        self.started = True
        self.status = status
        self.first_byte_s = self._journal.elapsed_s()
        headers.append((b"x-request-id", self._journal.request_id.encode("ascii")))


def _content_type(scope: Scope) -> bytes:
    return next((value for name, value in scope["headers"] if name == b"content-type"), b"")


def _path_with_query(scope: Scope) -> str:
    path: str = scope["path"]
    query: bytes = scope["query_string"]
    return f"{path}?{query.decode('latin-1')}" if query else path

"""HTTP/1.1 of uvicorn's, with bounds on what a client may send and how long it may take."""

import asyncio
from functools import partial
from typing import Any

import httptools
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from radixway.core.http.asgi import App, Receive, Scope, Send
from radixway.core.http.closable_protocol import ClosableHttpProtocol
from radixway.core.http.connections import STATE, ConnectionState, ServerStoppingError, uncancel_at_end
from radixway.core.http.direct_exchange import DirectExchange, DirectHandlers
from radixway.core.http.errors import HttpError, send_error
from radixway.core.http.exchange import send_exchange_error
from radixway.core.http.head_limit import HeadLimit, HeadTooLargeError
from radixway.core.http.request_body import IncomingBody
from radixway.core.http.request_head import find_head_error

_MAX_PIPELINED = 16
_MAX_PIPELINED_BODY_BYTES = 64 * 2**10
"""Limit for pipelined requests; more is not answered on this connection."""
_UNREAD_BYTES = 16 * 2**10
"""A reply of at most this much fits into the buffers of a connection on which nothing else is unread."""


class HttpProtocol(ClosableHttpProtocol):
    """Serves a connection.

    - A head is bounded while it is parsed (431), and in time (408); bodies by `IncomingBody`.
    - A client that reads nothing of its answers for too long is cut off.
    - Where too many are open, one that is idle is closed for a new one, or the new one refused (503).
    - It goes on reading while an answer is under way, so that a client that leaves is noticed at once,
      whatever it has sent after its request.
    - An offer to upgrade is declined by taking no notice of it, but to a WebSocket: uvicorn goes on without
      the body of such a request, and curl and some proxies offer HTTP/2 with each.
    """

    def __init__(
        self, *args: Any, state: ConnectionState, handlers: DirectHandlers | None = None, **more: Any
    ) -> None:
        """`handlers`: what is answered without ASGI."""
        super().__init__(*args, state=state, **more)
        self._handlers = handlers or {}
        self._arriving: DirectExchange | None = None
        """A request for one of `handlers`, until its body is there."""
        self._head = HeadLimit(state.limits.max_header_bytes, state.limits.max_header_count)
        self._head_error: HttpError | None = None
        """Why the head that has come last is refused: httptools replaces what a callback raises."""
        self._unfinished: IncomingBody | None = None
        """Its body, if it was not complete at the start."""
        self._is_refused = False

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._state.admit_connection(len(self.connections)):
            self._state.idle[self] = None
            self._start_head_timer()
        elif self._state.may_send_refusal():
            self._is_refused = True
            self._state.refused += 1
            self._reply_and_close(
                HttpError(
                    "the server has as many connections as it may: try again",
                    status=503,
                    code="too_many_connections",
                    retry_after_s=1,
                )
            )
        else:
            self._discards_input = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all whose request is not answered; uvicorn tells the last of them."""
        self._state.forget_connection(self)
        self._arriving = None
        self._cancel_timer()
        self._cancel_send_timer()
        if self._is_refused:
            self._is_refused = False
            self._state.refused -= 1
        for cycle in (self._running, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)
        self.cycle = self._running = None  # type: ignore[assignment]  # each refers to this connection

    def eof_received(self) -> None:
        """End an answer under way, as who sends no more has left: what is written waits for no reader."""
        if self._running is not None and not self._running.response_complete:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._discards_input:
            self._discard_bytes(len(data))
            return
        if self._running is None:
            self._state.end_idleness(self)
        try:
            self._head.feed_parser(self.parser, data)
        except httptools.HttpParserUpgrade as offer:
            if self._opens_websocket():
                self.handle_websocket_upgrade()
                return
            self._restart_parser(data[offer.args[0] :])
        except httptools.HttpParserError:
            self._arriving = None
            self._refuse_input()
        if self._arriving is not None:
            self._answer_by_asgi(self._arriving)
        if self._running is None and self._timer is None:
            self._start_head_timer()

    def handle_websocket_upgrade(self) -> None:
        """The connection is another protocol's from here on."""
        self._cancel_timer()
        self._cancel_send_timer()
        self._state.forget_connection(self)
        self._batch.flush()
        super().handle_websocket_upgrade()

    def shutdown(self) -> None:
        self._batch.flush()
        super().shutdown()

    # What the parser tells.

    def on_message_begin(self) -> None:
        self._head.begin_message()
        self._in_head = True
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
            "state": {},
            STATE: self._state,  # type: ignore[misc]
        }

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, of which nothing is kept: by then the headers have been acted on."""
        if not self._in_head:
            self._head.add_header(name, value)
            cycle = self._arriving or self.cycle
            if name.lower() == b"connection" and cycle is not None and not self._discards_input:
                cycle.keep_alive = False  # the parser has taken it for a header
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = self.parser.get_http_version() != "1.0"
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Begin to answer, or queue the request behind the one being answered."""
        self._head.end_head(self.url, self.headers)
        self._in_head = False
        if self.parser.should_upgrade() and not self._opens_websocket():
            return
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._stop_reading_requests()
        if self._discards_input:
            return
        self._head_error = find_head_error(self.headers, self.parser.get_http_version())
        if self._head_error is not None:
            raise httptools.HttpParserError(str(self._head_error))
        handler = self._handlers.get(self.url)
        if handler is not None and self._running is None and self._is_plain_post():
            path = self.url.decode("ascii")
            self.scope |= {"method": "POST", "path": path, "raw_path": self.url, "query_string": b""}
            scope: Any = self.scope
            if handler.may_answer(scope):
                self._arriving = DirectExchange(
                    handler,
                    scope,
                    self.transport,
                    self._batch,
                    self.flow,
                    self._state.render_default_headers(self.server_state.default_headers),
                    self._on_direct_response,
                    keep_alive=self.parser.should_keep_alive(),
                )
                return
        super().on_headers_complete()
        if self.pipeline:
            self.flow.resume_reading()  # else a client that leaves would go unnoticed

    def on_body(self, body: bytes) -> None:
        self._head.mark_progress()
        if self._arriving is not None:
            self._arriving.parts.append(body)
            return
        if self._discards_input:
            return
        super().on_body(body)
        if self.pipeline and sum(len(cycle.body) for cycle, _ in self.pipeline) > _MAX_PIPELINED_BODY_BYTES:
            self._stop_reading_requests()

    def on_message_complete(self) -> None:
        self._head.mark_progress()
        if self._arriving is not None:
            self._answer_directly(self._arriving)
        elif not self._discards_input and not self.parser.should_upgrade():
            super().on_message_complete()

    # Requests and their answers.

    def _is_plain_post(self) -> bool:
        """Return whether the request is the kind that nearly all are."""
        return (
            self.parser.get_method() == b"POST"
            and not (self.expect_100_continue or self.parser.should_upgrade())
            and self.parser.get_http_version() == "1.1"
        )

    def _answer_directly(self, exchange: DirectExchange) -> None:
        """Answer a request whose body is complete."""
        self._arriving = None
        self.cycle = exchange  # type: ignore[assignment]
        self._begin_answer(exchange)
        exchange.task = self.loop.create_task(self._run_handler(exchange))
        self.tasks.add(exchange.task)

    def _answer_by_asgi(self, exchange: DirectExchange) -> None:
        """The rest of the body has not come yet: that is watched where bodies are received in pieces."""
        self._arriving = None
        super().on_headers_complete()
        for part in exchange.parts:
            super().on_body(part)

    def _begin_answer(self, cycle: RequestResponseCycle | DirectExchange) -> None:
        self._running = cycle
        self._state.forget_connection(self)
        if self._timer is not None:
            self._cancel_timer()
        if self._reading_timer is not None and not self.flow.write_paused:
            self._cancel_send_timer()

    async def _run_handler(self, exchange: DirectExchange) -> None:
        """Run the handler; answer with an exception that is meant for the client."""
        try:
            await exchange.handler.answer(exchange)
            if not (exchange.response_complete or exchange.disconnected):
                raise RuntimeError("a handler returned without a whole reply")
        except (Exception, asyncio.CancelledError) as error:
            is_ending = self._state.is_ending
            if isinstance(error, asyncio.CancelledError):
                uncancel_at_end(exchange.scope)
            if not isinstance(error, HttpError) and not is_ending:
                self.logger.error("a handler failed", exc_info=error)
                error = HttpError("internal error")
            if not exchange.response_started:
                await send_exchange_error(
                    exchange, error if isinstance(error, HttpError) else ServerStoppingError()
                )
            elif not exchange.response_complete:
                self._close_transport()
                exchange.disconnected = True
        finally:
            self.tasks.discard(exchange.task)
            exchange.task = None

    def _on_direct_response(self, size: int) -> None:
        self.on_response_complete()
        if size > _UNREAD_BYTES and self._reading_timer is None:
            self.loop.call_soon(self._watch_unread)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: App) -> None:  # type: ignore[override]
        self._begin_answer(cycle)
        super()._start_asgi_task(cycle, partial(self._run_application, cycle, app))

    async def _run_application(
        self, cycle: RequestResponseCycle, app: App, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Run the application; answer with an exception that is meant for the client."""
        body = None
        if cycle.more_body:
            self._unfinished = body = IncomingBody(cycle, self._state)
            receive, send = body.receive, body.send
        try:
            await app(scope, receive, send)
        except ClientDisconnect:  # in the middle of its body
            if not cycle.disconnected:
                raise
        except (Exception, asyncio.CancelledError) as error:
            is_ending = self._state.is_ending
            if isinstance(error, asyncio.CancelledError):
                uncancel_at_end(scope)
            if not isinstance(error, HttpError) and not is_ending:
                raise
            if not cycle.response_started:
                await send_error(
                    scope, send, error if isinstance(error, HttpError) else ServerStoppingError()
                )
            elif not is_ending:
                raise
            elif not cycle.response_complete:
                self.transport.close()
                cycle.disconnected = True
        finally:
            if body is not None:
                body.release_memory()

    def on_response_complete(self) -> None:
        """Go on with the next request, or end the connection where this one's body is still coming."""
        cycle, self._running = self._running, None
        body, self._unfinished = self._unfinished, None
        is_last = (cycle is not None and cycle.more_body) or (body is not None and body.ends_connection)
        if (is_last or self._discards_input) and not self.transport.is_closing():
            self.server_state.total_requests += 1
            self._close_when_read()
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._watch_unread()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())  # type: ignore[arg-type]
            return
        self._state.keep_alive(self)
        self._watch_unread()

    # What is refused.

    def _refuse_input(self) -> None:
        """Refuse the request being read after a parse error, unless it is being answered."""
        running = self._running
        if running is not None and not (running.more_body and running is self.cycle):
            self._stop_reading_requests()
        elif running is not None and running.response_started:
            self._close_transport()
        else:
            if running is not None:  # its body cannot be read; it is answered here
                running.disconnected = True
                running.message_event.set()
                self._running = None
            error = self._head_error
            if error is None:
                error = HttpError("this is no HTTP request", status=400, code="invalid_request")
            if isinstance(self._head.error, HeadTooLargeError):
                self._state.counts.large_heads += 1
                error = HttpError(str(self._head.error), status=431, code="head_too_large")
            self._reply_and_close(error)

    # Offers to upgrade.

    def _opens_websocket(self) -> bool:
        """Return whether the request opens a WebSocket: a GET that is not behind an unanswered request."""
        return self._running is None and self.parser.get_method() == b"GET" and bool(self._should_upgrade())

    def _restart_parser(self, rest: bytes) -> None:
        """Give a new parser the request without its upgrade offer: the old one stopped before the body."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._reply_and_close(HttpError("this server is no proxy", status=400, code="invalid_request"))
            return
        head = b"%b %b HTTP/%b\r\n" % (method, self.url, self.parser.get_http_version().encode())
        for name, value in self.headers:
            if name == b"connection" and b"close" in _options(value):
                head += b"connection: close\r\n"
            elif name not in (b"upgrade", b"connection", b"http2-settings"):
                head += b"%b: %b\r\n" % (name, value)
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"%b\r\n%b" % (head, rest))


def _options(value: bytes) -> list[bytes]:
    """Return the options of a `Connection` header, in lower case."""
    return [option.strip() for option in value.lower().split(b",")]

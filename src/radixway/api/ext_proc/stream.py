"""The messages of Envoy about one request, from its head to the last byte of its reply."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import HttpBody, HttpHeaders, ProcessingRequest

from radixway.api.ext_proc import messages
from radixway.api.ext_proc.answer import BodyFrame, EnvoyAnswer
from radixway.api.ext_proc.exchange import EnvoyExchange
from radixway.api.ext_proc.forwarder import DestinationResolver, EnvoyForwarder
from radixway.api.ext_proc.grpc_server import GrpcCall
from radixway.api.ext_proc.messages import RequestHead
from radixway.api.request_handler import CALLER_SPAN, RequestHandler
from radixway.core.config import ExtProcConfig
from radixway.core.http import App, ClientDisconnectedError, HttpError, RequestDeadlines, Scope
from radixway.core.http.asgi import FORWARDER
from radixway.core.telemetry.tracing import CallerSpan

log = logging.getLogger(__name__)

_ATTRIBUTES = "envoy.filters.http.ext_proc"
_CLIENT = "source.address"
_NEEDED = "ext_proc needs request_body_mode BUFFERED"


FindHandler = Callable[[Scope], RequestHandler | None]
"""Returns the handler of a request, or None for one that the application has to look at."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings shared by all streams."""

    app: App
    find_handler: FindHandler
    is_ours: Callable[[str, str], bool]
    """Whether requests of that method and path go through the pipeline."""
    destinations: DestinationResolver
    via: bytes
    section: ExtProcConfig
    max_answer_bytes: int
    """Limit of a worker's answer that is not a stream."""
    deadlines: RequestDeadlines
    """Until which Envoy gets an answer to each of its messages."""


class ProcessingStream:
    """Handles Envoy's messages in order and replies to each of them, whatever happens.

    If an RPC ended early or with an error, an Envoy that fails open would pass the request or the answer on
    unchanged. So the RPC ends when Envoy ends it, and every failure becomes a reply.
    """

    __slots__ = (
        "_answer",
        "_call",
        "_caller",
        "_client",
        "_exchange",
        "_forwarder",
        "_has_left",
        "_is_timed",
        "_mode_is_known",
        "_passes_through",
        "_settings",
        "_tasks",
        "_unanswered",
    )

    def __init__(
        self,
        settings: StreamSettings,
        call: GrpcCall,
        caller: CallerSpan | None,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        """`call`: Envoy's; `caller`: its span, where it traces; `tasks`: has the request's while it runs."""
        self._settings = settings
        self._caller = caller
        self._call = call
        self._tasks = tasks
        self._unanswered = 0
        self._is_timed = False
        """The deadlines have the oldest message that is unanswered."""
        self._has_left = False
        self._passes_through = False
        self._mode_is_known = False
        self._answer = EnvoyAnswer(self._write_response, clear_route_cache=settings.section.clear_route_cache)
        self._forwarder = EnvoyForwarder(
            self._answer, settings.destinations, settings.via, settings.max_answer_bytes
        )
        self._client: tuple[str, int] | None = None
        self._exchange: EnvoyExchange | None = None
        """The request, once its body has come."""

    # Called by Envoy's call, and by the deadlines.

    def on_message(self, message: bytes) -> None:
        """Handle the next `message` of Envoy."""
        try:
            self._handle_message(ProcessingRequest.FromString(message))
        except ClientDisconnectedError:
            self.on_half_close()
        except Exception as error:  # Envoy must get a reply whatever happens
            log.exception("ext_proc failed unexpectedly")
            self._send_error(HttpError(f"internal error ({type(error).__name__})"))

    def on_half_close(self) -> None:
        self._mark_disconnected()
        self._call.finish()

    def on_cancel(self) -> None:
        self._mark_disconnected()

    def end_request(self, by: str) -> None:
        """Fail before Envoy's own timeout, which might let a request pass unread."""
        self._is_timed = False
        message = f"no decision within {self._settings.section.answer_within_s:g} s"
        log.warning("ext_proc: %s", message)
        self._send_error(HttpError(message, status=504, code="deadline_exceeded"))
        self._mark_disconnected()

    def _handle_message(self, message: ProcessingRequest) -> None:
        kind = message.WhichOneof("request")
        self._unanswered += 1
        if self._passes_through:
            self._write_response(_continue_unchanged(kind))
        elif kind == "request_headers":
            self._handle_request_headers(message)
        elif kind == "request_body":
            self._handle_request_body(message.request_body)
        elif kind == "response_headers":
            self._handle_response(message.response_headers)
        elif kind == "response_body":
            body = message.response_body
            self._answer.on_upstream_body(BodyFrame(body.body, body.end_of_stream))
        else:
            self._write_response(messages.continue_trailers(kind == "request_trailers"))
        if self._unanswered and not self._is_timed and not self._has_left:
            self._is_timed = True
            self._settings.deadlines.add_watch(self)

    def _send_error(self, error: HttpError) -> None:
        """Reply with `error` in place of everything else."""
        with suppress(ClientDisconnectedError):
            self._answer.send_immediate_reply(error.status, error.headers(), error.body())

    def _mark_disconnected(self) -> None:
        """Note that Envoy is gone or has its reply: the application sees that its client left."""
        self._has_left = True
        if self._is_timed:
            self._is_timed = False
            self._settings.deadlines.remove_watch(self)
        if self._exchange is not None:
            self._exchange.mark_disconnected()
        self._answer.mark_disconnected()

    def _handle_request_headers(self, message: ProcessingRequest) -> None:
        head = RequestHead.from_envoy(messages.decode_headers(message.request_headers.headers))
        if not self._settings.is_ours(head.method, head.path):
            self._handle_other_path(head)
            return
        self._forwarder.head = head
        self._client = _client_address(message)
        if message.request_headers.end_of_stream:
            self._start_request(b"")
        elif (problem := _misconfiguration_of(message)) is not None:
            self._fail_misconfigured(problem)
        else:
            self._mode_is_known = message.HasField("protocol_config")
            self._write_response(messages.CONTINUE_HEADERS)

    def _handle_other_path(self, head: RequestHead) -> None:
        if self._settings.section.other_paths == "pass":
            self._passes_through = True
            changes = messages.header_mutation((), removed=head.spoofed_headers())
            self._write_response(
                messages.pass_through(changes, clear_route_cache=self._settings.section.clear_route_cache)
            )
        else:
            message = f"Not Found: {head.method} {head.path}"
            self._send_error(HttpError(message, status=404, code="not_found"))

    def _handle_request_body(self, body: HttpBody) -> None:
        # In BUFFERED mode it is complete, though trailers may follow it.
        if self._exchange is None and (body.end_of_stream or self._mode_is_known):
            self._start_request(body.body)
        else:
            self._fail_misconfigured(f"the request's body came in chunks: {_NEEDED}")

    def _start_request(self, body: bytes) -> None:
        assert self._forwarder.head is not None
        self._forwarder.body = body
        scope = self._forwarder.head.to_scope(self._client)
        scope[FORWARDER] = self._forwarder
        if self._caller is not None:
            scope[CALLER_SPAN] = self._caller
        exchange = self._exchange = EnvoyExchange(scope, body, self._answer)
        exchange.task = asyncio.get_running_loop().create_task(self._run_request(exchange))
        self._tasks.add(exchange.task)

    async def _run_request(self, exchange: EnvoyExchange) -> None:
        try:
            handler = self._settings.find_handler(exchange.scope)
            if handler is not None:
                await handler.answer(exchange)
            else:
                await self._settings.app(exchange.scope, exchange.receive, exchange.send)
        except ClientDisconnectedError:
            pass
        except Exception as error:  # Envoy must get a reply whatever happens
            log.exception("a request from Envoy failed unexpectedly")
            self._send_error(HttpError(f"internal error ({type(error).__name__})"))
        finally:
            assert exchange.task is not None
            self._tasks.discard(exchange.task)
        if not self._answer.over and not self._has_left:
            self._send_error(HttpError("internal error (no answer)"))

    def _handle_response(self, head: HttpHeaders) -> None:
        if self._exchange is None:  # the request passed unread: withhold its answer
            self._fail_misconfigured(f"Envoy sent no request body: {_NEEDED}")
            return
        self._answer.on_upstream_headers(messages.decode_headers(head.headers), head.end_of_stream)

    def _fail_misconfigured(self, problem: str) -> None:
        """Fail a request that Envoy's configuration would let pass unread."""
        log.error("ext_proc: %s", problem)
        self._send_error(HttpError(problem, code="ext_proc_misconfigured"))

    def _write_response(self, response: bytes) -> None:
        if self._has_left:
            raise ClientDisconnectedError
        self._unanswered = max(0, self._unanswered - 1)
        if self._is_timed:
            self._settings.deadlines.remove_watch(self)
            self._is_timed = self._unanswered > 0
            if self._is_timed:
                self._settings.deadlines.add_watch(self)
        self._call.send_message(response)


def _client_address(message: ProcessingRequest) -> tuple[str, int] | None:
    """Return Envoy's client address, if Envoy sends it (`request_attributes`); else no network is trusted."""
    if _ATTRIBUTES not in message.attributes:
        return None
    fields = message.attributes[_ATTRIBUTES].fields
    return _parse_address(fields[_CLIENT].string_value) if _CLIENT in fields else None


@lru_cache(1024)
def _parse_address(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    try:
        return str(ip_address(host.strip("[]"))), int(port)
    except ValueError:
        return None  # a socket in the file system


def _misconfiguration_of(message: ProcessingRequest) -> str | None:
    """Return what in Envoy's configuration would let a request pass unread, or None."""
    if message.observability_mode:
        return "ext_proc must not run in observability_mode: what is decided there has no effect"
    if not message.HasField("protocol_config"):
        return None
    config = message.protocol_config
    request, answer = config.request_body_mode, config.response_body_mode
    if request != ProcessingMode.BUFFERED:
        return f"{_NEEDED}, not {ProcessingMode.BodySendMode.Name(request)}"
    if answer not in (ProcessingMode.BUFFERED, ProcessingMode.STREAMED):
        name = ProcessingMode.BodySendMode.Name(answer)
        return f"ext_proc needs response_body_mode BUFFERED, with allow_mode_override, not {name}"
    return None


def _continue_unchanged(kind: str | None) -> bytes:
    if kind == "request_body":
        return messages.continue_request(messages.header_mutation(()), None, clear_route_cache=False)
    if kind == "response_headers":
        return messages.CONTINUE_RESPONSE_HEADERS
    if kind == "response_body":
        return messages.continue_response_body(None)
    return messages.continue_trailers(kind == "request_trailers")

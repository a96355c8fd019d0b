"""The messages of Envoy about one request, from its head to the last byte of its reply."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address

from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    CommonResponse,
    HeadersResponse,
    HttpBody,
    ProcessingRequest,
    ProcessingResponse,
)

from radixway.api.ext_proc import messages
from radixway.api.ext_proc.answer import BodyFrame, EnvoyAnswer
from radixway.api.ext_proc.forwarder import DestinationResolver, EnvoyForwarder
from radixway.api.ext_proc.grpc_server import GrpcCall
from radixway.api.ext_proc.messages import RequestHead
from radixway.api.request_handler import CALLER_SPAN
from radixway.core.config import ExtProcConfig
from radixway.core.http import App, ClientDisconnectedError, HttpError, Message
from radixway.core.http.asgi import FORWARDER
from radixway.core.telemetry.tracing import CallerSpan

log = logging.getLogger(__name__)

_ATTRIBUTES = "envoy.filters.http.ext_proc"
_CLIENT = "source.address"
_NEEDED = "ext_proc needs request_body_mode BUFFERED"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings shared by all streams."""

    app: App
    is_ours: Callable[[str, str], bool]
    """Whether requests of that method and path go through the pipeline."""
    destinations: DestinationResolver
    via: bytes
    section: ExtProcConfig
    max_answer_bytes: int
    """Limit of a worker's answer that is not a stream."""


class ProcessingStream:
    """Handles Envoy's messages in order and replies to each of them, whatever happens.

    If an RPC ended early or with an error, an Envoy that fails open would pass the request or the answer on
    unchanged. So the RPC ends when Envoy ends it, and every failure becomes a reply.
    """

    def __init__(self, settings: StreamSettings, call: GrpcCall, caller: CallerSpan | None = None) -> None:
        """`call`: Envoy's; `caller`: Envoy's span, where it traces."""
        self._settings = settings
        self._caller = caller
        self._call = call
        self._unanswered = 0
        self._waiting_since = 0.0
        """When the oldest unanswered message came, in the event loop's time."""
        self._timer: asyncio.TimerHandle | None = None
        self._has_left = False
        self._receiving: list[asyncio.Future[Message]] = []
        """What the application waits for until Envoy leaves."""
        self._passes_through = False
        self._mode_is_known = False
        self.answer = EnvoyAnswer(self._write_response, clear_route_cache=settings.section.clear_route_cache)
        self._forwarder = EnvoyForwarder(
            self.answer, settings.destinations, settings.via, settings.max_answer_bytes
        )
        self._client: tuple[str, int] | None = None
        self._body: bytes | None = b""
        self.task: asyncio.Task[None] | None = None
        """The application, once it has been called."""

    def handle_message(self, message: ProcessingRequest) -> None:
        """Handle the next `message` of Envoy. Raises ClientDisconnectedError."""
        kind = message.WhichOneof("request")
        self._arm_deadline()
        if self._passes_through:
            self._write_response(_continue_unchanged(kind))
        elif kind == "request_headers":
            self._handle_request_headers(message)
        elif kind == "request_body":
            self._handle_request_body(message.request_body)
        elif kind == "response_headers":
            self._handle_response(message)
        elif kind == "response_body":
            body = message.response_body
            self.answer.on_upstream_body(BodyFrame(body.body, body.end_of_stream))
        else:
            self._write_response(messages.continue_trailers(kind == "request_trailers"))

    def send_error(self, error: HttpError) -> None:
        """Reply with `error` in place of everything else."""
        with suppress(ClientDisconnectedError):
            self.answer.send_immediate_reply(error.status, error.headers(), error.body())

    def mark_disconnected(self) -> None:
        """Note that Envoy is gone or has its reply: the application sees that its client left."""
        self._has_left = True
        for waiting in self._receiving:
            if not waiting.done():
                waiting.set_result({"type": "http.disconnect"})
        if self._timer is not None:
            self._timer.cancel()

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
            self.send_error(HttpError(message, status=404, code="not_found"))

    def _handle_request_body(self, body: HttpBody) -> None:
        # In BUFFERED mode it is complete, though trailers may follow it.
        if self.task is None and (body.end_of_stream or self._mode_is_known):
            self._start_request(body.body)
        else:
            self._fail_misconfigured(f"the request's body came in chunks: {_NEEDED}")

    def _start_request(self, body: bytes) -> None:
        assert self._forwarder.head is not None
        self._forwarder.body = self._body = body
        scope = self._forwarder.head.to_scope(self._client)
        scope[FORWARDER] = self._forwarder
        if self._caller is not None:
            scope[CALLER_SPAN] = self._caller
        self.task = asyncio.get_running_loop().create_task(
            self._run_request(self._settings.app(scope, self._receive, self.answer.send))
        )

    async def _run_request(self, call: Awaitable[None]) -> None:
        try:
            await call
        except ClientDisconnectedError:
            pass
        except Exception as error:  # Envoy must get a reply whatever happens
            log.exception("a request from Envoy failed unexpectedly")
            self.send_error(HttpError(f"internal error ({type(error).__name__})"))
        if not self.answer.over and not self._has_left:
            self.send_error(HttpError("internal error (no answer)"))

    def _receive(self) -> Awaitable[Message]:
        """Implement ASGI's `receive` without a coroutine, which whoever watches the client would run in a
        task.
        """
        message: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self._body is not None:
            body, self._body = self._body, None
            message.set_result({"type": "http.request", "body": body, "more_body": False})
        elif self._has_left:
            message.set_result({"type": "http.disconnect"})
        else:
            self._receiving.append(message)
        return message

    def _handle_response(self, message: ProcessingRequest) -> None:
        head = message.response_headers
        if self.task is None:  # the request passed unread: withhold its answer
            self._fail_misconfigured(f"Envoy sent no request body: {_NEEDED}")
            return
        self.answer.on_upstream_headers(messages.decode_headers(head.headers), head.end_of_stream)

    def _fail_misconfigured(self, problem: str) -> None:
        """Fail a request that Envoy's configuration would let pass unread."""
        log.error("ext_proc: %s", problem)
        self.send_error(HttpError(problem, code="ext_proc_misconfigured"))

    def _write_response(self, response: ProcessingResponse) -> None:
        if self._has_left or not self._call.is_open:
            raise ClientDisconnectedError
        self._unanswered = max(0, self._unanswered - 1)
        if self._unanswered:
            self._waiting_since = asyncio.get_running_loop().time()
        self._call.send_message(response.SerializeToString())

    def _arm_deadline(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._unanswered:
            self._waiting_since = loop.time()
        self._unanswered += 1
        if self._timer is None:
            self._timer = loop.call_later(self._settings.section.answer_within_s, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if not self._unanswered or self._has_left:
            return
        loop = asyncio.get_running_loop()
        left_s = self._waiting_since + self._settings.section.answer_within_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._check_deadline)
        else:
            self._fail_deadline()

    def _fail_deadline(self) -> None:
        """Fail before Envoy's own timeout, which might let a request pass unread."""
        message = f"no decision within {self._settings.section.answer_within_s:g} s"
        log.warning("ext_proc: %s", message)
        self.send_error(HttpError(message, status=504, code="deadline_exceeded"))
        self.mark_disconnected()


def _client_address(message: ProcessingRequest) -> tuple[str, int] | None:
    """Return Envoy's client address, if Envoy sends it (`request_attributes`); else no network is trusted."""
    if _ATTRIBUTES not in message.attributes:
        return None
    fields = message.attributes[_ATTRIBUTES].fields
    if _CLIENT not in fields:
        return None
    host, _, port = fields[_CLIENT].string_value.rpartition(":")
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
    request, answer = (
        message.protocol_config.request_body_mode,
        message.protocol_config.response_body_mode,
    )
    if request != ProcessingMode.BUFFERED:
        return f"{_NEEDED}, not {ProcessingMode.BodySendMode.Name(request)}"
    if answer not in (ProcessingMode.BUFFERED, ProcessingMode.STREAMED):
        name = ProcessingMode.BodySendMode.Name(answer)
        return f"ext_proc needs response_body_mode BUFFERED, with allow_mode_override, not {name}"
    return None


def _continue_unchanged(kind: str | None) -> ProcessingResponse:
    if kind == "request_body":
        return messages.continue_request(messages.header_mutation(()), None, clear_route_cache=False)
    if kind == "response_headers":
        return ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse()))
    if kind == "response_body":
        return messages.continue_response_body(None)
    return messages.continue_trailers(kind == "request_trailers")

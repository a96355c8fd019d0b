"""What Envoy asks about one request, from its head to the last byte of its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    CommonResponse,
    HeadersResponse,
    HttpBody,
    ProcessingRequest,
    ProcessingResponse,
)

from radixway.surfaces.exchange import CALLER, CARRIER
from radixway.surfaces.extproc import frames
from radixway.surfaces.extproc.answer import Answer, Frame, Write
from radixway.surfaces.extproc.carrier import EnvoyCarrier
from radixway.surfaces.extproc.destinations import Destinations
from radixway.surfaces.extproc.heads import Head
from radixway.telemetry.tracing import Caller
from radixway.web import App, ClientGone, HttpError, Message

log = logging.getLogger(__name__)

_ATTRIBUTES = "envoy.filters.http.ext_proc"
_CLIENT = "source.address"
_NEEDED = "ext_proc needs request_body_mode BUFFERED"


@dataclass(frozen=True, slots=True)
class Terms:
    """What is the same for all conversations."""

    app: App
    """The gateway."""
    is_ours: Callable[[str, str], bool]
    """Whether requests of that method and path go down the road."""
    destinations: Destinations
    via: bytes
    clear_route_cache: bool
    other_paths: Literal["refuse", "pass"]
    answer_within_s: float
    max_answer_bytes: int
    """Of a worker's answer that is not a stream."""


class Conversation:
    """Hears Envoy's messages in order and has each of them answered, whatever happens.

    An RPC that ended with an error, or early, would have Envoy pass the request or the answer on as they are
    where it fails open: so it ends when Envoy ends it, and every defect becomes an answer.
    """

    def __init__(self, terms: Terms, write: Write, caller: Caller | None = None) -> None:
        """`write` tells Envoy; raises ClientGone. `caller`: Envoy's span of its call, where it traces."""
        self._terms = terms
        self._caller = caller
        self._tell = write
        self._lock = asyncio.Lock()
        self._unanswered = 0
        self._waits_since = 0.0
        """When the oldest message without an answer came, in the event loop's time."""
        self._timer: asyncio.TimerHandle | None = None
        self._left = asyncio.Event()
        self._passed_by = False
        self._mode_is_known = False
        """Envoy has said that bodies come whole."""
        self.answer = Answer(self._write, clear_route_cache=terms.clear_route_cache)
        self._carrier = EnvoyCarrier(self.answer, terms.destinations, terms.via, terms.max_answer_bytes)
        self._client: tuple[str, int] | None = None
        self._body: bytes | None = b""
        self.task: asyncio.Task[None] | None = None
        """The application, once it has been called."""

    async def hear(self, message: ProcessingRequest) -> None:
        """Envoy's next message. Raises ClientGone."""
        kind = message.WhichOneof("request")
        self._expect()
        if self._passed_by:
            await self._write(_unchanged(kind))
        elif kind == "request_headers":
            await self._begin(message)
        elif kind == "request_body":
            await self._hear_request(message.request_body)
        elif kind == "response_headers":
            await self._hear_answer(message)
        elif kind == "response_body":
            body = message.response_body
            await self.answer.hear_body(Frame(body.body, body.end_of_stream))
        else:
            await self._write(frames.trailers_pass(kind == "request_trailers"))

    async def fail(self, error: HttpError) -> None:
        """Answer with an error in place of everything else."""
        with suppress(ClientGone):
            await self.answer.reply(error.status, error.headers(), error.body())

    def leave(self) -> None:
        """Envoy is gone, or has been told all: whoever still works on it is told that its client left."""
        self._left.set()
        if self._timer is not None:
            self._timer.cancel()

    async def quiet(self) -> None:
        """Wait until nothing is being said any more; call `leave` first."""
        async with self._lock:
            pass

    async def _begin(self, message: ProcessingRequest) -> None:
        head = Head.of(frames.headers_of(message.request_headers.headers))
        if not self._terms.is_ours(head.method, head.path):
            await self._turn_away(head)
            return
        self._carrier.head = head
        self._client = _client_of(message)
        if message.request_headers.end_of_stream:
            self._call(b"")
        elif (problem := _problem_of(message)) is not None:
            await self._refuse_to_guess(problem)
        else:
            self._mode_is_known = message.HasField("protocol_config")
            await self._write(frames.GO_ON)

    async def _turn_away(self, head: Head) -> None:
        if self._terms.other_paths == "pass":
            self._passed_by = True
            changes = frames.mutation((), removed=head.spoofed())
            await self._write(frames.pass_by(changes, clear_route_cache=self._terms.clear_route_cache))
        else:
            message = f"Not Found: {head.method} {head.path}"
            await self.fail(HttpError(message, status=404, code="not_found"))

    async def _hear_request(self, body: HttpBody) -> None:
        # In BUFFERED mode it is whole, though trailers may follow it.
        if self.task is None and (body.end_of_stream or self._mode_is_known):
            self._call(body.body)
        else:
            await self._refuse_to_guess(f"the request's body comes in pieces: {_NEEDED}")

    def _call(self, body: bytes) -> None:
        """The request is complete: it goes down the road."""
        assert self._carrier.head is not None
        self._carrier.body = self._body = body
        scope = self._carrier.head.scope(self._client)
        scope[CARRIER] = self._carrier
        if self._caller is not None:
            scope[CALLER] = self._caller
        self.task = asyncio.get_running_loop().create_task(
            self._run(self._terms.app(scope, self._receive, self.answer.send))
        )

    async def _run(self, answering: Awaitable[None]) -> None:
        try:
            await answering
        except ClientGone:
            pass
        except Exception as error:  # the rim: Envoy must be answered
            log.exception("a request from Envoy met a defect of the gateway")
            await self.fail(HttpError(f"internal error ({type(error).__name__})"))
        if not self.answer.over and not self._left.is_set():
            await self.fail(HttpError("internal error (no answer)"))

    async def _receive(self) -> Message:
        """ASGI's."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _hear_answer(self, message: ProcessingRequest) -> None:
        head = message.response_headers
        if self.task is None:  # it went on without having been looked at: its answer does not
            await self._refuse_to_guess(f"Envoy sent no request body: {_NEEDED}")
            return
        self.answer.hear_head(frames.headers_of(head.headers), head.end_of_stream)

    async def _refuse_to_guess(self, problem: str) -> None:
        """Envoy would let pass what nobody has seen."""
        log.error("ext_proc: %s", problem)
        await self.fail(HttpError(problem, code="ext_proc_misconfigured"))

    async def _write(self, response: ProcessingResponse) -> None:
        async with self._lock:
            if self._left.is_set():
                raise ClientGone
            self._unanswered = max(0, self._unanswered - 1)
            if self._unanswered:
                self._waits_since = asyncio.get_running_loop().time()
            await self._tell(response)

    def _expect(self) -> None:
        """One more message waits for an answer."""
        loop = asyncio.get_running_loop()
        if not self._unanswered:
            self._waits_since = loop.time()
        self._unanswered += 1
        if self._timer is None:
            self._timer = loop.call_later(self._terms.answer_within_s, self._look)

    def _look(self) -> None:
        """Whether a message has waited too long by now."""
        self._timer = None
        if not self._unanswered or self._left.is_set():
            return
        loop = asyncio.get_running_loop()
        left_s = self._waits_since + self._terms.answer_within_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._look)
        else:
            self._expiring = loop.create_task(self._refuse_to_wait())

    async def _refuse_to_wait(self) -> None:
        """Envoy would not wait much longer, and might then let pass what has not been looked at."""
        message = f"no decision within {self._terms.answer_within_s:g} s"
        log.warning("ext_proc: %s", message)
        await self.fail(HttpError(message, status=504, code="deadline_exceeded"))
        self.leave()


def _client_of(message: ProcessingRequest) -> tuple[str, int] | None:
    """Who Envoy's client is, if Envoy says (`request_attributes`); nobody's network is trusted otherwise."""
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


def _problem_of(message: ProcessingRequest) -> str | None:
    """What in Envoy's configuration would let a request pass without having been looked at."""
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


def _unchanged(kind: str | None) -> ProcessingResponse:
    if kind == "request_body":
        return frames.hand_over(frames.mutation(()), None, clear_route_cache=False)
    if kind == "response_headers":
        return ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse()))
    if kind == "response_body":
        return frames.answer_goes_on(None)
    return frames.trailers_pass(kind == "request_trailers")

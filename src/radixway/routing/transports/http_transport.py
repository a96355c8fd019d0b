"""Carry a request to a worker over HTTP, byte for byte."""

import errno
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import aiohttp
from yarl import URL

from radixway.core.config import WorkerLimitsConfig
from radixway.core.http import LoopGuard
from radixway.core.http.server_sent_events import EventBuffer
from radixway.core.net.connection_errors import explain_connection_error
from radixway.core.pipeline import (
    Endpoint,
    FailureReason,
    IncompleteReplyError,
    Reply,
    ReplyForm,
    Request,
    StreamEndDetector,
    TokenUsage,
    WorkerFailedError,
    read_complete_reply,
    read_usage,
)
from radixway.routing import Worker, WorkerLease
from radixway.routing.transports.event_stream import WorkerEventStream
from radixway.routing.transports.upstream import UpstreamOrigin
from radixway.routing.transports.upstream_response import (
    TruncatedResponseError,
    UpstreamLostError,
    UpstreamResponse,
)
from radixway.routing.transports.worker_responses import (
    CALL_ERRORS,
    MAX_ANSWER_BYTES,
    filter_reply_headers,
    read_bounded,
)

# uvicorn, which most workers run on, closes idle connections after 5 s: let go before it does.
_IDLE_S = 4.0
_CONNECT_S = 5.0

_ONE_WRITE_BYTES = 2**18
"""A longer body is written after its head: joining them would copy it."""

# Its own word that it cannot answer now, though another worker may: too busy, out of order, or (508) a
# gateway that the request has passed before.
_UNAVAILABLE = frozenset({429, 502, 503, 508})

_OUR_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class _WorkerTarget:
    origin: UpstreamOrigin
    base_path: bytes
    authority: bytes


class HttpTransport:
    """The connections to all workers, from `open` to `close`, inside one event loop."""

    session: aiohttp.ClientSession
    """Session of rare calls. Each opens a connection, so health checks see new names and certificates."""
    pooled_session: aiohttp.ClientSession
    """Session of frequent calls, with connections that are reused."""

    def __init__(self, via: LoopGuard, limits: WorkerLimitsConfig) -> None:
        self._limits = limits
        self._via = via.value
        self._targets: dict[str, _WorkerTarget] = {}
        self.on_stream_end: Callable[[Worker, bool], None] = lambda worker, is_complete: None
        """Called with a worker and whether it sent a whole stream, or broke it off after its first event."""

    def open(self) -> None:
        """Make the clients for all but requests, which go over connections of our own."""
        self.session = _make_session(self._via, self._limits, is_rare=True)
        self.pooled_session = _make_session(self._via, self._limits, is_rare=False)

    async def send_request(
        self,
        request: Request,
        worker: Worker,
        lease: WorkerLease,
        *,
        prefill_only: bool = False,
        buffer: EventBuffer | None = None,
    ) -> Reply:
        """Ask `worker` and return its answer; `lease` is released when the answer has been read or closed.

        `prefill_only`: the answer comes with the first token, and nothing after it. `buffer`: makes events of
        a stream's bytes, where these are none yet.

        A whole reply is read to its end; a stream is read up to its first event. Until then nothing has
        reached the client, so every failure raises WorkerFailedError and can be tried elsewhere.
        """
        answer: UpstreamResponse | None = None
        headers: list[tuple[bytes, bytes]] = []
        try:
            target = self._targets.get(worker.url) or self._make_target(worker.url)
            body = request.raw
            written = _build_head(request, worker, target, self._via)
            if len(body) < _ONE_WRITE_BYTES:
                written, body = written + body, b""
            origin = target.origin
            answer = origin.write_to_idle(written, body) or await origin.write_to_new(written, body)
            if not answer.status:
                await answer.read_head()
            if 300 <= answer.status < 400:
                raise WorkerFailedError(
                    worker.name, "unavailable", f"it answered {answer.status}, a redirect"
                )
            headers = filter_reply_headers(answer.headers)
            reply = Reply(answer.status, headers, worker.name)
            if answer.status in _UNAVAILABLE:
                reply.body = await answer.read_body(self._limits.max_answer_bytes)
                raise WorkerFailedError(
                    worker.name, "unavailable", f"it answered {answer.status}", reply=reply
                )
            if request.stream and answer.status == 200:
                end = StreamEndDetector(request.endpoint.reply_form, request.answers)
                events = WorkerEventStream(
                    answer, worker.name, lease, end, partial(self.on_stream_end, worker), buffer
                )
                request.open_streams.append(events)
                if not await events.wait_first_event():
                    raise UpstreamLostError("the stream ended before its first event")
                lease.mark_prefill_done()
                reply.chunks = events
            else:
                reply.body = await answer.read_body(self._limits.max_answer_bytes)
                if answer.status == 200:
                    if prefill_only:
                        lease.mark_prefill_done()  # what it says is read for its KV alone, however it comes
                    else:
                        reply.used = _read_complete(request.endpoint, reply.body)
                lease.release()
            return reply
        except BaseException as error:
            if answer is not None:
                answer.cancel_response()
            lease.release()
            if isinstance(error, UpstreamLostError):
                packed = next((value for name, value in headers if name == b"content-encoding"), None)
                detail = str(error)
                if packed is not None:
                    detail += f"; it is compressed ({packed.decode('latin-1')}), which was not requested"
                raise WorkerFailedError(worker.name, error.kind, detail) from error
            if isinstance(error, OSError):
                detail = explain_connection_error(error, _CONNECT_S)[1]
                # Our own shortage of files or memory says nothing about the worker.
                reason: FailureReason = "disconnected" if error.errno in _OUR_OWN else "unreachable"
                raise WorkerFailedError(worker.name, reason, detail) from error
            raise

    async def call_worker(
        self,
        worker: Worker,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        via: str | None = None,
        content_type: str = "application/json",
        timeout_s: float = 30,
    ) -> tuple[int, str, bytes]:
        """A single administrative call: status, content type, body. Raises WorkerFailedError.

        `path` comes with its query, and is sent as it is. `via` is what the call that caused this one has
        passed before.
        """
        headers = {"content-type": content_type}
        if via:
            headers["via"] = f"{via}, {self._via.decode('ascii')}"
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S)
        try:
            return await self.exchange(worker, method, path, body, headers=headers, limits=timeout)
        except CALL_ERRORS as error:
            raise WorkerFailedError(worker.name, "unreachable", explain_connection_error(error)[1]) from error

    async def exchange(
        self,
        worker: Worker,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        limits: aiohttp.ClientTimeout,
        headers: dict[str, str] | None = None,
        is_rare: bool = True,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> tuple[int, str, bytes]:
        """Send one small call to `worker`; its answer's status, content type and body. Raises CALL_ERRORS.

        `is_rare`: over a connection of its own (see `session`). `max_bytes`: of the answer's body. A hosted
        worker is not called: its provider has none of an engine's paths.
        """
        if worker.hosted is not None:
            return 404, "application/json", b"{}"
        if worker.api_key:
            headers = {**(headers or {}), "authorization": f"Bearer {worker.api_key}"}
        session = self.session if is_rare else self.pooled_session
        url = URL(str(URL(worker.url)).rstrip("/") + path, encoded=True)
        async with session.request(
            method, url, data=body or None, headers=headers, timeout=limits, allow_redirects=False
        ) as response:
            return response.status, response.content_type, await read_bounded(response, max_bytes)

    def abort_stalled(self, worker: Worker) -> None:
        """A worker answers no probe: do not wait for answers of it that have made no way since the last call.

        The first call breaks off those that have not begun, which are then tried elsewhere.
        """
        target = self._targets.get(worker.url)
        if target is not None:
            target.origin.abort_stalled("it hangs: nothing comes, and it answers no health check")

    def remove_worker(self, worker: Worker) -> None:
        """A worker was removed: close its idle connections."""
        target = self._targets.pop(worker.url, None)
        if target is not None:
            target.origin.close_idle()

    async def close(self) -> None:
        """Close all connections."""
        for target in self._targets.values():
            target.origin.close_idle()
        await self.session.close()
        await self.pooled_session.close()

    def _make_target(self, worker_url: str) -> _WorkerTarget:
        url = URL(worker_url)
        tls = ssl.create_default_context() if url.scheme == "https" else None
        origin = UpstreamOrigin(
            url.host or "", url.port or 80, tls, idle_s=_IDLE_S, connect_s=_CONNECT_S, limits=self._limits
        )
        base_path = url.raw_path.rstrip("/").encode("ascii")
        target = self._targets[worker_url] = _WorkerTarget(
            origin, base_path, url.raw_authority.encode("ascii")
        )
        return target


def _make_session(via: bytes, limits: WorkerLimitsConfig, *, is_rare: bool) -> aiohttp.ClientSession:
    """Create a session that does not decompress: packed replies could grow to any size."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=is_rare),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"via": via.decode("ascii"), "accept-encoding": "identity"},
        auto_decompress=False,
        max_headers=limits.max_header_count,
    )


def _read_complete(endpoint: Endpoint, body: bytes) -> TokenUsage | None:
    """Return the usage in a reply of `endpoint`. Raises TruncatedResponseError if it is incomplete."""
    if endpoint.reply_form is ReplyForm.OPAQUE:
        return read_usage(body, generates=False)  # it ends where HTTP says so
    try:
        return read_complete_reply(body, generates=endpoint.generates)
    except IncompleteReplyError as error:
        raise TruncatedResponseError(str(error)) from None


def _build_head(request: Request, worker: Worker, target: _WorkerTarget, via: bytes) -> bytes:
    """Return the head of `request`."""
    headers = b"".join([b"%b: %b\r\n" % header for header in request.headers])
    trace = request.journal.trace
    if trace is not None:  # called once the worker is in `attempted_workers`, so its length is the number
        headers += trace.propagation_lines(len(request.routing.attempted_workers))
    if worker.api_key:
        headers += b"authorization: Bearer %b\r\n" % worker.api_key.encode()
    return (
        b"POST %b%b HTTP/1.1\r\nhost: %b\r\ncontent-type: %b\r\nx-request-id: %b\r\n"
        b"accept-encoding: identity\r\nvia: %b\r\ncontent-length: %d\r\n%b\r\n"
    ) % (
        target.base_path,
        request.path.encode("latin-1"),
        target.authority,
        request.content_type,
        request.id.encode("ascii"),
        via,
        len(request.raw),
        headers,
    )

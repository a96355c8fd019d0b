"""Carry a request to a worker over HTTP, byte for byte."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import aiohttp
from yarl import URL

from radixway.config import WorkerLimitsSection
from radixway.pipeline import (
    FailureReason,
    IncompleteAnswerError,
    Reply,
    Request,
    StreamEnd,
    WorkerFailed,
    check_whole_reply,
)
from radixway.routing import Lease, Worker
from radixway.transports.bounded import AnswerTooLarge, read_at_most
from radixway.transports.connection_errors import explain_connection_error
from radixway.transports.event_stream import EventStream
from radixway.transports.reply_headers import kept_reply_headers
from radixway.transports.upstream import Answer, Lost, Origin, Truncated
from radixway.web import Via

# uvicorn, which most workers run on, closes idle connections after 5 s: let go before it does.
_IDLE_S = 4.0
_CONNECT_S = 5.0

# Its own word that it cannot answer now, though another worker may: too busy, out of order, or (508) a
# gateway that the request has passed before.
_UNAVAILABLE = frozenset({429, 502, 503, 508})

_OUR_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a worker's requests go."""

    origin: Origin
    base_path: bytes
    authority: bytes


class HttpTransport:
    """The connections to all workers, from `open` to `close`, inside one event loop."""

    session: aiohttp.ClientSession
    """For what is rare. Each call opens a connection, so health checks see names and certificates new."""
    kept_session: aiohttp.ClientSession
    """For what may come with every request: its connections are used again."""

    def __init__(self, via: Via, limits: WorkerLimitsSection) -> None:
        self._limits = limits
        self._via = via.value
        self._targets: dict[str, _Target] = {}
        self.on_stream_end: Callable[[Worker, bool], None] = lambda worker, is_whole: None
        """Told of a worker whether it has sent all of a stream, or broke it off after its first event."""

    def open(self) -> None:
        """Make the clients for all but requests, which go over connections of our own."""
        self.session = _client(self._via, self._limits, is_rare=True)
        self.kept_session = _client(self._via, self._limits, is_rare=False)

    async def send(
        self, request: Request, worker: Worker, lease: Lease, *, prefill_only: bool = False
    ) -> Reply:
        """Ask `worker` and return its answer; `lease` is released when the answer has been read or closed.

        `prefill_only`: the answer comes with the first token, and nothing after it.

        A whole reply is read to its end; a stream is read up to its first event. Until then nothing has
        reached the client, so every failure raises WorkerFailed and can be tried elsewhere.
        """
        answer: Answer | None = None
        headers: list[tuple[bytes, bytes]] = []
        try:
            target = self._targets.get(worker.url) or self._find(worker.url)
            answer = await target.origin.send(_compose(request, worker, target, self._via))
            await answer.read_head()
            if 300 <= answer.status < 400:
                raise WorkerFailed(worker.name, "unavailable", f"it answered {answer.status}, a redirect")
            headers = kept_reply_headers(answer.headers)
            reply = Reply(answer.status, headers, worker.name)
            if answer.status in _UNAVAILABLE:
                reply.body = await answer.read_all(self._limits.max_answer_bytes)
                raise WorkerFailed(worker.name, "unavailable", f"it answered {answer.status}", said=reply)
            if request.stream and answer.status == 200:
                end = StreamEnd(request.endpoint.reply_form, request.answers)
                events = EventStream(answer, worker.name, lease, end, partial(self.on_stream_end, worker))
                request.opened.append(events)
                if not await events.begin():
                    raise Lost("the stream ended before its first event")
                lease.prefill_done()
                reply.chunks = events
            else:
                reply.body = await answer.read_all(self._limits.max_answer_bytes)
                if answer.status == 200:
                    if prefill_only:
                        lease.prefill_done()  # what it says is read for its KV alone, however it comes
                    else:
                        _check_whole(reply.body)
                lease.release()
            return reply
        except BaseException as error:
            if answer is not None:
                answer.close()
            lease.release()
            if isinstance(error, Lost):
                packed = next((value for name, value in headers if name == b"content-encoding"), None)
                detail = str(error)
                if packed is not None:
                    detail += f"; it is compressed ({packed.decode('latin-1')}), which was not asked for"
                raise WorkerFailed(worker.name, error.kind, detail) from error
            if isinstance(error, OSError):
                detail = explain_connection_error(error, _CONNECT_S)[1]
                # Our own shortage of files or memory says nothing about the worker.
                reason: FailureReason = "disconnected" if error.errno in _OUR_OWN else "unreachable"
                raise WorkerFailed(worker.name, reason, detail) from error
            raise

    async def call(
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
        """A single administrative call: status, content type, body. Raises WorkerFailed.

        `path` comes with its query, and is sent as it is. `via` is what the call that caused this one has
        passed before.
        """
        headers = {"content-type": content_type}
        if via:
            headers["via"] = f"{via}, {self._via.decode('ascii')}"
        if worker.api_key:
            headers["authorization"] = f"Bearer {worker.api_key}"
        try:
            async with self.session.request(
                method,
                URL(str(URL(worker.url)).rstrip("/") + path, encoded=True),
                data=body or None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S),
                allow_redirects=False,
            ) as response:
                return response.status, response.content_type, await read_at_most(response)
        except (aiohttp.ClientError, OSError, AnswerTooLarge) as error:
            raise WorkerFailed(worker.name, "unreachable", explain_connection_error(error)[1]) from error

    def break_stuck(self, worker: Worker) -> None:
        """A worker answers no probe: do not wait for answers of it that have made no way since the last call.

        The first call breaks off those that have not begun, which are then tried elsewhere.
        """
        target = self._targets.get(worker.url)
        if target is not None:
            target.origin.break_stuck("it hangs: nothing comes, and it answers no health check")

    def forget(self, worker: Worker) -> None:
        """A worker was removed: close its idle connections."""
        target = self._targets.pop(worker.url, None)
        if target is not None:
            target.origin.close()

    async def close(self) -> None:
        """Close all connections."""
        for target in self._targets.values():
            target.origin.close()
        await self.session.close()
        await self.kept_session.close()

    def _find(self, worker_url: str) -> _Target:
        url = URL(worker_url)
        tls = ssl.create_default_context() if url.scheme == "https" else None
        origin = Origin(
            url.host or "", url.port or 80, tls, idle_s=_IDLE_S, connect_s=_CONNECT_S, limits=self._limits
        )
        base_path = url.raw_path.rstrip("/").encode("ascii")
        target = self._targets[worker_url] = _Target(origin, base_path, url.raw_authority.encode("ascii"))
        return target


def _client(via: bytes, limits: WorkerLimitsSection, *, is_rare: bool) -> aiohttp.ClientSession:
    """Nothing is unpacked that workers pack, who are told not to: it could become of any size."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=is_rare),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"via": via.decode("ascii"), "accept-encoding": "identity"},
        auto_decompress=False,
        max_headers=limits.max_header_count,
    )


def _check_whole(body: bytes) -> None:
    """Raise Truncated for a reply that is not whole, whatever length was promised."""
    try:
        check_whole_reply(body)
    except IncompleteAnswerError as error:
        raise Truncated(str(error)) from None


def _compose(request: Request, worker: Worker, target: _Target, via: bytes) -> bytes:
    """The whole request, head and body, for one write."""
    headers = b"".join([b"%b: %b\r\n" % header for header in request.headers])
    trace = request.journal.trace
    if trace is not None:  # called as soon as the worker is counted among those asked, so that is its number
        headers += trace.lines(len(request.asked))
    if worker.api_key:
        headers += b"authorization: Bearer %b\r\n" % worker.api_key.encode()
    body = request.raw
    return (
        b"POST %b%b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\nx-request-id: %b\r\n"
        b"accept-encoding: identity\r\nvia: %b\r\ncontent-length: %d\r\n%b\r\n%b"
    ) % (
        target.base_path,
        request.path.encode("latin-1"),
        target.authority,
        request.id.encode("ascii"),
        via,
        len(body),
        headers,
        body,
    )

"""Forwarding through Envoy: a worker becomes headers with its address, Envoy's frames become a Reply."""

import asyncio
import socket
from contextlib import suppress
from ipaddress import ip_address
from time import monotonic
from typing import NamedTuple, Self

from pydantic import IPvAnyNetwork
from yarl import URL

from radixway.api.authentication import is_in_networks
from radixway.api.ext_proc.answer import EnvoyAnswer
from radixway.api.ext_proc.messages import RequestHead, worker_headers
from radixway.core.http.server_sent_events import EventBuffer
from radixway.core.pipeline import (
    Chunks,
    GatewayError,
    IncompleteReplyError,
    NoWorkersError,
    Reply,
    Request,
    StreamBrokenError,
    StreamEndDetector,
    check_complete_reply,
)
from radixway.routing import Worker, WorkerLease
from radixway.routing.transports import CHUNKS_PER_BLOCK, RequestForwarder

_KNOWN_FOR_S = 30.0
"""Seconds for which a resolved address is used."""
_MAX_CACHED = 4096


class _CachedDestination(NamedTuple):
    endpoint: str
    base_path: str
    until: float


class DestinationResolver:
    """Turns workers into `ip:port`. Names are resolved here: Envoy's cluster takes addresses alone."""

    def __init__(self, allowed: tuple[IPvAnyNetwork, ...]) -> None:
        """`allowed`: networks that addresses must lie in; empty: wherever a worker is."""
        self._allowed = allowed
        self._known: dict[str, _CachedDestination] = {}

    async def resolve_worker(self, worker: Worker) -> tuple[str, str]:
        """Return `ip:port` of `worker`, and the path before its paths. Raises NoWorkersError."""
        known = self._known.get(worker.url)
        if known is not None and monotonic() < known.until:
            return known.endpoint, known.base_path
        url = URL(worker.url)
        if url.scheme != "http":
            raise NoWorkersError(f"worker {worker.name} speaks {url.scheme}, which ext_proc does not support")
        address = await self._resolve_host(worker, url.host or "", url.port or 80)
        if self._allowed and not is_in_networks(address, self._allowed):
            raise NoWorkersError(f"worker {worker.name} is at {address}, outside ext_proc.destinations")
        shown = f"[{address}]" if ":" in address else address
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        found = _CachedDestination(
            f"{shown}:{url.port or 80}", url.raw_path.rstrip("/"), monotonic() + _KNOWN_FOR_S
        )
        self._known[worker.url] = found
        return found.endpoint, found.base_path

    async def _resolve_host(self, worker: Worker, host: str, port: int) -> str:
        with suppress(ValueError):
            return str(ip_address(host))
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NoWorkersError(f"worker {worker.name} cannot be resolved: {error}") from None
        found.sort(key=lambda info: info[0] is not socket.AF_INET)  # what listens on one kind listens on this
        return str(found[0][4][0])


class EnvoyForwarder(RequestForwarder):
    """Carries the one request that Envoy has asked about."""

    def __init__(
        self, answer: EnvoyAnswer, destinations: DestinationResolver, via: bytes, max_answer_bytes: int
    ) -> None:
        """`via`: the gateway's mark. `max_answer_bytes`: of an answer that is not a stream."""
        self._answer = answer
        self._destinations = destinations
        self._via = via
        self._max_answer_bytes = max_answer_bytes
        self.head: RequestHead | None = None
        self.body = b""

    @property
    def is_free(self) -> bool:
        return not self._answer.handed_over

    async def forward_request(self, request: Request, worker: Worker, lease: WorkerLease) -> Reply:
        """Have Envoy send `request` to `worker`. Raises NoWorkersError where Envoy cannot reach it."""
        assert self.head is not None
        try:
            destination, base_path = await self._destinations.resolve_worker(worker)
            wanted, gone = worker_headers(
                request, self.head, base_path, destination, worker.api_key, self._via
            )
            body = None if request.raw == self.body else request.raw
            self._answer.forward_request(wanted, gone, self.head.headers, body, is_stream=request.stream)
            status, headers, ends = await self._answer.upstream_head()
            if 300 <= status < 400:
                raise GatewayError(f"worker {worker.name} answered {status}, a redirect", status=502)
            reply = Reply(status, headers, worker.name)
            if request.stream and status == 200 and not ends:
                end = StreamEndDetector(request.endpoint.reply_form, request.answers)
                reply.chunks = EnvoyChunks(self._answer, worker.name, lease, end)
                request.open_streams.append(reply.chunks)
            else:
                reply.body = b"" if ends else await self._answer.read_whole_body(self._max_answer_bytes)
                if status == 200:
                    _check_complete_body(worker.name, reply.body)
                lease.release()
            return reply
        except BaseException:
            lease.release()
            raise


class EnvoyChunks(Chunks):
    """The events of one answer, as Envoy's frames bring them, held back until each is whole."""

    def __init__(self, answer: EnvoyAnswer, worker: str, lease: WorkerLease, end: StreamEndDetector) -> None:
        self._answer = answer
        self._worker = worker
        self._lease = lease
        self._end = end
        self._cut: str | None = None
        """Why the finished answer is incomplete."""
        self._buffer = EventBuffer()
        self._ended = False
        self._chunks = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            frame = await self._answer.next_frame()
            self._ended = frame.ends
            chunk = self._buffer.take_events(frame.body)
            if chunk:
                self._end.note(chunk)
            if self._buffer.too_large:
                raise StreamBrokenError(
                    self._worker, f"an event of more than {self._buffer.max_event_bytes} bytes"
                )
            if self._ended:
                chunk += self._check_stream_end()
            if chunk:
                self._count_attempt()
                return chunk
        await self.aclose()
        if self._cut is not None:
            raise StreamBrokenError(self._worker, self._cut, truncated=True)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Envoy's connection to the worker is Envoy's to close: it does so when it is left, or answered."""
        self._ended = True
        self._lease.release()

    def _check_stream_end(self) -> bytes:
        """The last event, where no blank line ends it."""
        try:
            return self._end.check_complete(self._buffer.take_rest())
        except IncompleteReplyError as error:
            self._cut = str(error)
            return b""

    def _count_attempt(self) -> None:
        if not self._chunks:
            self._lease.mark_prefill_done()
        self._chunks += 1
        if not self._chunks % CHUNKS_PER_BLOCK:
            self._lease.add_output_blocks()


def _check_complete_body(worker: str, body: bytes) -> None:
    try:
        check_complete_reply(body)
    except IncompleteReplyError as error:
        raise GatewayError(
            f"worker {worker} did not finish its answer: {error}", status=502, code="worker_failed"
        ) from None

"""Envoy as the carrier of one request: the place that was found becomes headers, frames become a Reply."""

from __future__ import annotations

from typing import Self

from radixway.pipeline import (
    Chunks,
    GatewayError,
    IncompleteAnswerError,
    Reply,
    Request,
    StreamBroken,
    StreamEnd,
    check_whole_reply,
)
from radixway.routing import Lease, Worker
from radixway.surfaces.extproc.answer import Answer
from radixway.surfaces.extproc.destinations import Destinations
from radixway.surfaces.extproc.heads import Head, for_worker
from radixway.transports import CHUNKS_PER_BLOCK, Carrier
from radixway.web.server_sent_events import EventBuffer


class EnvoyCarrier(Carrier):
    """Carries the one request that Envoy has asked about."""

    def __init__(self, answer: Answer, destinations: Destinations, via: bytes, max_answer_bytes: int) -> None:
        """`via`: the gateway's mark. `max_answer_bytes`: of an answer that is not a stream."""
        self._answer = answer
        self._destinations = destinations
        self._via = via
        self._max_answer_bytes = max_answer_bytes
        self.head: Head | None = None
        self.body = b""
        """As they came."""

    @property
    def free(self) -> bool:
        return not self._answer.handed_over

    async def send(self, request: Request, worker: Worker, lease: Lease) -> Reply:
        """See `Carrier`. Raises NoWorkers where Envoy cannot reach the worker."""
        assert self.head is not None
        try:
            destination, base_path = await self._destinations.find(worker)
            wanted, gone = for_worker(request, self.head, base_path, destination, worker.api_key, self._via)
            body = None if request.raw == self.body else request.raw
            await self._answer.hand_over(wanted, gone, list(self.head.headers), body)
            status, headers, ends = await self._answer.head()
            if 300 <= status < 400:
                raise GatewayError(f"worker {worker.name} answered {status}, a redirect", status=502)
            reply = Reply(status, headers, worker.name)
            if request.stream and status == 200 and not ends:
                end = StreamEnd(request.endpoint.reply_form, request.answers)
                reply.chunks = EnvoyChunks(self._answer, worker.name, lease, end)
                request.opened.append(reply.chunks)
            else:
                reply.body = b"" if ends else await self._answer.whole(self._max_answer_bytes)
                if status == 200:
                    _check_whole(worker.name, reply.body)
                lease.release()
            return reply
        except BaseException:
            lease.release()
            raise


class EnvoyChunks(Chunks):
    """The events of one answer, as Envoy's frames bring them, held back until each is whole."""

    def __init__(self, answer: Answer, worker: str, lease: Lease, end: StreamEnd) -> None:
        self._answer = answer
        self._worker = worker
        self._lease = lease
        self._end = end
        self._cut: str | None = None
        """Why the answer, which has ended, is not whole."""
        self._buffer = EventBuffer()
        self._ended = False
        self._chunks = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            frame = await self._answer.frame()
            self._ended = frame.ends
            chunk = self._buffer.take_events(frame.body)
            if chunk:
                self._end.note(chunk)
            if self._buffer.too_large:
                raise StreamBroken(
                    self._worker, f"an event of more than {self._buffer.max_event_bytes} bytes"
                )
            if self._ended:
                chunk += self._check()
            if chunk:
                self._count()
                return chunk
        await self.aclose()
        if self._cut is not None:
            raise StreamBroken(self._worker, self._cut, truncated=True)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Envoy's connection to the worker is Envoy's to close: it does so when it is left, or answered."""
        self._ended = True
        self._lease.release()

    def _check(self) -> bytes:
        """The last frame has come. Returns what belongs to the stream of what no blank line ends."""
        try:
            return self._end.check(self._buffer.take_rest())
        except IncompleteAnswerError as error:
            self._cut = str(error)
            return b""

    def _count(self) -> None:
        if not self._chunks:
            self._lease.prefill_done()
        self._chunks += 1
        if not self._chunks % CHUNKS_PER_BLOCK:
            self._lease.output_block()


def _check_whole(worker: str, body: bytes) -> None:
    """Raise GatewayError for a reply that is not whole."""
    try:
        check_whole_reply(body)
    except IncompleteAnswerError as error:
        raise GatewayError(
            f"worker {worker} did not finish its answer: {error}", status=502, code="worker_failed"
        ) from None

"""A streamed answer: server-sent events as the worker wrote them, passed on whole."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Self

from radixway.core.http import SENT
from radixway.core.http.server_sent_events import EventBuffer
from radixway.core.pipeline import (
    Chunks,
    IncompleteReplyError,
    SendChunk,
    StreamBrokenError,
    StreamEndDetector,
)
from radixway.routing import WorkerLease
from radixway.routing.transports.upstream_response import (
    ResponseTooLargeError,
    TruncatedResponseError,
    UpstreamLostError,
    UpstreamResponse,
)

CHUNKS_PER_BLOCK = 16
"""An engine that streams sends an event for each token, so this many fill about a block of its cache."""


class WorkerEventStream(Chunks):
    """The events of one answer.

    What arrives after the last blank line is held back until its event is complete, so that an error event
    can follow at any time without landing in the middle of another. `on_end` gets whether the worker has
    sent all of it: not where it breaks off or has not shown its `end`. It is not called where a caller closes
    it before.
    """

    def __init__(
        self,
        answer: UpstreamResponse,
        worker: str,
        lease: WorkerLease,
        end: StreamEndDetector,
        on_end: Callable[[bool], None] = lambda is_complete: None,
        buffer: EventBuffer | None = None,
    ) -> None:
        self._answer = answer
        self._worker = worker
        self._lease = lease
        self._end = end
        self._on_end = on_end
        self._buffer = EventBuffer() if buffer is None else buffer
        self._first = b""
        """What `begin` has found."""
        self._checked = False
        self._cut: TruncatedResponseError | None = None
        """Why the finished answer is incomplete."""
        self._slow: asyncio.Task[None] | None = None
        self._chunks = 0

    async def wait_first_event(self) -> bool:
        """Wait for the first event; False if the stream ends without one.

        Raises UpstreamLostError, also for a stream that has ended by then and is not whole: another worker
        may be asked.
        """
        while not (first := self._take_events()) and not self._answer.complete:
            await self._answer.wait_arrival()
        if self._cut is not None:
            raise self._cut
        self._first = first
        return bool(first)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not (chunk := self._take_events()):
            if self._answer.complete:
                await self.aclose()
                if self._cut is not None:
                    raise self._broken_error(self._cut)
                self._on_end(True)
                raise StopAsyncIteration
            try:
                await self._answer.wait_arrival()
            except UpstreamLostError as error:
                await self.aclose()
                if self._end.has_end_marker():
                    self._on_end(True)
                    raise StopAsyncIteration from None
                raise self._broken_error(error) from error
        return chunk

    async def pass_on(self, send: SendChunk) -> None:
        """Send every chunk the moment it arrives, and return at the end. Raises StreamBrokenError.

        Does what `async for chunk in stream: await send(chunk)` does, without waking the task for each chunk:
        a third of a stream's CPU time. It is only woken by a slow client, and at the end.
        """
        self._send = send
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer.listener = self._push_arrived
        try:
            self._push_arrived()
            await self._ended
        finally:
            del self._send  # as in `MeteredChunks`
            self._answer.listener = None
            if self._slow is not None:
                self._slow.cancel()
                await asyncio.gather(self._slow, return_exceptions=True)

    async def aclose(self) -> None:
        self._answer.cancel_response()
        self._lease.release()

    def _take_events(self) -> bytes:
        """Return whole events; at the end also a rest that belongs to the answer."""
        answer, buffer = self._answer, self._buffer
        taken = buffer.take_events(answer.take_body())
        self._chunks += 1
        if not self._chunks % CHUNKS_PER_BLOCK:
            self._lease.add_output_blocks()
        if taken:
            self._end.note(taken)
        elif buffer.too_large:
            answer.fail_response(ResponseTooLargeError(buffer.max_event_bytes, "an event of its answer"))
        if answer.complete and not self._checked:
            taken += self._finish_events()
        if self._first:
            taken, self._first = self._first + taken, b""
        return taken

    def _finish_events(self) -> bytes:
        """Check completeness at the end; return a rest without a blank line."""
        self._checked = True
        try:
            return self._end.check_complete(self._buffer.take_rest())
        except IncompleteReplyError as error:
            self._cut = TruncatedResponseError(str(error))
            return b""

    def _broken_error(self, error: UpstreamLostError) -> StreamBrokenError:
        self._on_end(False)
        return StreamBrokenError(
            self._worker, str(error), truncated=isinstance(error, TruncatedResponseError)
        )

    def _push_arrived(self) -> None:
        """Send what arrived, unless an earlier chunk waits for a slow client."""
        if self._slow is not None or self._ended.done():
            return
        chunk = self._take_events()
        if chunk:
            try:
                sending = self._send(chunk)
                if sending is not SENT and (waits_for := _begin_await(sending)) is not None:
                    self._slow = asyncio.ensure_future(self._finish_send(waits_for))
                    return
            except Exception as error:  # noqa: BLE001 - it belongs to the task that waits in `pass_on`
                self._ended.set_exception(error)
                return
        lost = self._cut if self._answer.complete else self._answer.error
        if self._ended.done() or (lost is None and not self._answer.complete):
            return
        if lost is None or (lost is not self._cut and self._end.has_end_marker()):
            self._on_end(True)
            self._ended.set_result(None)
        else:
            self._ended.set_exception(self._broken_error(lost))

    async def _finish_send(self, sending: Awaitable[None]) -> None:
        """Finish a `send` that had to wait, then send what arrived in the meantime."""
        try:
            await sending
        except Exception as error:  # noqa: BLE001 - as above
            if not self._ended.done():
                self._ended.set_exception(error)
        else:
            self._slow = None
            self._push_arrived()


class _BegunAwait:
    """The rest of an await that has yielded `waits_for`."""

    __slots__ = ("_steps", "_waits_for")

    def __init__(self, steps: Generator[Any, Any, None], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    got = yield waits_for  # to our task, which takes it as its own
                except BaseException as error:  # noqa: BLE001 - it is for the coroutine to handle
                    waits_for = self._steps.throw(error)
                else:
                    waits_for = self._steps.send(got)
        except StopIteration:
            return


def _begin_await(sending: Awaitable[None]) -> Awaitable[None] | None:
    """Begin to await `sending`; None if it was done at once, which is the usual case."""
    steps = sending.__await__()
    try:
        return _BegunAwait(steps, next(steps))
    except StopIteration:
        return None

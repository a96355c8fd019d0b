"""A streamed answer: server-sent events as the worker wrote them, passed on whole."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Self

from radixway.pipeline import Chunks, StreamBroken
from radixway.routing import Lease
from radixway.transports.event_buffer import LARGEST_EVENT_BYTES, EventBuffer
from radixway.transports.upstream import Answer, Lost

SendChunk = Callable[[bytes], Coroutine[Any, Any, None]]

CHUNKS_PER_BLOCK = 16
"""An engine that streams sends an event for each token, so this many fill about a block of its cache."""


class EventStream(Chunks):
    """The events of one answer.

    What arrives after the last blank line is held back until its event is complete, so that an error event
    can follow at any time without landing in the middle of another. `on_break` is told when the worker breaks
    off.
    """

    def __init__(
        self, answer: Answer, worker: str, lease: Lease, on_break: Callable[[], None] = lambda: None
    ) -> None:
        self._answer = answer
        self._worker = worker
        self._lease = lease
        self._on_break = on_break
        self._buffer = EventBuffer()
        self._slow: asyncio.Task[None] | None = None
        self._chunks = 0

    async def begin(self) -> bool:
        """Wait for the first event; False if the stream ends without one. Raises Lost."""
        while not (first := self._take()):
            if self._answer.complete:
                return False
            await self._answer.wait()
        self._buffer.put_back(first)
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not (chunk := self._take()):
            if self._answer.complete:
                await self.aclose()
                raise StopAsyncIteration
            try:
                await self._answer.wait()
            except Lost as error:
                await self.aclose()
                raise self._broken(error) from error
        return chunk

    async def pass_on(self, send: SendChunk) -> None:
        """Send every chunk the moment it arrives, and return at the end. Raises StreamBroken.

        Does what `async for chunk in stream: await send(chunk)` does, without waking the task for each chunk:
        a third of a stream's CPU time. It is only woken by a slow client, and at the end.
        """
        self._send = send
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer.listener = self._push
        try:
            self._push()
            await self._ended
        finally:
            self._answer.listener = None
            if self._slow is not None:
                self._slow.cancel()
                await asyncio.gather(self._slow, return_exceptions=True)

    async def aclose(self) -> None:
        self._answer.close()
        self._lease.release()

    def _take(self) -> bytes:
        """The whole events that have arrived; at the end of the answer, all the rest."""
        chunk = self._answer.take()
        self._chunks += 1
        if not self._chunks % CHUNKS_PER_BLOCK:
            self._lease.output_block()
        taken = self._buffer.take(chunk, complete=self._answer.complete)
        if self._buffer.too_large:
            self._answer.break_off(f"an event of more than {LARGEST_EVENT_BYTES} bytes")
        return taken

    def _broken(self, error: Lost) -> StreamBroken:
        self._on_break()
        return StreamBroken(self._worker, str(error))

    def _push(self) -> None:
        """Something has arrived: send it now, unless an earlier chunk still waits for a slow client."""
        if self._slow is not None or self._ended.done():
            return
        chunk = self._take()
        if chunk:
            sending = self._send(chunk)
            try:
                waits_for = sending.send(None)
            except StopIteration:
                pass  # the usual case: it was written without waiting
            except Exception as error:  # noqa: BLE001 - it belongs to the task that waits in `pass_on`
                self._ended.set_exception(error)
                return
            else:
                self._slow = asyncio.ensure_future(self._finish(sending, waits_for))
                return
        if self._answer.complete:
            self._ended.set_result(None)
        elif self._answer.error is not None and not self._ended.done():
            self._ended.set_exception(self._broken(self._answer.error))

    async def _finish(self, sending: Coroutine[Any, Any, None], waits_for: Any) -> None:
        """Drive a `send` that had to wait to its end, then go on with what arrived meanwhile."""
        try:
            await _resume(sending, waits_for)
        except Exception as error:  # noqa: BLE001 - as above
            if not self._ended.done():
                self._ended.set_exception(error)
        else:
            self._slow = None
            self._push()


@types.coroutine
def _resume(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """Await a coroutine that has been started already and has yielded `waits_for`."""
    try:
        while True:
            try:
                got = yield waits_for  # to our task, which takes it as its own
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine to handle
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(got)
    except StopIteration:
        return

"""Streams of `/generate` that go on where a worker broke them off.

An event of a later attempt is rewritten to begin with what the earlier ones gave, or, in a stream that sends
only what is new, to go on from there.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Self

import msgspec

from radixway.core.http.server_sent_events import DONE_DATA, DONE_EVENT, event_data, split_events, write_event
from radixway.core.pipeline import Chunks, Reply
from radixway.trajectories.generate_events import (
    GenerateAttempt,
    fuller_reply,
    last_event,
    read_event,
    reply_delta,
)
from radixway.trajectories.partial_answer import Json, PartialAnswer, is_aborted
from radixway.trajectories.resumption import AnswerAttempts

_encode = msgspec.json.encode


class ResumedEvents(Chunks):
    """The events of a request's attempts as one stream; bytes pass through as they are until one aborts."""

    def __init__(self, attempts: AnswerAttempts, first: Reply, *, resumable: bool) -> None:
        """`first` is the reply to the first attempt; unless `resumable`, an abort is passed on."""
        assert first.chunks is not None
        self._attempts = attempts
        self._reply = first
        self._inner: Chunks = first.chunks
        self._resumable = resumable
        self._attempt = GenerateAttempt()
        self._last = b""
        """The chunk before, unless its events were read."""
        self._held = b""
        """The event that aborts, and what came after it."""
        self._broken_off: Json | None = None
        """The reply that the abort ended."""
        self._passed: Json | None = None
        """The reply as far as the client has seen it, as far as that is known."""
        self._incremental: bool | None = None
        """How the stream began; see `GenerateAttempt`."""
        self._ended = False
        self._events = self._iter_events()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def pass_on(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        async def relay(chunk: bytes) -> None:
            if passed := self._inspect_chunk(chunk):
                await send(passed)

        await self._inner.pass_on(relay)
        async with aclosing(self._later_attempts()) as rest:
            async for chunk in rest:
                await send(chunk)
        self._ended = True

    async def aclose(self) -> None:
        await self._events.aclose()
        await self._inner.aclose()
        unfinished, self._ended = not self._ended, True
        self._attempts.close_stream(unfinished=unfinished)

    async def _iter_events(self) -> AsyncGenerator[bytes]:
        async for chunk in self._inner:
            if passed := self._inspect_chunk(chunk):
                yield passed
        async with aclosing(self._later_attempts()) as rest:
            async for chunk in rest:
                yield chunk
        self._ended = True

    def _inspect_chunk(self, chunk: bytes) -> bytes:
        """What of a chunk goes to the client as it is: all, unless a worker breaks off."""
        if self._held:
            self._held += chunk
            return b""
        if not self._resumable or self._attempts.running.is_abort_requested:
            return chunk
        if not (self._attempt.is_incremental or b'"abort"' in chunk):
            self._last = chunk
            return chunk
        passed = 0
        for raw in split_events(chunk):
            event = read_event(raw)
            if event is not None:
                before = last_event(self._last) if self._last else self._attempt.whole
                whole, self._last = self._attempt.add_event(event), b""
                if is_aborted(whole):
                    self._held, self._broken_off = chunk[passed:], fuller_reply(before, whole)
                    break
                self._passed = whole
            passed += len(raw)
        return chunk[:passed]

    async def _later_attempts(self) -> AsyncGenerator[bytes]:
        """What follows the first attempt: the events of others, or the abort that it ended with."""
        if self._broken_off is None:
            return
        await self._inner.aclose()  # its place at the worker is free for the next attempt
        self._incremental = self._attempt.incremental
        going_on = (
            self._retried_events()
            if self._attempts.section.policy == "retry"
            else self._resumed_events(self._broken_off)
        )
        async with aclosing(going_on) as chunks:
            async for chunk in chunks:
                yield chunk
        if self._held:
            yield self._held

    async def _retried_events(self) -> AsyncGenerator[bytes]:
        """Whole attempts, for as long as the client has seen nothing."""
        for attempt in range(1, self._attempts.section.attempts):
            if self._passed is not None or self._broken_off is None:
                return
            reply = await self._attempts.retry_stream(attempt + 1)
            if reply is None or reply.chunks is None:
                return
            self._inner, self._attempt = reply.chunks, GenerateAttempt()
            self._last, self._held, self._broken_off = b"", b"", None
            async for chunk in self._inner:
                if passed := self._inspect_chunk(chunk):
                    yield passed
            await self._inner.aclose()

    async def _resumed_events(self, broken_off: Json) -> AsyncGenerator[bytes]:
        """The answer goes on, event by event, from what there was when a worker broke off.

        Where no other attempt could be made, what is held stays as it is.
        """
        resumption = self._attempts.start_resumption()
        answer = resumption.read_reply(broken_off)
        worker, going_on = self._reply.worker, False
        while answer is not None and answer.aborted:
            complete = resumption.complete_by_length(answer)
            if complete is not None:
                answer, going_on = complete, True
                break
            fresh = self._passed is None
            reply = await resumption.run_attempt(answer, worker, self._attempts.call_next, fresh=fresh)
            if reply is None or reply.chunks is None:
                break
            going_on = True
            worker, self._inner, self._attempt = reply.worker, reply.chunks, GenerateAttempt()
            before: Json | None = None
            async for raw, whole in self._iter_attempt():
                second = resumption.read_reply(fuller_reply(before, whole)) if whole is not None else None
                if second is None:
                    yield raw
                    if b'"error"' in raw:  # the attempt's last word
                        self._held = b""
                        return
                    continue
                before, answer = whole, await resumption.join_answer(second)
                if answer.meta.get("finish_reason") is not None:
                    break
                yield self._encode_answer(answer)
            await self._inner.aclose()
        if going_on and answer is not None:
            self._held = self._encode_answer(answer) + DONE_EVENT

    async def _iter_attempt(self) -> AsyncIterator[tuple[bytes, Json | None]]:
        """The events of a later attempt, and what it has given after each; None where that is no answer."""
        async for chunk in self._inner:
            for raw in split_events(chunk):
                event = read_event(raw)
                if event is not None:
                    yield raw, self._attempt.add_event(event)
                elif event_data(raw) != DONE_DATA:
                    yield raw, None

    def _encode_answer(self, answer: PartialAnswer) -> bytes:
        """The answer so far as the client's next event, in the way its stream began."""
        if self._incremental is None:
            self._incremental = self._attempt.incremental
        reply = answer.reply
        if self._incremental and self._passed is not None:
            reply = reply_delta(reply, self._passed)
        self._passed = answer.reply
        return write_event(_encode(reply))

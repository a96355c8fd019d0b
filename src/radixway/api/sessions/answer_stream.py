"""The events of an answer in the agent's protocol, as the worker's events come."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Self

from radixway.api.sessions.agent_call import AgentCall
from radixway.core.http import HttpError
from radixway.core.pipeline import Chunks, StreamBrokenError


class AnswerEvents(Chunks):
    """Translates a stream, and keeps the call when it ends, however it does."""

    def __init__(self, call: AgentCall, inner: Chunks, worker: str) -> None:
        self._call = call
        self._inner = inner
        self._worker = worker
        self._writer = call.adapter.create_event_writer(call.request, call.metadata)
        self._events = self._iterate_events()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    def encode_failure(self, error: HttpError) -> bytes:
        """Encode the last events of a stream that `error` breaks off."""
        return self._writer.encode_failure(error)

    async def aclose(self) -> None:
        try:
            await self._events.aclose()
            await self._inner.aclose()
        finally:
            self._call.guarded_answer.close_guard()
            await self._call.save_partial_answer()

    async def _iterate_events(self) -> AsyncGenerator[bytes]:
        if begun := self._writer.encode_start():
            yield begun
        passing = self._call.guarded_answer
        async with aclosing(passing.with_deadline(self._inner)) as chunks:
            async for chunk in chunks:
                growth = await (
                    passing.release_held_back()
                    if chunk is None
                    else passing.apply_delta(self._call.reader.read_events(chunk))
                )
                if events := self._writer.encode_delta(growth):
                    yield events
                if passing.stopped:
                    break
        if not (self._call.reader.is_finished or passing.stopped):
            raise StreamBrokenError(self._worker, "no finish reason")
        rest, ending = await self._call.save_answer()
        last = self._writer.encode_delta(await passing.apply_delta(rest, last=True))
        yield last + self._writer.encode_end(passing.finish_info(ending))

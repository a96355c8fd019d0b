"""The events of an answer in the agent's protocol, as the worker's events come."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Self

from radixway.pipeline import Chunks, StreamBroken
from radixway.web import HttpError

if TYPE_CHECKING:
    from radixway.surfaces.agents.road import AgentCall


class AnswerEvents(Chunks):
    """Translates a stream, and keeps the call when it ends, however it does."""

    def __init__(self, call: AgentCall, inner: Chunks, worker: str) -> None:
        self._call = call
        self._inner = inner
        self._worker = worker
        self._writer = call.wire.events(call.ask, call.head)
        self._events = self._all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    def fail(self, error: HttpError) -> bytes:
        """The last events of a stream that breaks off."""
        return self._writer.fail(error)

    async def aclose(self) -> None:
        try:
            await self._events.aclose()
            await self._inner.aclose()
        finally:
            self._call.passing.close()
            await self._call.break_off()

    async def _all(self) -> AsyncGenerator[bytes]:
        if begun := self._writer.begin():
            yield begun
        passing = self._call.passing
        async with aclosing(passing.patient(self._inner)) as chunks:
            async for chunk in chunks:
                growth = await (
                    passing.hurry() if chunk is None else passing.grow(self._call.heard.hear(chunk))
                )
                if events := self._writer.grow(growth):
                    yield events
                if passing.stopped:
                    break
        if not (self._call.heard.ended or passing.stopped):
            raise StreamBroken(self._worker, "no finish reason")
        rest, ending = await self._call.keep()
        last = self._writer.grow(await passing.grow(rest, last=True))
        yield last + self._writer.end(passing.ending(ending))

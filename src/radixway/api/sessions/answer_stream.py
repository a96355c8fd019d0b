"""The events of an answer in the agent's protocol, as the worker's events come.

An answer on its way to the client, past the guard where there is one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from radixway.api.protocols import AnswerDelta, FinishInfo, GeneratedAnswer, SampledTokenLogprob
from radixway.core.http import HttpError
from radixway.core.parsers import ReadPart
from radixway.core.pipeline import Chunks, StreamBrokenError

if TYPE_CHECKING:
    from radixway.api.sessions.dispatch import AgentCall
    from radixway.semantics.guard.answers.guarded_parts import GuardedParts
    from radixway.semantics.guard.answers.guarded_reply import DeadlineStream


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
        """The last events of a stream that breaks off."""
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


class GuardedAnswer:
    """What the client gets of an answer: all of it, unless a guard has a say.

    Tokens and log-probabilities of a guarded answer come at its end, if nothing of it was changed: they tell
    what the model wrote.
    """

    def __init__(self, guard: GuardedParts | None = None) -> None:
        self._guard = guard
        self._ids: list[int] = []
        self._scores: list[SampledTokenLogprob] = []
        self.answer = GeneratedAnswer()
        """What has passed so far."""

    @property
    def stopped(self) -> bool:
        """The guard has ended the answer."""
        return self._guard is not None and self._guard.stopped

    def with_deadline(self, chunks: Chunks) -> Chunks | DeadlineStream:
        """The worker's chunks, and None where what is held back has waited long enough."""
        if (guard := self._guard) is None:
            return chunks
        from radixway.semantics.guard.answers.guarded_reply import DeadlineStream

        return DeadlineStream(chunks, lambda: guard.has_pending, guard.longest_wait_s)

    async def release_held_back(self) -> AnswerDelta:
        """What has waited long enough."""
        growth = AnswerDelta() if self._guard is None else AnswerDelta(await self._guard.release_overdue())
        self.answer.apply_delta(growth)
        return growth

    async def apply_delta(self, growth: AnswerDelta, *, last: bool = False) -> AnswerDelta:
        """What passes now; with the `last` growth, all that is left."""
        guard = self._guard
        if guard is not None:
            parts: list[ReadPart] = await guard.add_parts(growth.parts)
            self._ids += growth.token_ids
            self._scores += growth.scores
            if last:
                parts += await guard.finish_parts()
            tells = last and not guard.changed
            growth = AnswerDelta(parts, self._ids if tells else (), self._scores if tells else ())
        self.answer.apply_delta(growth)
        return growth

    def finish_info(self, ending: FinishInfo) -> FinishInfo:
        """How it ends for the client."""
        return replace(ending, reason="content_filter", stop=None) if self.stopped else ending

    def close_guard(self) -> None:
        """It is over, however. May be called again."""
        if self._guard is not None:
            self._guard.close()

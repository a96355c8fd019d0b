"""One call of an agent: its prompt, its answer as far as the guard lets it pass, its events, its end."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from radixway.api.sessions.model_codec import GenerateResponseReader, ModelCodec
from radixway.api.sessions.session_service import SessionService
from radixway.core.http import HttpError
from radixway.core.parsers import ReadPart
from radixway.core.pipeline import Chunks, GatewayError, StreamBrokenError
from radixway.core.protocols import (
    AnswerDelta,
    FinishInfo,
    GeneratedAnswer,
    NormalizedRequest,
    ProtocolAdapter,
    ReplyMetadata,
    SampledTokenLogprob,
)
from radixway.trajectories.sessions import AgentSession, PendingCall, SessionPrompt
from radixway.trajectories.sessions.prompt_builder import merge_messages

if TYPE_CHECKING:
    from radixway.semantics.guard.answers.guarded_reply import DeadlineStream, GuardedParts

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class AgentCall:
    """An agent's call, from its prompt to its end."""

    session_service: SessionService
    session: AgentSession
    turn: PendingCall
    prompt: SessionPrompt
    codec: ModelCodec
    request: NormalizedRequest
    adapter: ProtocolAdapter
    metadata: ReplyMetadata
    reader: GenerateResponseReader
    guarded_answer: GuardedAnswer
    experts_start: int = 0
    is_over: bool = False

    @property
    def prompt_tokens(self) -> int:
        """Tokens that the worker is given."""
        return self.turn.sampled_at

    async def save_answer(self) -> tuple[AnswerDelta, FinishInfo]:
        """Save the answer, which has ended or broken off, as a call of the session.

        Returns the text that was held back, and how the answer ended. Raises WorkerRefusedError if the worker
        does not report what it sampled, SessionLimitError, SessionArchiveError.
        """
        self.is_over = True
        try:
            sampled = self.reader.sampled_tokens()
        except BaseException:
            self.session.drop_call(self.turn)
            raise
        rest = self.reader.flush_held_back()
        await self.session_service.record_call(
            self.session,
            self.turn,
            self.metadata.id,
            sampled,
            self.codec,
            answer=self._message(),
            finish=self.reader.finish_reason,
            stop=self.reader.stop_string,
            wire=self.adapter.name,
            experts_start=self.experts_start,
        )
        return rest, self.reader.finish_info(self.prompt_tokens, sampled)

    async def save_partial_answer(self) -> None:
        """Save what was sampled as an unfinished call, after the client left. May be called again."""
        if self.is_over:
            return
        try:
            if self.reader.begun and self.reader.sampled_tokens().ids:
                await self.save_answer()
        except GatewayError as error:
            log.warning("an unfinished call of session %s is lost: %s", self.session.id, error.code)
        finally:
            self.is_over = True
            self.session.drop_call(self.turn)

    def _message(self) -> dict[str, Any]:
        message = self.reader.answer.to_message()
        if self.request.prompt is not None:
            return {"role": "completion", "content": self.reader.answer.content}
        if self.prompt.resumes and self.prompt.parent is not None:
            return merge_messages(self.prompt.parent.answer, message)
        return message if self.prompt.prefix is None else merge_messages(self.prompt.prefix, message)


class GuardedAnswer:
    """The answer as its client gets it: all of it, unless a guard stops or changes it.

    Tokens and log-probabilities of a guarded answer come at its end, and only if nothing was changed: they
    reveal what the model wrote.
    """

    def __init__(self, guard: GuardedParts | None = None) -> None:
        self._guard = guard
        self._ids: list[int] = []
        self._scores: list[SampledTokenLogprob] = []
        self.answer = GeneratedAnswer()

    @property
    def stopped(self) -> bool:
        """The guard has ended the answer."""
        return self._guard is not None and self._guard.stopped

    def with_deadline(self, chunks: Chunks) -> Chunks | DeadlineStream:
        """Iterate over the worker's `chunks`, and None where what is held back has waited long enough."""
        if (guard := self._guard) is None:
            return chunks
        from radixway.semantics.guard.answers.guarded_reply import DeadlineStream

        return DeadlineStream(chunks, lambda: guard.has_pending, guard.longest_wait_s)

    async def release_held_back(self) -> AnswerDelta:
        """Release what has waited long enough."""
        growth = AnswerDelta() if self._guard is None else AnswerDelta(await self._guard.release_overdue())
        self.answer.apply_delta(growth)
        return growth

    async def apply_delta(self, growth: AnswerDelta, *, last: bool = False) -> AnswerDelta:
        """Add `growth`, and return what passes now; with the `last` one, all that is left."""
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
        """Return `ending` as the client sees it."""
        return replace(ending, reason="content_filter", stop=None) if self.stopped else ending

    def close_guard(self) -> None:
        """Close the guard. May be called again."""
        if self._guard is not None:
            self._guard.close()


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

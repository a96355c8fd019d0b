"""An answer on its way to the client, past the guard where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from radixway.parsers import ReadPart
from radixway.pipeline import Chunks
from radixway.surfaces.wires import AnswerDelta, FinishInfo, GeneratedAnswer, SampledTokenLogprob

if TYPE_CHECKING:
    from radixway.guard.answers.parts import GuardedParts
    from radixway.guard.answers.patience import DeadlineStream


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
        from radixway.guard.answers.patience import DeadlineStream

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

"""An answer on its way to the client, past the guard where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from radixway.parsers import ReadPart
from radixway.pipeline import Chunks
from radixway.surfaces.wires import Answer, Ending, Growth, TokenScore

if TYPE_CHECKING:
    from radixway.guard.answers.parts import GuardedParts
    from radixway.guard.answers.patience import Patient


class Passing:
    """What the client gets of an answer: all of it, unless a guard has a say.

    Tokens and log-probabilities of a guarded answer come at its end, if nothing of it was changed: they tell
    what the model wrote.
    """

    def __init__(self, guard: GuardedParts | None = None) -> None:
        self._guard = guard
        self._ids: list[int] = []
        self._scores: list[TokenScore] = []
        self.answer = Answer()
        """What has passed so far."""

    @property
    def stopped(self) -> bool:
        """The guard has ended the answer."""
        return self._guard is not None and self._guard.stopped

    def patient(self, chunks: Chunks) -> Chunks | Patient:
        """The worker's chunks, and None where what is held back has waited long enough."""
        if (guard := self._guard) is None:
            return chunks
        from radixway.guard.answers.patience import Patient

        return Patient(chunks, lambda: guard.waits, guard.longest_wait_s)

    async def hurry(self) -> Growth:
        """What has waited long enough."""
        growth = Growth() if self._guard is None else Growth(await self._guard.hurry())
        self.answer.grow(growth)
        return growth

    async def grow(self, growth: Growth, *, last: bool = False) -> Growth:
        """What passes now; with the `last` growth, all that is left."""
        guard = self._guard
        if guard is not None:
            parts: list[ReadPart] = await guard.grow(growth.parts)
            self._ids += growth.token_ids
            self._scores += growth.scores
            if last:
                parts += await guard.end()
            tells = last and not guard.changed
            growth = Growth(parts, self._ids if tells else (), self._scores if tells else ())
        self.answer.grow(growth)
        return growth

    def ending(self, ending: Ending) -> Ending:
        """How it ends for the client."""
        return replace(ending, reason="content_filter", stop=None) if self.stopped else ending

    def close(self) -> None:
        """It is over, however. May be called again."""
        if self._guard is not None:
            self._guard.close()

"""Asks the finder and the judge about texts, each text once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

from radixway.guard.counts import Counts
from radixway.guard.known import KnownTexts
from radixway.guard.policy import Judged, Located
from radixway.guard.texts import Passage
from radixway.pipeline import Attack, AttackJudge, PersonalData, PersonalDataFinder

log = logging.getLogger(__name__)

T = TypeVar("T")


class TurnsJudge(AttackJudge, Protocol):
    """A judge that knows who speaks, and that some attacks take several turns."""

    async def judge_passage(self, passage: Passage) -> Attack:
        """Of one passage alone. Raises GuardUnavailable."""
        ...

    async def judge_turns(self, texts: Sequence[str], alone: Sequence[Attack]) -> Attack:
        """What a user's turns make together; `alone`: what each is by itself. Raises GuardUnavailable."""
        ...


_KNOWN = 8192
"""Texts whose findings are kept, for each guard."""


class Failed(Exception):
    """A guard could not read the texts."""


class Scan:
    """Both guards of a gateway. What was found in a text is known when the text comes again."""

    def __init__(
        self,
        finder: PersonalDataFinder,
        judge: TurnsJudge,
        counts: Counts,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.finder = finder
        self.judge = judge
        self._counts = counts
        self._clock = clock
        self._personal = KnownTexts[tuple[PersonalData, ...]](_KNOWN)
        self._attacks = KnownTexts[Attack](_KNOWN)

    async def personal_data(self, passages: Sequence[Passage]) -> list[Located]:
        """Findings of any confidence, in the order of the passages. Raises Failed."""

        async def find() -> list[Located]:
            found: list[Located] = []
            for passage in passages:
                known = self._personal.get(passage.text)
                if known is None:
                    known = tuple(await self.finder.find(passage.text))
                    self._personal.keep(passage.text, known)
                found += (Located(passage, each) for each in known)
            return found

        return await self._timed("pii", find())

    async def attacks(self, passages: Iterable[Passage]) -> list[Judged]:
        """Every passage, judged. Raises Failed."""

        async def judge() -> list[Judged]:
            judged: list[Judged] = []
            for passage in passages:
                known = self._attacks.get(passage.text, passage.speaker)
                if known is None:
                    known = await self.judge.judge_passage(passage)
                    self._attacks.keep(passage.text, known, passage.speaker)
                judged.append(Judged(passage, known))
            turns = [each for each in judged if each.passage.speaker == "user"]
            if len(turns) > 1:  # what they build up to together counts as said in the last one
                texts = [each.passage.text for each in turns]
                together = await self.judge.judge_turns(texts, [each.attack for each in turns])
                judged.append(Judged(turns[-1].passage, together))
            return judged

        return await self._timed("jailbreak", judge())

    async def _timed(self, guard: str, work: Awaitable[T]) -> T:
        began = self._clock()
        try:
            result = await work
        except Exception as error:
            log.warning("guard: %s failed: %s", guard, type(error).__name__)
            self._counts.failed(guard, type(error).__name__)
            raise Failed(guard) from error
        self._counts.took(guard, self._clock() - began)
        return result

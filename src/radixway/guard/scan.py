"""Asks the finder and the judge about texts, each text once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

from radixway.guard.counts import Counts
from radixway.guard.known import KnownTexts
from radixway.guard.policy import Judged, Located
from radixway.guard.texts import Passage
from radixway.guard.threads import in_turn, run_steps
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


_AT_ONCE = 256
"""Texts."""
_KNOWN = 65_536
"""Texts and findings in them that are kept, for each guard."""


async def _let_others(at: int) -> None:
    """Very many texts, most of them known, keep neither other requests nor their own time limit waiting."""
    if at % _AT_ONCE == _AT_ONCE - 1:
        await asyncio.sleep(0)


class Failed(Exception):
    """A guard could not read all texts."""

    def __init__(self, guard: str) -> None:
        super().__init__(guard)
        self.found: list[Located] = []
        """What has a form is found all the same."""
        self.judged: list[Judged] = []
        """What is said in known words is judged all the same."""


class Scan:
    """Both guards of a gateway. What was found in a text is known when the text comes again."""

    def __init__(
        self,
        finder: PersonalDataFinder,
        judge: TurnsJudge,
        counts: Counts,
        *,
        wait_s: float,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`wait_s`: how long a request waits for either; what was read by then is known from then on."""
        self.finder = finder
        self.judge = judge
        self._counts = counts
        self._wait_s = wait_s
        self._clock = clock
        self._personal = KnownTexts[tuple[PersonalData, ...]](_KNOWN)
        self._attacks = KnownTexts[Attack](_KNOWN)

    async def personal_data(self, passages: Sequence[Passage]) -> list[Located]:
        """Findings of any confidence, in the order of the passages. Raises Failed."""
        try:
            return await self._timed("pii", self._find(passages))
        except Failed as failed:
            from radixway.guard.pii.recognisers import structured_steps

            known = {each.text: self._personal.get(each.text) for each in passages}
            unread = [text for text, found in known.items() if found is None]
            read = await run_steps(in_turn(unread, structured_steps, len))
            all_found = known | dict(zip(unread, read, strict=True))
            failed.found = [
                Located(passage, each) for passage in passages for each in all_found[passage.text] or ()
            ]
            raise

    async def attacks(self, passages: Sequence[Passage]) -> list[Judged]:
        """Every passage, judged. Raises Failed."""
        try:
            return await self._timed("jailbreak", self._judge(passages))
        except Failed as failed:
            from radixway.guard.jailbreak import wordings_steps

            found = await run_steps(wordings_steps(passages))
            failed.judged = [Judged(*each) for each in zip(passages, found, strict=True)]
            raise

    async def _find(self, passages: Sequence[Passage]) -> list[Located]:
        found: list[Located] = []
        for at, passage in enumerate(passages):
            await _let_others(at)
            known = self._personal.get(passage.text)
            if known is None:
                known = tuple(await self.finder.find(passage.text))
                self._personal.keep(passage.text, known, findings=len(known))
            found += (Located(passage, each) for each in known)
        return found

    async def _judge(self, passages: Sequence[Passage]) -> list[Judged]:
        judged: list[Judged] = []
        for at, passage in enumerate(passages):
            await _let_others(at)
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

    async def _timed(self, guard: str, work: Awaitable[T]) -> T:
        began = self._clock()
        try:
            async with asyncio.timeout(self._wait_s):
                result = await work
        except Exception as error:
            log.warning("guard: %s failed: %s", guard, type(error).__name__)
            self._counts.failed(guard, type(error).__name__)
            raise Failed(guard) from error
        self._counts.took(guard, self._clock() - began)
        return result

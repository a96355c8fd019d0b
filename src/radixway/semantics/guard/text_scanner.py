"""Asks the finder and the judge about texts, each text once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

from radixway.core.pipeline import AttackAssessment, AttackJudge, PersonalDataFinder, PersonalDataSpan
from radixway.semantics.guard.findings_cache import FindingsCache
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.passages import TextPassage
from radixway.semantics.guard.policy import LocatedAttack, LocatedPersonalData
from radixway.semantics.guard.step_executor import run_steps, steps_in_turn

log = logging.getLogger(__name__)

T = TypeVar("T")


class ConversationJudge(AttackJudge, Protocol):
    """A judge that knows who speaks, and that some attacks take several turns."""

    async def judge_passage(self, passage: TextPassage) -> AttackAssessment:
        """Of one passage alone. Raises GuardUnavailable."""
        ...

    async def judge_turns(self, texts: Sequence[str], alone: Sequence[AttackAssessment]) -> AttackAssessment:
        """Judge a user's turns together; `alone`: what each of `texts` is. Raises GuardUnavailableError."""
        ...


_AT_ONCE = 256
"""Texts."""
_KNOWN = 65_536
"""Texts and findings in them that are kept, for each guard."""


async def _yield_to_others(at: int) -> None:
    """Very many texts, most of them known, keep neither other requests nor their own time limit waiting."""
    if at % _AT_ONCE == _AT_ONCE - 1:
        await asyncio.sleep(0)


class ScanFailedError(Exception):
    """A guard could not read all texts."""

    def __init__(self, guard: str) -> None:
        super().__init__(guard)
        self.found: list[LocatedPersonalData] = []
        """What has a form is found all the same."""
        self.judged: list[LocatedAttack] = []
        """What is said in known words is judged all the same."""


class TextScanner:
    """Both guards of a gateway. What was found in a text is known when the text comes again."""

    def __init__(
        self,
        finder: PersonalDataFinder,
        judge: ConversationJudge,
        counts: GuardMetrics,
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
        self._personal = FindingsCache[tuple[PersonalDataSpan, ...]](_KNOWN)
        self._attacks = FindingsCache[AttackAssessment](_KNOWN)

    async def find_personal_data(self, passages: Sequence[TextPassage]) -> list[LocatedPersonalData]:
        """Findings of any confidence, in the order of the passages. Raises ScanFailedError."""
        try:
            return await self._scan_timed("pii", self._scan_personal_data(passages))
        except ScanFailedError as failed:
            from radixway.semantics.guard.pii.recognisers import find_structured_steps

            known = {each.text: self._personal.find_known(each.text) for each in passages}
            unread = [text for text, found in known.items() if found is None]
            read = await run_steps(steps_in_turn(unread, find_structured_steps, len))
            all_found = known | dict(zip(unread, read, strict=True))
            failed.found = [
                LocatedPersonalData(passage, each)
                for passage in passages
                for each in all_found[passage.text] or ()
            ]
            raise

    async def find_attacks(self, passages: Sequence[TextPassage]) -> list[LocatedAttack]:
        """Judge each of `passages`. Raises ScanFailedError."""
        try:
            return await self._scan_timed("jailbreak", self._scan_attacks(passages))
        except ScanFailedError as failed:
            from radixway.semantics.guard.jailbreak import pattern_attacks_steps

            found = await run_steps(pattern_attacks_steps(passages))
            failed.judged = [LocatedAttack(*each) for each in zip(passages, found, strict=True)]
            raise

    async def _scan_personal_data(self, passages: Sequence[TextPassage]) -> list[LocatedPersonalData]:
        found: list[LocatedPersonalData] = []
        for at, passage in enumerate(passages):
            await _yield_to_others(at)
            known = self._personal.find_known(passage.text)
            if known is None:
                known = tuple(await self.finder.find(passage.text))
                self._personal.store_findings(passage.text, known, findings=len(known))
            found += (LocatedPersonalData(passage, each) for each in known)
        return found

    async def _scan_attacks(self, passages: Sequence[TextPassage]) -> list[LocatedAttack]:
        judged: list[LocatedAttack] = []
        for at, passage in enumerate(passages):
            await _yield_to_others(at)
            known = self._attacks.find_known(passage.text, passage.speaker)
            if known is None:
                known = await self.judge.judge_passage(passage)
                self._attacks.store_findings(passage.text, known, passage.speaker)
            judged.append(LocatedAttack(passage, known))
        turns = [each for each in judged if each.passage.speaker == "user"]
        if len(turns) > 1:  # what they build up to together counts as said in the last one
            texts = [each.passage.text for each in turns]
            together = await self.judge.judge_turns(texts, [each.attack for each in turns])
            judged.append(LocatedAttack(turns[-1].passage, together))
        return judged

    async def _scan_timed(self, guard: str, work: Awaitable[T]) -> T:
        began = self._clock()
        try:
            async with asyncio.timeout(self._wait_s):
                result = await work
        except Exception as error:
            log.warning("guard: %s failed: %s", guard, type(error).__name__)
            self._counts.count_failure(guard, type(error).__name__)
            raise ScanFailedError(guard) from error
        self._counts.observe_scan(guard, self._clock() - began)
        return result

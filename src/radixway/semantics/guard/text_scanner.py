"""Asks the finder and the judge about texts, each text once."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from time import perf_counter
from typing import TYPE_CHECKING, Generic, TypeVar

from radixway.core.pipeline import AttackAssessment, PersonalDataFinder, PersonalDataSpan
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.passages import TextPassage
from radixway.semantics.guard.policy import LocatedAttack, LocatedPersonalData
from radixway.semantics.guard.step_executor import run_steps, steps_in_turn

if TYPE_CHECKING:
    from radixway.semantics.guard.jailbreak import DefaultAttackJudge

log = logging.getLogger(__name__)

T = TypeVar("T")

_TEXTS_AT_ONCE = 256
_MAX_CACHED = 65_536
"""Texts and findings in them that are cached, for each guard."""


class FindingsCache(Generic[T]):
    """Findings in texts that may come again, as a conversation's history does: those used latest.

    Texts are not kept, but a digest of each, under a random key, so that texts cannot be tested against it.
    Belongs to one event loop.
    """

    def __init__(self, capacity: int) -> None:
        """`capacity`: of all findings together; each text counts as one more."""
        self._capacity = capacity
        self._key = secrets.token_bytes(16)
        self._found: OrderedDict[bytes, tuple[T, int]] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._found)

    def find_known(self, text: str, speaker: str = "") -> T | None:
        """Return the findings in `text`, if known. `speaker`: where they depend on who says it."""
        digest = self._digest(text, speaker)
        known = self._found.get(digest)
        if known is None:
            return None
        self._found.move_to_end(digest)
        return known[0]

    def store_findings(self, text: str, found: T, speaker: str = "", *, findings: int = 0) -> None:
        """Store what was `found` in `text`, which counts as so many `findings`."""
        digest = self._digest(text, speaker)
        self._weight -= self._found.pop(digest, (found, 0))[1]
        self._found[digest] = found, findings + 1
        self._weight += findings + 1
        while self._weight > self._capacity:
            self._weight -= self._found.popitem(last=False)[1][1]

    def check(self) -> None:
        """Raise AssertionError if it holds more than it may, or counts wrongly."""
        assert self._weight == sum(weight for _, weight in self._found.values())
        assert self._weight <= self._capacity

    def _digest(self, text: str, speaker: str) -> bytes:
        raw = text.encode("utf-8", "surrogatepass")
        return blake2b(raw, digest_size=16, key=self._key, person=speaker.encode()).digest()


async def _yield_to_others(at: int) -> None:
    """Let other requests, and the time limit, go on between very many texts that are all known."""
    if at % _TEXTS_AT_ONCE == _TEXTS_AT_ONCE - 1:
        await asyncio.sleep(0)


class ScanFailedError(Exception):
    """A guard could not read all texts. Findings that need no classifier are still complete."""

    def __init__(self, guard: str) -> None:
        super().__init__(guard)
        self.found: list[LocatedPersonalData] = []
        self.judged: list[LocatedAttack] = []


class TextScanner:
    """Asks both guards of a gateway, and caches what they found in a text."""

    def __init__(
        self,
        finder: PersonalDataFinder,
        judge: DefaultAttackJudge,
        counts: GuardMetrics,
        *,
        wait_s: float,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`wait_s`: how long a request waits for either guard; what was read by then stays known."""
        self.finder = finder
        self.judge = judge
        self._counts = counts
        self._wait_s = wait_s
        self._clock = clock
        self._personal = FindingsCache[tuple[PersonalDataSpan, ...]](_MAX_CACHED)
        self._attacks = FindingsCache[AttackAssessment](_MAX_CACHED)

    async def find_personal_data(self, passages: Sequence[TextPassage]) -> list[LocatedPersonalData]:
        """Return findings of any confidence, in the order of `passages`. Raises ScanFailedError."""
        try:
            return await self._scan_timed("pii", self._scan_personal_data(passages))
        except ScanFailedError as failed:
            failed.found = await self._without_failing("pii", self._find_by_form(passages)) or []
            raise

    async def find_attacks(self, passages: Sequence[TextPassage]) -> list[LocatedAttack]:
        """Judge each of `passages`. Raises ScanFailedError."""
        try:
            return await self._scan_timed("jailbreak", self._scan_attacks(passages))
        except ScanFailedError as failed:
            failed.judged = await self._without_failing("jailbreak", self._judge_by_wording(passages)) or []
            raise

    async def _find_by_form(self, passages: Sequence[TextPassage]) -> list[LocatedPersonalData]:
        """Find what is known without a classifier."""
        from radixway.semantics.guard.pii.recognisers import find_structured_steps

        known = {passage.text: self._personal.find_known(passage.text) for passage in passages}
        unread = [text for text, found in known.items() if found is None]
        read = await run_steps(steps_in_turn(unread, find_structured_steps, len))
        all_found = known | dict(zip(unread, read, strict=True))
        return [
            LocatedPersonalData(passage, span)
            for passage in passages
            for span in all_found[passage.text] or ()
        ]

    async def _judge_by_wording(self, passages: Sequence[TextPassage]) -> list[LocatedAttack]:
        """Judge by known wordings alone."""
        from radixway.semantics.guard.jailbreak import pattern_attacks_steps

        found = await run_steps(pattern_attacks_steps(passages))
        return [LocatedAttack(*pair) for pair in zip(passages, found, strict=True)]

    async def _without_failing(self, guard: str, work: Awaitable[T]) -> T | None:
        """Return what `work` returns; None where it fails as well, so that `on_error` decides, not a 500."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - whatever it is, the request was not read
            log.warning("guard: %s failed again, by form and wording: %s", guard, type(error).__name__)
            return None

    async def _scan_personal_data(self, passages: Sequence[TextPassage]) -> list[LocatedPersonalData]:
        found: list[LocatedPersonalData] = []
        for at, passage in enumerate(passages):
            await _yield_to_others(at)
            known = self._personal.find_known(passage.text)
            if known is None:
                known = tuple(await self.finder.find(passage.text))
                self._personal.store_findings(passage.text, known, findings=len(known))
            found += (LocatedPersonalData(passage, span) for span in known)
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
        turns = [turn for turn in judged if turn.passage.speaker == "user"]
        if len(turns) > 1:  # what they build up to together counts as said in the last one
            texts = [turn.passage.text for turn in turns]
            together = await self.judge.judge_turns(texts, [turn.attack for turn in turns])
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

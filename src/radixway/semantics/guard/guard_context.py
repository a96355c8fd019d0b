"""One request before the guard: its texts, what was found in them, and what that means for models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from radixway.core.pipeline import Request
from radixway.core.telemetry import Journal
from radixway.semantics.guard.incident import GuardFinding, GuardIncident, IncidentRecorder
from radixway.semantics.guard.passages import RequestTexts
from radixway.semantics.guard.policy import (
    LocatedAttack,
    LocatedPersonalData,
    PiiVerdict,
    filter_findings,
    judge_pii,
)
from radixway.semantics.guard.redaction import PlaceholderVault
from radixway.semantics.guard.rulebook import GuardRules
from radixway.semantics.guard.text_scanner import TextScanner

T = TypeVar("T")


class GuardContext:
    """A `pipeline.Clearance`. Texts are read in tasks of their own, once however many ask."""

    def __init__(
        self,
        scan: TextScanner,
        texts: RequestTexts,
        rules_of: Callable[[str | None, str | None], GuardRules],
        recorder: IncidentRecorder | None,
        asked: str | None,
        journal: Journal,
    ) -> None:
        """`rules_of`: a category and a decision, each if known. `asked`: the model that the client names.
        `journal`: the request's.
        """
        self.asked = asked
        self.texts = texts
        self.rules_of = rules_of
        self.rules = rules_of(None, None)
        self.found: list[LocatedPersonalData] = []
        """Personal data that counts, once it is known."""
        self.hidden: frozenset[str] = frozenset()
        """Types that the request shows no more."""
        self.is_partly_read = False
        """Of personal data only what has a form was found, and that suffices here (`on_error: allow`)."""
        self.vault: PlaceholderVault | None = None
        """What placeholders in the request stand for, where there are any."""
        self.notes: list[str] = []
        """For the header: `error pii`, `report jailbreak` …"""
        self._scan = scan
        self._recorder = recorder
        self._journal = journal
        self._recorded: set[tuple[str, str, str | None]] = set()
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def start_scans(self) -> None:
        """Start with what is to be looked for in any case."""
        if self.rules.pii.enabled:
            self._personal_data_task()
        if self.rules.jailbreak.enabled:
            self._attacks_task()

    async def personal_data(self) -> list[LocatedPersonalData]:
        """Everything that was found, of any confidence. Raises Failed."""
        return await asyncio.shield(self._personal_data_task())

    async def attacks(self) -> list[LocatedAttack]:
        """Every passage, judged. Raises Failed."""
        return await asyncio.shield(self._attacks_task())

    async def cancel_scans(self) -> None:
        """Nobody waits any more for what is not known yet."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()  # one that failed has this review in its traceback

    async def rescan_texts(self, texts: RequestTexts) -> list[LocatedPersonalData]:
        """What counts in these texts: the request's as they are now. Raises Failed."""
        return filter_findings(await self._scan.find_personal_data(texts.passages), self.rules.pii)

    def judge_model(self, model: str | None) -> PiiVerdict:
        """What becomes of the request, as it is now, if that model is to answer it."""
        types = frozenset(each.found.type for each in self.found)
        return judge_pii(self.rules.pii, model, types - self.hidden)

    def may_show(self, model: str) -> bool:
        """See `GuardClearance`."""
        return self.judge_model(model).action in (None, "report")

    @property
    def fallback_model(self) -> str | None:
        """See `GuardClearance`."""
        return self.rules.pii.route_to if self.judge_model(None).action == "route" else None

    def record_findings(
        self,
        request: Request,
        rule: str,
        action: str,
        findings: tuple[GuardFinding, ...] = (),
        model: str | None = None,
        **notes: str,
    ) -> None:
        """Tell the recorder, once of each thing that is done."""
        key = rule, action, model
        if self._recorder is None or request.is_dry_run or key in self._recorded:
            return
        self._recorded.add(key)
        said: Mapping[str, str] | None = notes or None
        self._recorder.record_incident(
            GuardIncident(
                request.id,
                request.caller.tenant,
                request.user_or_claimed,
                model,
                rule,
                action,
                findings,
                said,
            )
        )

    def _personal_data_task(self) -> asyncio.Task[list[LocatedPersonalData]]:
        return self._start_scan("pii", lambda: self._scan.find_personal_data(self.texts.passages))

    def _attacks_task(self) -> asyncio.Task[list[LocatedAttack]]:
        return self._start_scan("jailbreak", lambda: self._scan.find_attacks(self.texts.passages))

    def _start_scan(
        self, guard: str, work: Callable[[], Coroutine[Any, Any, list[T]]]
    ) -> asyncio.Task[list[T]]:
        task = self._tasks.get(guard)
        if task is None:
            timed = self._run_timed(guard, self._journal.elapsed_s(), work)
            task = self._tasks[guard] = asyncio.create_task(timed)
        return task

    async def _run_timed(self, guard: str, began_s: float, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await work()
        finally:
            self._journal.record_timing(f"guard {guard}", began_s)


of_this_request: ContextVar[GuardContext | None] = ContextVar("guard_of_this_request", default=None)
"""Where steps further down the road, and rules about what the guard finds, look."""

"""The guard's state for one request: its texts, what was found in them, and what that means for models."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from radixway.core.pipeline import Request
from radixway.core.telemetry import Journal
from radixway.semantics.guard.incident import GuardFinding, GuardIncident, IncidentRecorder
from radixway.semantics.guard.passages import RequestTexts, TextPassage
from radixway.semantics.guard.policy import (
    LocatedAttack,
    LocatedPersonalData,
    PiiVerdict,
    filter_findings,
    finding_types,
    judge_pii,
)
from radixway.semantics.guard.redaction import PlaceholderVault
from radixway.semantics.guard.rulebook import GuardRules
from radixway.semantics.guard.text_scanner import TextScanner

T = TypeVar("T")
Scan = Callable[[Sequence[TextPassage]], Awaitable[list[T]]]


class GuardContext:
    """A `pipeline.Clearance`. Texts are scanned in tasks of their own, once however many ask."""

    def __init__(
        self,
        scan: TextScanner,
        texts: RequestTexts,
        rules_of: Callable[[str | None, str | None], GuardRules],
        recorder: IncidentRecorder | None,
        requested_model: str | None,
        journal: Journal,
    ) -> None:
        """`rules_of` takes a category and a decision, if known. `requested_model`: as the client names it."""
        self.requested_model = requested_model
        self.texts = texts
        self.rules_of = rules_of
        self.rules = rules_of(None, None)
        self.found: list[LocatedPersonalData] = []
        """Personal data that counts, once it is known."""
        self.hidden: frozenset[str] = frozenset()
        """Types that are masked or redacted in the request now."""
        self.is_partly_read = False
        """Only structured personal data was found, which suffices here (`on_error: allow`)."""
        self.vault: PlaceholderVault | None = None
        """Placeholders of the request, if any."""
        self.notes: list[str] = []
        """Notes for the header: `error pii`, `report jailbreak` …"""
        self._scan = scan
        self._recorder = recorder
        self._journal = journal
        self._recorded: set[tuple[str, str, str | None]] = set()
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def start_scans(self) -> None:
        """Start the scans that the rules for any category and decision ask for."""
        if self.rules.pii.enabled:
            self._start_scan("pii", self._scan.find_personal_data)
        if self.rules.jailbreak.enabled:
            self._start_scan("jailbreak", self._scan.find_attacks)

    async def personal_data(self) -> list[LocatedPersonalData]:
        """Return all findings, of any confidence. Raises ScanFailedError."""
        return await asyncio.shield(self._start_scan("pii", self._scan.find_personal_data))

    async def attacks(self) -> list[LocatedAttack]:
        """Return every passage, judged. Raises ScanFailedError."""
        return await asyncio.shield(self._start_scan("jailbreak", self._scan.find_attacks))

    async def cancel_scans(self) -> None:
        """Cancel the scans that have not ended."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()  # one that failed has this review in its traceback

    async def rescan_texts(self, texts: RequestTexts) -> list[LocatedPersonalData]:
        """Return the findings that count in `texts`, the request's as they are. Raises ScanFailedError."""
        return filter_findings(await self._scan.find_personal_data(texts.passages), self.rules.pii)

    def judge_model(self, model: str | None) -> PiiVerdict:
        """Return what becomes of the request, as it is now, if `model` is to answer it."""
        return judge_pii(self.rules.pii, model, finding_types(self.found) - self.hidden)

    def may_show(self, model: str) -> bool:
        """Return whether `model` may be shown the request as it is."""
        return self.judge_model(model).action in (None, "report")

    @property
    def may_leave(self) -> bool:
        """Whether a hosted model may be shown the request as it is."""
        if self.rules.pii.config.hosted == "allow":
            return True
        return not (self.is_partly_read or self.texts.unread or finding_types(self.found) - self.hidden)

    @property
    def fallback_model(self) -> str | None:
        """The model that the request goes to where no other may be shown it."""
        return self.rules.pii.config.route_to if self.judge_model(None).action == "route" else None

    def record_findings(
        self,
        request: Request,
        rule: str,
        action: str,
        findings: tuple[GuardFinding, ...] = (),
        model: str | None = None,
        **notes: str,
    ) -> None:
        """Record each thing that is done, once per `rule`, `action` and `model`."""
        key = rule, action, model
        if self._recorder is None or request.is_dry_run or key in self._recorded:
            return
        self._recorded.add(key)
        whose = (request.id, request.caller.tenant, request.user_or_claimed)
        self._recorder.record_incident(GuardIncident(*whose, model, rule, action, findings, notes or None))

    def _start_scan(self, guard: str, scan: Scan[T]) -> asyncio.Task[list[T]]:
        task = self._tasks.get(guard)
        if task is None:
            timed = self._run_timed(guard, self._journal.elapsed_s(), scan)
            task = self._tasks[guard] = asyncio.create_task(timed)
        return task

    async def _run_timed(self, guard: str, began_s: float, scan: Scan[T]) -> list[T]:
        try:
            return await scan(self.texts.passages)
        finally:
            self._journal.record_timing(f"guard {guard}", began_s)


of_this_request: ContextVar[GuardContext | None] = ContextVar("guard_of_this_request", default=None)
"""For middlewares further in, and for rules about what the guard finds."""

"""Reports on one reply, its findings and actions: metrics, the journal, the audit's incidents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from radixway.core.config.guard import OnError
from radixway.core.pipeline import Request
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.answers.moderation import ModerationBatches
from radixway.semantics.guard.answers.text_view import TextJudge
from radixway.semantics.guard.block_replies import GuardFailedError
from radixway.semantics.guard.incident import GuardFinding, GuardIncident, IncidentRecorder

log = logging.getLogger(__name__)

_MOST_FINDINGS = 100
"""Of one rule, in one reply, that are told one by one."""


class AnswerGuardMetrics:
    """For `/metrics` and `/health`."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self.found = metrics.counter(
            "radixway_guard_answers", "Answers in which the guard found something", "rule", "action"
        )
        self.failures = metrics.counter(
            "radixway_guard_answer_errors", "Answers that a rule could not judge", "rule", "outcome"
        )
        self.failing: dict[str, str] = {}
        """Rules that could not judge the last time, and why."""

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
        return {"state": "failing" if self.failing else "ok", "errors": dict(self.failing)}


class AnswerReport:
    """Of one reply. It holds types and positions, no text."""

    def __init__(
        self,
        request: Request,
        counts: AnswerGuardMetrics,
        recorder: IncidentRecorder | None,
        on_error: Callable[[str], OnError],
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_error`: by rule, what becomes of a text that it cannot judge. `note`: for the header."""
        self._request = request
        self._counts = counts
        self._recorder = recorder
        self._on_error = on_error
        self._note = note
        self._findings: dict[str, list[GuardFinding]] = {}
        self._actions: dict[str, str] = {}
        self._many: dict[str, int] = {}
        self._failed: dict[str, str] = {}
        self._heard: set[str] = set()
        self._closed = False

    def collect_findings(self, judges: Iterable[TextJudge | ModerationBatches]) -> None:
        """What they found since the last time. The answer is not kept for others from then on."""
        self._heard.add("answers")
        for judge in judges:
            self._heard.add(judge.rule)
            found = judge.take_findings()
            if not found:
                continue
            self._request.cache.bypass_reason = self._request.cache.bypass_reason or judge.rule.replace(
                ".", "_"
            )
            kept = self._findings.setdefault(judge.rule, [])
            kept += found[: _MOST_FINDINGS - len(kept)]
            self._many[judge.rule] = self._many.get(judge.rule, 0) + len(found)
            self._actions[judge.rule] = judge.action

    def report_failure(self, rule: str, error: Exception) -> bool:
        """A rule could not judge. Whether the answer goes on without it."""
        outcome = self._on_error(rule)
        self._counts.failures(rule, outcome).inc()
        self._counts.failing[rule] = type(error).__name__
        log.warning("guard: %s could not judge an answer: %s", rule, type(error).__name__)
        self._failed[rule] = outcome
        self._request.cache.bypass_reason = self._request.cache.bypass_reason or "guard_failed"
        return outcome == "allow"

    def report_unreadable(self, error: Exception) -> None:
        """A reply or an event is no JSON. Raises GuardFailedError where such may not pass."""
        if not self.report_failure("answers", error):
            raise GuardFailedError(["answers"])

    def finish_report(self) -> None:
        """The reply is over, however. May be called again."""
        if self._closed:
            return
        self._closed = True
        request = self._request
        for rule in self._heard - self._failed.keys():
            self._counts.failing.pop(rule, None)
        for rule, outcome in self._failed.items():
            request.journal.add("guard_answer", rule=rule, action="error", outcome=outcome)
            self._note(f"error {rule}")
            self._record_incident(rule, "error", (), {"outcome": outcome})
        for rule, found in self._findings.items():
            action = self._actions[rule]
            self._counts.found(rule, action).inc()
            self._note(f"{action} {rule}")
            told = [
                [each.type, each.where, each.begin, each.end, round(each.confidence, 3)] for each in found
            ]
            request.journal.add(
                "guard_answer", rule=rule, action=action, found=self._many[rule], findings=told
            )
            self._record_incident(rule, action, tuple(found), {"found": str(self._many[rule])})

    def _record_incident(
        self, rule: str, action: str, found: tuple[GuardFinding, ...], notes: dict[str, str]
    ) -> None:
        if self._recorder is None:
            return
        request = self._request
        model = request.routing.resolved_model or request.routing.metrics_model
        self._recorder.record_incident(
            GuardIncident(
                request.id, request.caller.tenant, request.user_or_claimed, model, rule, action, found, notes
            )
        )

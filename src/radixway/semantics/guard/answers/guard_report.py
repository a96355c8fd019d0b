"""Reports on replies, their findings and actions: metrics, the journal, the audit's incidents."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from radixway.core.config.guard import OnError
from radixway.core.pipeline import Request
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.answers.text_view import AnswerRule
from radixway.semantics.guard.block_replies import GuardFailedError
from radixway.semantics.guard.incident import GuardFinding, GuardIncident, IncidentRecorder

log = logging.getLogger(__name__)

_MAX_FINDINGS = 100
"""Findings per rule and reply that are listed."""


class AnswerGuardMetrics:
    """Counters of findings and failures, and the rules that fail now."""

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
        """Return what `/health` shows."""
        return {"state": "failing" if self.failing else "ok", "errors": dict(self.failing)}


class AnswerReport:
    """The report on one reply. It holds types and positions, no text."""

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
        self._counts_by_rule: Counter[str] = Counter()
        self._failed: dict[str, str] = {}
        self._judged: set[str] = set()
        self._closed = False

    def collect_findings(self, rules: Iterable[AnswerRule]) -> None:
        """Take what `rules` found. An answer with a finding is not cached."""
        self._judged.add("answers")
        for answer_rule in rules:
            rule, found = answer_rule.rule, answer_rule.take_findings()
            self._judged.add(rule)
            if not found:
                continue
            self._keep_uncached(rule.replace(".", "_"))
            stored = self._findings.setdefault(rule, [])
            stored += found[: _MAX_FINDINGS - len(stored)]
            self._counts_by_rule[rule] += len(found)
            self._actions[rule] = answer_rule.action

    def report_failure(self, rule: str, error: Exception) -> bool:
        """Note that `rule` could not judge; return whether the answer goes on without it."""
        outcome = self._on_error(rule)
        self._counts.failures(rule, outcome).inc()
        self._counts.failing[rule] = type(error).__name__
        log.warning("guard: %s could not judge an answer: %s", rule, type(error).__name__)
        self._failed[rule] = outcome
        self._keep_uncached("guard_failed")
        return outcome == "allow"

    def report_unreadable(self, error: Exception) -> None:
        """Note that a reply or an event is no JSON. Raises GuardFailedError where such may not pass."""
        if not self.report_failure("answers", error):
            raise GuardFailedError(["answers"])

    def finish_report(self) -> None:
        """Write the report: the reply is over. May be called again."""
        if self._closed:
            return
        self._closed = True
        request = self._request
        for rule in self._judged - self._failed.keys():
            self._counts.failing.pop(rule, None)
        for rule, outcome in self._failed.items():
            request.journal.add("guard_answer", rule=rule, action="error", outcome=outcome)
            self._note(f"error {rule}")
            self._record_incident(rule, "error", (), {"outcome": outcome})
        for rule, found in self._findings.items():
            action = self._actions[rule]
            self._counts.found(rule, action).inc()
            self._note(f"{action} {rule}")
            findings = [[hit.type, hit.where, hit.begin, hit.end, round(hit.confidence, 3)] for hit in found]
            count = self._counts_by_rule[rule]
            request.journal.add("guard_answer", rule=rule, action=action, found=count, findings=findings)
            self._record_incident(rule, action, tuple(found), {"found": str(count)})

    def _keep_uncached(self, why: str) -> None:
        self._request.cache.bypass_reason = self._request.cache.bypass_reason or why

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

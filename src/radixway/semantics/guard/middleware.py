"""The guard's first middlewares: texts are scanned while signals are detected, and attacks end here.

Guard ▸ detect ▸ GuardEvaluation ▸ [cache, decision] ▸ ModelClearanceMiddleware ▸ …
  └ starts scans   └ attacks                             └ personal data (`model_clearance.py`)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import time
from typing import TYPE_CHECKING

from radixway.core.config import ConfigError
from radixway.core.pipeline import Endpoint, ModelStates, Next, Reply, Request
from radixway.semantics.guard.answers.answer_forms import FORMS
from radixway.semantics.guard.block_replies import (
    GuardBlockedError,
    GuardFailedError,
    block_reply,
    can_block,
    jailbreak_blocked,
)
from radixway.semantics.guard.guard_context import GuardContext, of_this_request
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.incident import IncidentRecorder
from radixway.semantics.guard.passages import SILENT
from radixway.semantics.guard.policy import filter_findings, finding_types, worst_attack
from radixway.semantics.guard.rulebook import GuardRulebook
from radixway.semantics.guard.text_scanner import ScanFailedError, TextScanner

if TYPE_CHECKING:
    from radixway.semantics.guard.request_reader import RequestTextReader

PRIVATE = "personal_data"
"""`CacheContext.bypass_reason` of requests in which there is some."""
UNREAD = "guard_failed"
"""And of those of which nobody knows."""
_MOST_TOLD = 100
"""Findings that a journal lists."""
_OURS = (b"x-radixway-guard", b"x-vsr-pii-", b"x-vsr-jailbreak-")
"""Headers of answers that are the gateway's word; a worker's are taken off."""


class Guard:
    """A `pipeline.Middleware`, outermost of the guard's: reads a request's texts while it goes on, and tells
    whoever is blocked.
    """

    def __init__(
        self,
        scan: TextScanner,
        rules: Callable[[], GuardRulebook],
        reading: RequestTextReader,
        counts: GuardMetrics,
        block_status: int,
        recorder: IncidentRecorder | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        """`rules`: those in force, asked for once per request. `clock`: seconds since the epoch."""
        self._scan = scan
        self._rules = rules
        self._reading = reading
        self._counts = counts
        self._block_status = block_status
        self._recorder = recorder
        self._clock = clock

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether `endpoint` is guarded, as all are that do not opt out."""
        return endpoint.guarded

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Guard `request`. Raises GuardBlockedError where blocks are errors, GuardFailedError."""
        book = self._rules()
        if not book.is_on:
            return await call_next(request)
        texts = await self._reading.read_request(request)
        rules_of = partial(book.rules_for, tenant_policy(request))
        review = GuardContext(self._scan, texts, rules_of, self._recorder, request.model, request.journal)
        token = of_this_request.set(review)
        try:
            review.start_scans()
            reply = await call_next(request)
            reply.headers[:] = [each for each in reply.headers if not each[0].startswith(_OURS)]
        except GuardBlockedError as blocked:
            blocked.noted.append(_guard_header(review))
            if self._block_status != 200 or not request.endpoint.generates:
                raise
            reply = block_reply(blocked, request, self._clock())
        except GuardFailedError as failed:
            failed.noted.append(_guard_header(review))
            raise
        else:
            if review.notes:
                reply.headers.append(_guard_header(review))
        finally:
            of_this_request.reset(token)
            await review.cancel_scans()
        return reply


class GuardEvaluation:
    """A `pipeline.Middleware` behind detection, which knows the category, and before the cache."""

    step_name = "Judging"

    def __init__(self, counts: GuardMetrics, states: ModelStates) -> None:
        self._counts = counts
        self._states = states

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether `endpoint` is guarded."""
        return endpoint.guarded

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Judge `request`. Raises GuardBlockedError for an attack, GuardFailedError."""
        review = of_this_request.get()
        if review is None:
            return await call_next(request)
        review.rules = review.rules_of(request.semantics.category, request.semantics.decision)
        await asyncio.gather(self._find_personal_data(request, review), self._judge_attacks(request, review))
        return await call_next(request)

    async def _find_personal_data(self, request: Request, review: GuardContext) -> None:
        rules = review.rules.pii
        if not rules.enabled:
            return
        try:
            found = await review.personal_data()
        except ScanFailedError as failed:
            request.cache.bypass_reason = UNREAD
            self._handle_failure(request, review, "pii", stops=rules.on_error == "block")
            review.is_partly_read = True
            found = failed.found
        review.found = filter_findings(found, rules)
        if not review.found:
            return
        if finding_types(review.found) - rules.cacheable or review.judge_model(None).action not in (
            None,
            "report",
        ):
            request.cache.bypass_reason = PRIVATE  # an answer that is kept would be given past the policy
        request.clearance = review
        request.journal.add(
            "guard_pii",
            count=len(review.found),
            found=[
                {
                    "type": each.type,
                    "where": each.where,
                    "begin": each.begin,
                    "end": each.end,
                    "confidence": round(each.confidence, 4),
                }
                for each in (located.as_finding() for located in review.found[:_MOST_TOLD])
            ],
        )

    async def _judge_attacks(self, request: Request, review: GuardContext) -> None:
        rules = review.rules.jailbreak
        if not rules.enabled:
            return
        try:
            judged = await review.attacks()
        except ScanFailedError as failed:
            self._handle_failure(request, review, "jailbreak", stops=rules.on_error == "block")
            request.cache.bypass_reason = UNREAD
            judged = failed.judged
        most = worst_attack(judged, rules)
        if most is None:
            return
        told = most.as_finding()
        action = "block" if rules.blocks else "report"
        request.journal.add(
            "guard_jailbreak",
            action=action,
            type=told.type,
            where=told.where,
            confidence=round(told.confidence, 4),
            patterns=list(most.attack.patterns),
        )
        self._counts.count_action("jailbreak", action)
        review.notes.append(f"{action} jailbreak")
        review.record_findings(
            request, "jailbreak", action, (told,), request.model, threshold=f"{rules.threshold:g}"
        )
        if rules.blocks:
            self._counts.count_block(metrics_model(request.model, self._states), "jailbreak_block")
            raise jailbreak_blocked(told.type, told.confidence)

    def _handle_failure(self, request: Request, review: GuardContext, guard: str, *, stops: bool) -> None:
        review.notes.append(f"error {guard}")
        action = "block" if stops else "allow"
        request.journal.add("guard_error", guard=guard, action=action)
        review.record_findings(request, guard, "error", on_error=action)
        if stops:
            raise GuardFailedError([guard])


def check_endpoint(endpoint: Endpoint) -> None:
    """Raise ConfigError if requests to `endpoint` are to be guarded and cannot be."""
    if not endpoint.guarded:
        return
    if unread := SILENT.intersection(endpoint.text_fields):
        raise ConfigError(
            f"endpoint {endpoint.name}: the guard reads no text in {min(unread)!r} (guard.passages.SILENT)"
        )
    form = endpoint.reply_form
    can_read = form in FORMS or endpoint.is_in_session
    if endpoint.generates and not (can_block(form) and can_read):
        raise ConfigError(
            f"endpoint {endpoint.name}: the guard cannot read or block answers of the form {form.value!r}"
            " (guard.answers.answer_forms.FORMS, bundled/blocked_replies.json)"
        )


def metrics_model(model: str | None, states: ModelStates) -> str:
    """The model as metrics may name it: only one that somebody serves."""
    return model if model is not None and states(model) is not None else "unknown"


def tenant_policy(request: Request) -> str | None:
    """The policy that the request's tenant names."""
    return None if request.caller.policy is None else request.caller.policy.guard


def _guard_header(review: GuardContext) -> tuple[bytes, bytes]:
    return b"x-radixway-guard", ", ".join(dict.fromkeys(review.notes)).encode("ascii")

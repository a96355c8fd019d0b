"""The guard's middlewares for requests.

Guard ▸ detect ▸ GuardEvaluation ▸ [cache, decision] ▸ ModelClearanceMiddleware ▸ …
  └ starts scans   └ attacks end here                    └ the model is shown no more than it may be
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from time import time

from radixway.core.config import ConfigError
from radixway.core.http import HttpError
from radixway.core.pipeline import ANY_MODEL, Endpoint, GatewayError, ModelStates, Next, Reply, Request
from radixway.semantics.guard.answers.answer_forms import FORMS
from radixway.semantics.guard.block_replies import (
    GuardBlockedError,
    GuardFailedError,
    block_reply,
    can_block,
    jailbreak_blocked,
    pii_blocked,
)
from radixway.semantics.guard.guard_context import GuardContext, of_this_request
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.incident import IncidentRecorder
from radixway.semantics.guard.passages import EARLIER, TEXTLESS, RequestTexts, read_texts
from radixway.semantics.guard.policy import PiiVerdict, filter_findings, finding_types, worst_attack
from radixway.semantics.guard.redaction import redact_passages, replace_texts
from radixway.semantics.guard.request_reader import RequestTextReader, is_token_ids, run_on_body
from radixway.semantics.guard.rulebook import GuardRulebook
from radixway.semantics.guard.text_scanner import ScanFailedError, TextScanner

log = logging.getLogger(__name__)

PRIVATE, UNREAD = "personal_data", "guard_failed"
"""`CacheContext.bypass_reason` of requests with personal data, and of those that could not be read."""
_MAX_FINDINGS = 100
"""Findings that a journal lists."""
_OWN_HEADERS = (b"x-radixway-guard", b"x-vsr-pii-", b"x-vsr-jailbreak-")
"""Response headers of the gateway; a worker's are removed."""


class Guard:
    """A `pipeline.Middleware`, outermost of the guard's: reads texts while a request goes on."""

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
        """`rules` returns those in force, once per request. `clock`: seconds since the epoch."""
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
        texts = await self._read_request(request, book)
        if texts is None:
            reply = await call_next(request)
            reply.headers.append((b"x-radixway-guard", b"error reading"))
            return reply
        rules_of = partial(book.rules_for, tenant_policy(request))
        review = GuardContext(self._scan, texts, rules_of, self._recorder, request.model, request.journal)
        token = of_this_request.set(review)
        try:
            review.start_scans()
            reply = await call_next(request)
            reply.headers[:] = [header for header in reply.headers if not header[0].startswith(_OWN_HEADERS)]
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

    async def _read_request(self, request: Request, book: GuardRulebook) -> RequestTexts | None:
        """Return the texts of `request`; None where they cannot be read and rules let such requests pass.

        Raises GuardFailedError where they do not, BadRequest, TextTooLongError.
        """
        try:
            return await self._reading.read_request(request)
        except (GatewayError, HttpError):
            raise
        except Exception as error:  # noqa: BLE001 - a tokenizer's, say: on_error decides
            log.warning("guard: a request could not be read: %s", type(error).__name__)
            rules = book.rules_for(tenant_policy(request), None, None)
            stops = [
                name
                for name, enabled, on_error in (
                    ("pii", rules.pii.enabled, rules.pii.config.on_error),
                    ("jailbreak", rules.jailbreak.enabled, rules.jailbreak.on_error),
                )
                if enabled and on_error == "block"
            ]
            request.journal.add("guard_error", guard="reading", action="block" if stops else "allow")
            request.cache.bypass_reason = UNREAD
            if stops:
                raise GuardFailedError(stops) from None
            return None


class _GuardStep:
    """What the middlewares behind `Guard` share."""

    def __init__(self, counts: GuardMetrics, states: ModelStates) -> None:
        self._counts = counts
        self._states = states

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether `endpoint` is guarded."""
        return endpoint.guarded

    def _metrics_model(self, model: str | None) -> str:
        """Return `model` as metrics may name it: only one that a worker serves."""
        return model if model is not None and self._states(model) is not None else "unknown"


class GuardEvaluation(_GuardStep):
    """A `pipeline.Middleware` behind detection, which knows the category, and before the cache."""

    step_name = "Judging"

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
            self._handle_failure(request, review, "pii", stops=rules.config.on_error == "block")
            review.is_partly_read = True
            request.clearance = review
            found = failed.found
        review.found = filter_findings(found, rules)
        if review.texts.unread:
            request.clearance = review
        if not review.found:
            return
        is_free = review.judge_model(None).action in (None, "report")
        if not is_free or finding_types(review.found).difference(rules.config.cacheable):
            request.cache.bypass_reason = PRIVATE  # a cached answer would be given past the policy
        request.clearance = review
        findings = [located.as_finding() for located in review.found[:_MAX_FINDINGS]]
        listed = [asdict(finding) | {"confidence": round(finding.confidence, 4)} for finding in findings]
        request.journal.add("guard_pii", count=len(review.found), found=listed)

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
        worst = worst_attack(judged, rules)
        if worst is None:
            return
        found = worst.as_finding()
        action = "block" if rules.blocks else "report"
        request.journal.add(
            "guard_jailbreak",
            action=action,
            type=found.type,
            where=found.where,
            confidence=round(found.confidence, 4),
            patterns=list(worst.attack.patterns),
        )
        self._counts.count_action("jailbreak", action)
        review.notes.append(f"{action} jailbreak")
        review.record_findings(
            request, "jailbreak", action, (found,), request.model, threshold=f"{rules.threshold:g}"
        )
        if rules.blocks:
            self._counts.count_block(self._metrics_model(request.model), "jailbreak_block")
            raise jailbreak_blocked(found.type, found.confidence)

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
    if unread := TEXTLESS.intersection(endpoint.text_fields):
        raise ConfigError(
            f"endpoint {endpoint.name}: the guard reads no text in {min(unread)!r} (guard.passages.TEXTLESS)"
        )
    form = endpoint.reply_form
    can_read = form in FORMS or endpoint.is_in_session
    if endpoint.generates and not (can_block(form) and can_read):
        raise ConfigError(
            f"endpoint {endpoint.name}: the guard cannot read or block answers of the form {form.value!r}"
            " (guard.answers.answer_forms.FORMS, bundled/blocked_replies.json)"
        )


def tenant_policy(request: Request) -> str | None:
    """Return the policy that the tenant of `request` names."""
    return None if request.caller.policy is None else request.caller.policy.guard


def _guard_header(review: GuardContext) -> tuple[bytes, bytes]:
    return b"x-radixway-guard", ", ".join(dict.fromkeys(review.notes)).encode("ascii")


class ModelClearanceMiddleware(_GuardStep):
    """A `pipeline.Middleware` behind the decision, where the model is known."""

    step_name = "Clearing"

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Clear `request` for its model. Raises GuardBlockedError, GuardFailedError."""
        review = of_this_request.get()
        if review is None or not review.found:
            return await call_next(request)
        review.hidden, review.vault = frozenset(), None  # as another model may have been tried before
        model = None if request.model == ANY_MODEL else request.model
        verdict = review.judge_model(model)
        if verdict.action is not None:
            await self._apply_verdict(request, review, model, verdict)
        elif model is not None and model != review.requested_model and model == review.fallback_model:
            # chosen because no other may be shown the request
            self._record_verdict(request, review, review.requested_model, review.judge_model(None), "route")
        return await call_next(request)

    async def _apply_verdict(
        self, request: Request, review: GuardContext, model: str | None, verdict: PiiVerdict
    ) -> None:
        action = _feasible_action(request, review, verdict)
        self._counts.count_violations(self._metrics_model(model), verdict.denied)
        self._record_verdict(request, review, model, verdict, action)
        if action == "block":
            self._counts.count_block(self._metrics_model(model), "pii_policy_denied")
            raise pii_blocked(model or ANY_MODEL, verdict.denied)
        if action == "route":
            request.model = review.rules.pii.config.route_to
            request.edit(model=request.model)
        elif action != "report":
            await _redact_request(request, review, verdict)

    def _record_verdict(
        self, request: Request, review: GuardContext, model: str | None, verdict: PiiVerdict, action: str
    ) -> None:
        self._counts.count_action("pii", action)
        denied = sorted(verdict.denied)
        request.journal.add("guard_clearing", model=model, action=action, denied=denied)
        review.notes.append(f"{action} pii")
        done = verdict.edits if action in ("mask", "redact") else verdict.denied
        for types, what in ((done, action), (verdict.denied - done, "report")):
            if types:
                found = tuple(located.as_finding() for located in review.found if located.found.type in types)
                review.record_findings(request, "pii", what, found, model)


class SessionClearanceMiddleware(_GuardStep):
    """A `pipeline.Middleware` behind sessions, which may name the model themselves, and know what was said
    before. Token ids cannot be edited any more: what the model may not be shown ends here.
    """

    step_name = "Cleared"

    def __init__(self, reading: RequestTextReader, counts: GuardMetrics, states: ModelStates) -> None:
        super().__init__(counts, states)
        self._reading = reading

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Clear `request` for its model. Raises GuardBlockedError, GuardFailedError."""
        review, model = of_this_request.get(), request.model
        if review is None or model is None or not review.rules.pii.enabled:
            return await call_next(request)
        if (EARLIER,) in review.texts.unread:
            await self._read_session_prompt(request, review)
        verdict = review.judge_model(model)
        if verdict.action not in (None, "report"):
            self._counts.count_block(self._metrics_model(model), "pii_policy_denied")
            raise pii_blocked(model, verdict.denied)
        return await call_next(request)

    async def _read_session_prompt(self, request: Request, review: GuardContext) -> None:
        """Find personal data in the whole prompt, as it is known by its tokens."""
        texts = await self._reading.read_request(request)
        try:
            review.found = await review.rescan_texts(texts)
        except ScanFailedError as failed:
            if review.rules.pii.config.on_error == "block":
                raise GuardFailedError(["pii"]) from None
            review.found = filter_findings(failed.found, review.rules.pii)
        review.hidden = frozenset()  # what was hidden stands there no more


def _feasible_action(request: Request, review: GuardContext, verdict: PiiVerdict) -> str:
    """Return "block" for what cannot be done: editing token ids or keys, routing to a forbidden model."""
    action = verdict.action
    assert action is not None
    if action == "route":
        to = review.rules.pii.config.route_to
        allowed = to is not None and (request.caller.policy is None or request.caller.policy.allows_model(to))
        return action if to is not None and allowed and review.may_show(to) else "block"
    if action in ("mask", "redact"):
        passages = [located.passage for located in review.found if located.found.type in verdict.edits]
        fixed = any(part.is_key or is_token_ids(part.place, request.body) for part in passages)
        return "block" if fixed else action
    return action


async def _redact_request(request: Request, review: GuardContext, verdict: PiiVerdict) -> None:
    """Mask or redact. Texts are read again: the decision may have put a system prompt before them."""
    texts = await run_on_body(request, lambda: read_texts(request.body))
    try:
        found = await review.rescan_texts(texts)
    except ScanFailedError as failed:
        if review.rules.pii.config.on_error == "block" or not review.is_partly_read:
            raise GuardFailedError(["pii"]) from None  # what was found before could not be hidden for sure
        found = filter_findings(failed.found, review.rules.pii)
    style = review.rules.pii.config.mask
    changes, review.vault = await run_on_body(request, redact_passages, texts.passages, found, verdict, style)
    await run_on_body(request, replace_texts, request, changes)
    review.hidden = verdict.edits

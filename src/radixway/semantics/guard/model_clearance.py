"""The last step of the guard: the model is known, and is shown no more than it may be."""

from __future__ import annotations

from radixway.core.pipeline import ANY_MODEL, Endpoint, ModelStates, Next, Reply, Request
from radixway.semantics.guard.block_replies import GuardFailedError, pii_blocked
from radixway.semantics.guard.guard_context import GuardContext, of_this_request
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.middleware import metrics_model
from radixway.semantics.guard.passages import EARLIER, read_texts
from radixway.semantics.guard.policy import PiiVerdict, filter_findings
from radixway.semantics.guard.redaction import redact_passages, replace_texts
from radixway.semantics.guard.request_reader import RequestTextReader, is_token_ids, run_on_body
from radixway.semantics.guard.text_scanner import ScanFailedError


class ModelClearanceMiddleware:
    """A `pipeline.Middleware` behind the decision."""

    step_name = "Clearing"

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether `endpoint` is guarded."""
        return endpoint.guarded

    def __init__(self, counts: GuardMetrics, states: ModelStates) -> None:
        self._counts = counts
        self._states = states

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
        elif model is not None and _is_reroute_model(review, model):
            self._record_verdict(request, review, review.asked, review.judge_model(None), "route")
        return await call_next(request)

    async def _apply_verdict(
        self, request: Request, review: GuardContext, model: str | None, verdict: PiiVerdict
    ) -> None:
        action = _feasible_action(request, review, verdict)
        self._counts.count_violations(metrics_model(model, self._states), verdict.denied)
        self._record_verdict(request, review, model, verdict, action)
        if action == "block":
            self._counts.count_block(metrics_model(model, self._states), "pii_policy_denied")
            raise pii_blocked(model or ANY_MODEL, verdict.denied)
        if action == "route":
            request.model = review.rules.pii.route_to
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
                told = tuple(each.as_finding() for each in review.found if each.found.type in types)
                review.record_findings(request, "pii", what, told, model)


class SessionClearanceMiddleware:
    """A `pipeline.Middleware` behind sessions, which may name the model themselves, and know what was said
    before. Token ids cannot be edited any more: what the model may not be shown ends here.
    """

    step_name = "Cleared"

    def __init__(self, reading: RequestTextReader, counts: GuardMetrics, states: ModelStates) -> None:
        self._reading = reading
        self._counts = counts
        self._states = states

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Clear `request` for its model. Raises GuardBlockedError, GuardFailedError."""
        review, model = of_this_request.get(), request.model
        if review is None or model is None or not review.rules.pii.enabled:
            return await call_next(request)
        if (EARLIER,) in review.texts.unread:
            await self._read_session_prompt(request, review)
        verdict = review.judge_model(model)
        if verdict.action not in (None, "report"):
            self._counts.count_block(metrics_model(model, self._states), "pii_policy_denied")
            raise pii_blocked(model, verdict.denied)
        return await call_next(request)

    async def _read_session_prompt(self, request: Request, review: GuardContext) -> None:
        """The whole prompt, as it is known by its tokens."""
        texts = await self._reading.read_request(request)
        try:
            review.found = await review.rescan_texts(texts)
        except ScanFailedError as failed:
            if review.rules.pii.on_error == "block":
                raise GuardFailedError(["pii"]) from None
            review.found = filter_findings(failed.found, review.rules.pii)
        review.hidden = frozenset()  # what was hidden stands there no more


def _feasible_action(request: Request, review: GuardContext, verdict: PiiVerdict) -> str:
    """What can be done of what should be: nobody edits token ids and keys, or asks a model he may not ask."""
    action = verdict.action
    assert action is not None
    if action == "route":
        to = review.rules.pii.route_to
        allowed = to is not None and (request.caller.policy is None or request.caller.policy.allows_model(to))
        return action if to is not None and allowed and review.may_show(to) else "block"
    if action in ("mask", "redact"):
        hidden = [each for each in review.found if each.found.type in verdict.edits]
        fixed = any(each.passage.is_key or is_token_ids(each.passage.place, request.body) for each in hidden)
        return "block" if fixed else action
    return action


async def _redact_request(request: Request, review: GuardContext, verdict: PiiVerdict) -> None:
    """The texts are read again: the decision may have put a system prompt before them."""
    texts = await run_on_body(request, lambda: read_texts(request.body))
    try:
        found = await review.rescan_texts(texts)
    except ScanFailedError as failed:
        if review.rules.pii.on_error == "block" or not review.is_partly_read:
            raise GuardFailedError(["pii"]) from None  # what was found before could not be hidden for sure
        found = filter_findings(failed.found, review.rules.pii)
    style = review.rules.pii.mask
    changes, review.vault = await run_on_body(request, redact_passages, texts.passages, found, verdict, style)
    await run_on_body(request, replace_texts, request, changes)
    review.hidden = verdict.edits


def _is_reroute_model(review: GuardContext, model: str) -> bool:
    """Whether the model was chosen because no other may be shown the request."""
    return model != review.asked and model == review.fallback_model

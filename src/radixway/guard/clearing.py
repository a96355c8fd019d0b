"""The last step of the guard: the model is known, and is shown no more than it may be."""

from __future__ import annotations

from radixway.guard.blocks import GuardFailed, pii_blocked
from radixway.guard.counts import Counts
from radixway.guard.hiding import hide
from radixway.guard.middleware import named
from radixway.guard.policy import PiiVerdict, counting
from radixway.guard.reading import Reading, beside, is_ids
from radixway.guard.replacing import replace_texts
from radixway.guard.review import Review, of_this_request
from radixway.guard.scan import Failed
from radixway.guard.texts import EARLIER, read_texts
from radixway.pipeline import ANY_MODEL, Endpoint, ModelStates, Next, Reply, Request


class Clearing:
    """A `pipeline.Middleware` behind the decision."""

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Where the guard is."""
        return endpoint.guarded

    def __init__(self, counts: Counts, states: ModelStates) -> None:
        self._counts = counts
        self._states = states

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Raises Blocked, GuardFailed."""
        review = of_this_request.get()
        if review is None or not review.found:
            return await call_next(request)
        review.hidden, review.vault = frozenset(), None  # as another model may have been tried before
        model = None if request.model == ANY_MODEL else request.model
        verdict = review.verdict(model)
        if verdict.action is not None:
            await self._act(request, review, model, verdict)
        elif model is not None and _stands_in(review, model):
            self._note(request, review, review.asked, review.verdict(None), "route")
        return await call_next(request)

    async def _act(self, request: Request, review: Review, model: str | None, verdict: PiiVerdict) -> None:
        action = _possible(request, review, verdict)
        self._counts.violated(named(model, self._states), verdict.denied)
        self._note(request, review, model, verdict, action)
        if action == "block":
            self._counts.refused(named(model, self._states), "pii_policy_denied")
            raise pii_blocked(model or ANY_MODEL, verdict.denied)
        if action == "route":
            request.model = review.rules.pii.route_to
            request.edit(model=request.model)
        elif action != "report":
            await _hide(request, review, verdict)

    def _note(
        self, request: Request, review: Review, model: str | None, verdict: PiiVerdict, action: str
    ) -> None:
        self._counts.acted("pii", action)
        denied = sorted(verdict.denied)
        request.journal.add("guard_clearing", model=model, action=action, denied=denied)
        review.notes.append(f"{action} pii")
        done = verdict.edits if action in ("mask", "redact") else verdict.denied
        for types, what in ((done, action), (verdict.denied - done, "report")):
            if types:
                told = tuple(each.told() for each in review.found if each.found.type in types)
                review.record(request, "pii", what, told, model)


class Cleared:
    """A `pipeline.Middleware` behind sessions, which may name the model themselves, and know what was said
    before. Token ids cannot be edited any more: what the model may not be shown ends here.
    """

    def __init__(self, reading: Reading, counts: Counts, states: ModelStates) -> None:
        self._reading = reading
        self._counts = counts
        self._states = states

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Raises Blocked, GuardFailed."""
        review, model = of_this_request.get(), request.model
        if review is None or model is None or not review.rules.pii.enabled:
            return await call_next(request)
        if (EARLIER,) in review.texts.unread:
            await self._read_earlier(request, review)
        verdict = review.verdict(model)
        if verdict.action not in (None, "report"):
            self._counts.refused(named(model, self._states), "pii_policy_denied")
            raise pii_blocked(model, verdict.denied)
        return await call_next(request)

    async def _read_earlier(self, request: Request, review: Review) -> None:
        """The whole prompt, as it is known by its tokens."""
        texts = await self._reading.read(request)
        try:
            review.found = await review.find_again(texts)
        except Failed as failed:
            if review.rules.pii.on_error == "block":
                raise GuardFailed(["pii"]) from None
            review.found = counting(failed.found, review.rules.pii)
        review.hidden = frozenset()  # what was hidden stands there no more


def _possible(request: Request, review: Review, verdict: PiiVerdict) -> str:
    """What can be done of what should be: nobody edits token ids and keys, or asks a model he may not ask."""
    action = verdict.action
    assert action is not None
    if action == "route":
        to = review.rules.pii.route_to
        allowed = to is not None and (request.tenancy is None or request.tenancy.allows(to))
        return action if to is not None and allowed and review.clears(to) else "block"
    if action in ("mask", "redact"):
        hidden = [each for each in review.found if each.found.type in verdict.edits]
        fixed = any(each.passage.is_key or is_ids(each.passage.place, request.body) for each in hidden)
        return "block" if fixed else action
    return action


async def _hide(request: Request, review: Review, verdict: PiiVerdict) -> None:
    """The texts are read again: the decision may have put a system prompt before them."""
    texts = await beside(request, lambda: read_texts(request.body))
    try:
        found = await review.find_again(texts)
    except Failed as failed:
        if review.rules.pii.on_error == "block" or not review.is_partly_read:
            raise GuardFailed(["pii"]) from None  # what was found before could not be hidden for sure
        found = counting(failed.found, review.rules.pii)
    style = review.rules.pii.mask
    changes, review.vault = await beside(request, hide, texts.passages, found, verdict, style)
    await beside(request, replace_texts, request, changes)
    review.hidden = verdict.edits


def _stands_in(review: Review, model: str) -> bool:
    """Whether the model was chosen because no other may be shown the request."""
    return model != review.asked and model == review.instead

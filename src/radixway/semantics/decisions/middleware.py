"""The middleware: reads what a request means, decides who answers it, and changes the request accordingly."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, get_args

from msgspec import UNSET

from radixway.core.config.semantic import Preference
from radixway.core.pipeline import (
    ANY_MODEL,
    BadRequest,
    Endpoint,
    GatewayError,
    GuardClearance,
    ModelNotServedError,
    ModelState,
    Next,
    NoWorkersError,
    Reply,
    Request,
)
from radixway.semantics.decisions.decision_metrics import DecisionMetrics
from radixway.semantics.decisions.decision_plan import DecisionPlan, SelectionPreferences, make_plan
from radixway.semantics.decisions.detection import RequestMeaning, find_meaning
from radixway.semantics.decisions.request_rewrite import AppliedDecision, apply_plan, set_decision_headers
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import SemanticSnapshot

_PREFERENCES: tuple[str, ...] = get_args(Preference)


class Semantic:
    """A `pipeline.Middleware` for chat completions and completions."""

    def __init__(
        self,
        snapshot: Callable[[], SemanticSnapshot],
        reader: SignalReader,
        states: Callable[[str], ModelState | None],
        feedback: ScoreFeedback,
        counts: DecisionMetrics,
    ) -> None:
        """`snapshot`: the current one, asked for once per request."""
        self._snapshot = snapshot
        self._reader = reader
        self._states = states
        self._feedback = feedback
        self._counts = counts

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether the model may be left to the gateway."""
        return endpoint.chooses_model

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The answer of the model that was chosen, or of the next that can answer.

        Raises:
            RuleBlockedError: a rule says so (`Detect` finds it earlier).
            BadRequest: `preference` is unknown.
        """
        meaning = request.semantics
        snapshot = meaning.snapshot if isinstance(meaning, RequestMeaning) else self._snapshot()
        preference = _pop_preference(request, snapshot.section.preference.default)
        if not snapshot.is_auto(request.model):
            return await _pass_through(request, call_next)
        if not isinstance(meaning, RequestMeaning):
            meaning = await find_meaning(snapshot, self._reader, request)
        began, began_s = perf_counter(), request.journal.elapsed_s()
        plan = self._plan_request(meaning, request, preference)
        if request.journal.is_traced:
            request.journal.record_timing("decision", began_s, reason=plan.verdict.reason)
        if not request.is_dry_run:
            self._counts.observe_decision(plan, meaning.took_s + perf_counter() - began)
        request.journal.add("semantic", plan)
        if plan.choice is None:
            request.edit(model=ANY_MODEL)
            request.model = ANY_MODEL
            return await call_next(request)
        return await self._try_models(plan, request, call_next)

    def _plan_request(
        self, meaning: RequestMeaning, request: Request, preference: Preference
    ) -> DecisionPlan:
        snapshot = meaning.snapshot
        body = request.body
        wish = SelectionPreferences(
            preference, _session_key(request, body), _completion_tokens(snapshot, body)
        )
        if request.caller.policy is not None:
            wish = replace(wish, allows=request.caller.policy.allows_model)
        clearance = request.clearance
        if clearance is None:
            return self._plan_for(meaning, wish)
        for narrowed in _allowed_preferences(wish, clearance):
            plan = self._plan_for(meaning, narrowed)
            if plan.choice is not None:
                break
        return replace(plan, wish=_journal_preferences(wish, narrowed, snapshot.section.model_names()))

    def _plan_for(self, meaning: RequestMeaning, wish: SelectionPreferences) -> DecisionPlan:
        return make_plan(
            meaning.snapshot,
            meaning.question,
            meaning.signals,
            meaning.verdict,
            wish,
            self._states,
            self._feedback,
            meaning.failed,
        )

    async def _try_models(self, plan: DecisionPlan, request: Request, call_next: Next) -> Reply:
        """Try the plan's models in order, while one has no worker that can answer."""
        assert plan.choice is not None
        raw, headers, requested_model = request.raw, request.headers, request.model or ""
        refusal: GatewayError | None = None
        for weighed in plan.choice.ranked:
            if refusal is not None:
                request.raw, request.headers, request._body = raw, headers, None
                request.journal.add("semantic_fallback", model=weighed.candidate.model, after=refusal.code)
            applied = apply_plan(plan, weighed.candidate, request)
            try:
                reply = await call_next(request)
            except (ModelNotServedError, NoWorkersError) as error:
                refusal = refusal or error
                continue
            rule = plan.verdict.rule
            judged_as = rule.name if rule is not None and rule.refs else plan.verdict.category or ""
            self._counts.count_applied(plan, applied, requested_model)
            self._feedback.remember_decision(request.id, judged_as, applied.model, request.caller.tenant)
            set_decision_headers(reply, applied)
            return reply
        assert refusal is not None
        raise refusal


def _allowed_preferences(
    wish: SelectionPreferences, clearance: GuardClearance
) -> Iterator[SelectionPreferences]:
    """What is wished of the choice, the best first: a model that may be shown the request, the one that is to
    answer instead, and where there is neither, any, of which the guard makes what it is to make.
    """
    yield replace(wish, allows=lambda model: wish.allows(model) and clearance.may_show(model))
    instead = clearance.fallback_model
    if instead is not None and wish.allows(instead):
        yield replace(wish, allows=lambda model: model == instead, only=instead)
    yield wish


def _journal_preferences(
    wish: SelectionPreferences, narrowed: SelectionPreferences, models: Iterable[str]
) -> SelectionPreferences:
    """Record the choice's inputs: its allowed models, but not the guard, which knows texts."""
    denied = frozenset(model for model in models if not narrowed.allows(model))
    return replace(narrowed, allows=lambda model: model not in denied and wish.allows(model))


async def _pass_through(request: Request, call_next: Next) -> Reply:
    """Pass a request that names its model unchanged."""
    requested_model = request.model
    reply = await call_next(request)
    answering = (
        request.model if request.routing.fallback_model is None else requested_model
    )  # the guard may have seen to another
    if answering is not None:
        set_decision_headers(reply, AppliedDecision(answering, None, False, None, False))
    return reply


def _pop_preference(request: Request, default: Preference) -> Preference:
    """Return the preference of the header, else of the body, which workers do not get."""
    given: Any = request.preference
    where = "x-radixway-preference"
    if b'"preference"' in request.raw and "preference" in request.body:
        in_body = request.body["preference"]
        request.edit(preference=UNSET)
        if given is None:
            given, where = in_body, "preference"
    if given is None:
        return default
    if given not in _PREFERENCES:
        raise BadRequest(f"{where} must be one of {', '.join(_PREFERENCES)}", param=where)
    return given  # type: ignore[no-any-return]


def _session_key(request: Request, body: dict[str, Any]) -> str:
    """Return a key that is constant in a session: its header, the user, or the request."""
    headers = dict(request.headers)
    session = headers.get(b"x-session-id")
    if session is not None:
        return session.decode("latin-1")
    user = body.get("user")
    return user if isinstance(user, str) and user else request.id


def _completion_tokens(snapshot: SemanticSnapshot, body: dict[str, Any]) -> int:
    limits = (body.get("max_completion_tokens"), body.get("max_tokens"))
    given = [limit for limit in limits if isinstance(limit, int)]
    return min([*given, snapshot.section.preference.completion_tokens])

"""The decision on one request: which models, in which order, thinking or not, under which system prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from radixway.core.config.semantic import Preference, SemanticConfig
from radixway.core.config.semantic.models import PromptMode
from radixway.core.pipeline import ModelState
from radixway.semantics.decisions.losing_rules import explain_losing_rules
from radixway.semantics.decisions.model_selection import (
    ModelCandidate,
    ModelChoice,
    choose_model,
    pick_ab_split,
    tier_candidates,
    weigh_candidates,
)
from radixway.semantics.decisions.reasoning_mode import (
    BY_RULE,
    BY_TIER,
    EASY_QUESTION,
    ReasoningDecision,
    decide_reasoning,
)
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.snapshot import SemanticSnapshot
from radixway.semantics.decisions.system_prompts import category_prompt
from radixway.semantics.decisions.verdict import DecisionVerdict
from radixway.semantics.signals.base import SignalSet
from radixway.semantics.signals.context_length import estimate_tokens
from radixway.semantics.signals.language import detect_language
from radixway.semantics.signals.question import RequestQuestion

_EPSILON = 1e-9
"""A score that equals a share of another one is not below it."""


@dataclass(frozen=True, slots=True)
class SelectionPreferences:
    """A request's preferences for the choice."""

    preference: Preference
    key: str
    """Keeps a session on its side of an A/B split."""
    completion_tokens: int
    allows: Callable[[str], bool] = lambda model: True
    """Whether a model may answer, by tenant and guard."""
    only: str | None = None
    """The one model that is to answer it, whatever its category's are."""

    @classmethod
    def usual(cls, section: SemanticConfig) -> SelectionPreferences:
        """Return those of a request that says nothing of the choice, as `section` has them."""
        return cls(section.preference.default, "", section.preference.completion_tokens)


@dataclass(frozen=True, slots=True)
class DecisionPlan:
    """A decision, ready to be applied to the request. `explain` is its entry in the journal."""

    snapshot: SemanticSnapshot
    signals: SignalSet
    verdict: DecisionVerdict
    choice: ModelChoice | None
    """None where nothing is configured that could answer: dispatch then takes any worker."""
    reasoning: ReasoningDecision
    prompt: str
    prompt_mode: PromptMode
    wish: SelectionPreferences
    prompt_tokens: int
    """Estimated; this and the wish are what the choice is made by, beside the rules."""
    split: str | None = None
    failed: tuple[str, ...] = ()
    prompt_read: Mapping[str, Any] | None = None
    """Figures of what was read: see `RequestQuestion.explain`."""

    def explain(self) -> dict[str, Any]:
        """Return every signal, who won, and why. Names and figures only."""
        verdict, choice = self.verdict, self.choice
        entry: dict[str, Any] = {
            "model": choice.best.model if choice else None,
            "category": verdict.category,
            "confidence": round(verdict.confidence, 4),
            "reason": verdict.reason,
            "rule": verdict.rule_name,
            "agreeing": list(verdict.agreeing),
            "reasoning": self.reasoning.on,
            "reasoning_reason": self.reasoning.reason,
            "choice": choice.reason if choice else "no_model_is_configured",
            "candidates": [weighed.explain() for weighed in choice.ranked] if choice else [],
            "signals": self.signals.explain(),
        }
        domain = self.signals.domain
        if domain is not None:
            entry["entropy"] = round(domain.entropy, 4)
        if (encoder_s := self.signals.latencies_s.get("encoder")) is not None:
            entry["encoder_ms"] = round(encoder_s * 1e3, 3)
        if verdict.difficulty is not None:
            entry["difficulty"] = verdict.difficulty.explain()
        if choice is not None and choice.best.tier is not None:
            entry["tier"] = choice.best.tier
        if self.prompt_read:
            entry["prompt"] = self.prompt_read
        if lost := explain_losing_rules(self.snapshot.rules, self.signals, verdict):
            entry["lost"] = lost
        return (
            entry
            | ({"split": self.split} if self.split else {})
            | ({"failed": list(self.failed)} if self.failed else {})
        )


def make_plan(
    snapshot: SemanticSnapshot,
    question: RequestQuestion,
    signals: SignalSet,
    verdict: DecisionVerdict,
    wish: SelectionPreferences,
    states: Callable[[str], ModelState | None],
    feedback: ScoreFeedback,
    failed: tuple[str, ...] = (),
) -> DecisionPlan:
    """Make the plan of a routing verdict. Pure but for the draws of exploring feedback."""
    tokens = estimate_tokens(question.whole or question.text)
    choice, reasoning, side = rank_models(snapshot, verdict, wish, tokens, states, feedback)
    prompt, mode = _system_prompt(snapshot, verdict, question)
    return DecisionPlan(
        snapshot,
        signals,
        verdict,
        choice,
        reasoning,
        prompt,
        mode,
        wish,
        tokens,
        side,
        failed,
        question.explain(),
    )


def rank_models(
    snapshot: SemanticSnapshot,
    verdict: DecisionVerdict,
    wish: SelectionPreferences,
    tokens: int,
    states: Callable[[str], ModelState | None],
    feedback: ScoreFeedback,
    *,
    explore: bool = True,
) -> tuple[ModelChoice | None, ReasoningDecision, str | None]:
    """The models in order, whether they think, and the split that chose, for a prompt of so many `tokens`."""
    known = _candidates(snapshot, verdict, feedback, explore)
    candidates = [candidate for candidate in known if wish.allows(candidate.model)]
    side = pick_ab_split(snapshot.section.ab_splits, verdict.category, wish.key)
    if side is not None and not wish.allows(side[1]):
        side = None
    if wish.only is not None:
        candidates, side = [ModelCandidate(wish.only, 1.0)], None
    if side is not None:
        by_name = {candidate.model: candidate for candidate in candidates}
        candidates = [by_name.get(side[1]) or ModelCandidate(side[1], 1.0)]
    choice = _choose_models(snapshot, verdict, tokens, candidates, wish, states)
    reasoning = _decide_thinking(snapshot, verdict, choice.best if choice else None)
    return choice, reasoning, side[0].name if side else None


def _candidates(
    snapshot: SemanticSnapshot, verdict: DecisionVerdict, feedback: ScoreFeedback, explore: bool
) -> list[ModelCandidate]:
    """Return the models of the winning rule, else of the category, else of the tiers."""
    category = verdict.category or ""
    if verdict.rule is not None and verdict.rule.refs:
        return [
            ModelCandidate(
                ref.lora_name or ref.model,
                feedback.current_score(verdict.rule.name, ref.model, ref.score or 1.0, explore=explore),
                ref.use_reasoning,
                ref.reasoning_effort,
            )
            for ref in verdict.rule.refs
        ]
    known = snapshot.categories.get(category)
    if snapshot.tiers and not (known and known.model_scores):
        return tier_candidates(snapshot.tiers, verdict.difficulty.level if verdict.difficulty else "hard")
    return [
        ModelCandidate(
            score.model,
            feedback.current_score(category, score.model, score.score, explore=explore),
            score.use_reasoning,
            score.reasoning_effort,
        )
        for score in (known.model_scores if known else ())
    ]


def _choose_models(
    snapshot: SemanticSnapshot,
    verdict: DecisionVerdict,
    tokens: int,
    candidates: list[ModelCandidate],
    wish: SelectionPreferences,
    states: Callable[[str], ModelState | None],
) -> ModelChoice | None:
    """Return the candidates in order, then the default model, which may be the only one."""
    section, default = snapshot.section, snapshot.default_model
    models = section.models
    names = [candidate.model for candidate in candidates]
    pricing = {name: models[name].pricing for name in names if name in models}
    last = []
    if default and default not in names and wish.allows(default):
        last = weigh_candidates([ModelCandidate(default, 0.0)], {}, states, tokens, wish.completion_tokens)
    weighed = weigh_candidates(candidates, pricing, states, tokens, wish.completion_tokens)
    if not weighed:
        return ModelChoice(tuple(last), "default_model") if last else None
    if last and last[0].available and not any(each.available for each in weighed):
        return ModelChoice((*last, *weighed), "default_model_as_no_other_is_ready")
    preference, reason, setting = wish.preference, "", section.preference
    least_share = setting.least_share
    if preference == "best" and snapshot.tiers and _is_easy(verdict) and candidates[0].tier is None:
        preference, reason = "cheap", "_as_easy"
        least_share = min(least_share, _share_of_small(snapshot, candidates))
    choice = choose_model(weighed, preference, least_share, setting.quality_weight)
    return ModelChoice((*choice.ranked, *last), choice.reason + reason)


def _share_of_small(snapshot: SemanticSnapshot, candidates: list[ModelCandidate]) -> float:
    """Return the score of the small tier's model as a share of the best one's; 1 if it is no candidate."""
    scores = {candidate.model: candidate.score for candidate in candidates}
    small = scores.get(snapshot.tiers["small"].model)
    return 1.0 if small is None else small / max(scores.values()) - _EPSILON


def _is_easy(verdict: DecisionVerdict) -> bool:
    """Return whether the question was read and found easy."""
    return verdict.difficulty is not None and verdict.difficulty.level == "easy"


def _decide_thinking(
    snapshot: SemanticSnapshot, verdict: DecisionVerdict, best: ModelCandidate | None
) -> ReasoningDecision:
    """Decide on reasoning: a rule with models or a tier sets it itself, easy questions go without, otherwise
    entropy counts.
    """
    chosen = best is not None and best.use_reasoning
    if verdict.rule is not None and verdict.rule.refs:
        return ReasoningDecision(chosen, verdict.confidence, BY_RULE)
    if best is not None and best.tier is not None:
        return ReasoningDecision(chosen, verdict.confidence, BY_TIER)
    if _is_easy(verdict) and not snapshot.section.reasoning.easy:
        return ReasoningDecision(False, 0.5, EASY_QUESTION)
    distribution = verdict.distribution if snapshot.section.reasoning.entropy else None
    return decide_reasoning(distribution, snapshot.needs, chosen, verdict.category, snapshot.rules.threshold)


def _system_prompt(
    snapshot: SemanticSnapshot, verdict: DecisionVerdict, question: RequestQuestion
) -> tuple[str, PromptMode]:
    """Return the system prompt of the rule, else the category, else the shipped one if enabled."""
    plugin = (verdict.rule.plugins if verdict.rule else {}).get("system_prompt")
    if plugin is not None:
        mode: PromptMode = "insert" if plugin.get("mode") == "insert" else "replace"
        return str(plugin.get("system_prompt", "")), mode if plugin.get("enabled", True) else "off"
    category = snapshot.categories.get(verdict.category or "")
    if category is None or category.system_prompt_enabled is False:
        return "", "off"
    given = category_prompt(category, snapshot.section.shipped_prompts)
    text = given if isinstance(given, str) else given.text_in(detect_language(question.text)[0])
    return text, category.system_prompt_mode

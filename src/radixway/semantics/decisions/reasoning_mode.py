"""The fields of a request that tell a model whether to think, by its family.

Whether a model is to think, from how unsure the domain is: the published bands of entropy.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from radixway.core.config.semantic import ReasoningFamily
from radixway.semantics.signals.domain import normalized_entropy


def thinking_fields(
    body: Mapping[str, Any], family: ReasoningFamily | None, on: bool, effort: str
) -> dict[str, Any]:
    """Top-level fields to set, each whole: what the client's own field holds beside ours is kept.

    Off is said as clearly as on, because families such as Qwen3 think unless they are told not to. A family
    with efforts has no off: the client's effort is kept, else the family's lowest is set.
    """
    if family is None:
        return {}
    if family.type == "chat_template_kwargs":
        return {
            "chat_template_kwargs": {**_as_mapping(body.get("chat_template_kwargs")), family.parameter: on}
        }
    if family.type == "thinking":
        fields = _as_mapping(body.get(family.parameter))
        return {family.parameter: {**fields, "type": "enabled" if on else "disabled"}}
    outer, _, inner = family.parameter.partition(".")
    holder = body.get(outer)
    given = _as_mapping(holder).get(inner) if inner else holder
    value = effort if on else given if isinstance(given, str) else family.off
    return {outer: {**_as_mapping(holder), inner: value} if inner else value}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


VERY_HIGH, HIGH, MEDIUM, LOW = 0.8, 0.6, 0.4, 0.2
"""Where the bands of normalised entropy begin; below the last is very low."""

WITHOUT_DISTRIBUTION = ("fallback_traditional_classification", "no_classification_data")
"""The reasons where no domain was read: with a category, and without."""
BY_RULE = "rule"
"""The reason where a rule's own model says whether to think."""
BY_TIER = "tier"
"""The reason where the model of a tier does."""
EASY_QUESTION = "easy_question"
"""The reason where a question is too easy to think about, whatever its category."""


class ReasoningDecision(NamedTuple):
    """The decision, how sure it is, and the published reason."""

    on: bool
    confidence: float
    reason: str


def entropy_band(entropy: float) -> str:
    """Return the published name of the band that a normalised entropy lies in."""
    bands = ((VERY_HIGH, "very_high"), (HIGH, "high"), (MEDIUM, "medium"), (LOW, "low"))
    return next((name for minimum, name in bands if entropy >= minimum), "very_low")


def decide_reasoning(
    distribution: Mapping[str, float] | None,
    needs: Mapping[str, bool],
    chosen: bool,
    category: str | None,
    threshold: float = 0.6,
) -> ReasoningDecision:
    """Return whether to think about a question.

    `distribution`: probability by category, None where the domain was not read. `needs`: by category, whether
    the model that answers it there is to think. `chosen`: the same of the model that was chosen, whose word
    goes before that of `needs` for the question's own `category`. `threshold`: the domain's.
    """
    if not distribution:
        return ReasoningDecision(chosen, 0.5, WITHOUT_DISTRIBUTION[0 if category else 1])
    needs = dict(needs) if category is None else {**needs, category: chosen}
    ranked = sorted(distribution, key=distribution.__getitem__, reverse=True)
    top, share = ranked[0], distribution[ranked[0]]
    entropy = normalized_entropy(distribution)
    if entropy >= VERY_HIGH:
        return ReasoningDecision(True, 0.3, "very_high_uncertainty_conservative_default")
    if entropy >= HIGH:
        return _category_vote(distribution, needs, ranked[:2], "high_uncertainty_weighted_decision")
    if entropy >= MEDIUM and share < threshold:
        return _category_vote(distribution, needs, ranked[:3], "medium_uncertainty_weighted")
    if top not in needs:
        return ReasoningDecision(False, share, "category_not_in_reasoning_map")
    if entropy >= MEDIUM:
        return ReasoningDecision(needs[top], share * 0.8, "medium_uncertainty_top_category_above_threshold")
    if entropy >= LOW:
        return ReasoningDecision(needs[top], share * 0.9, "low_uncertainty_trust_classification")
    return ReasoningDecision(needs[top], share * 0.95, "very_low_uncertainty_trust_classification")


def _category_vote(
    distribution: Mapping[str, float], needs: Mapping[str, bool], voters: list[str], reason: str
) -> ReasoningDecision:
    """Let categories vote with their probabilities; more than half is a yes."""
    total = sum(distribution[name] for name in voters)
    share = sum(distribution[name] for name in voters if needs.get(name, False)) / total if total else 0.0
    return ReasoningDecision(share > 0.5, abs(share - 0.5) + 0.5, reason)

"""Which model answers: scores, then price, time and load on the Pareto front of those that can."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from radixway.core.config.semantic import AbSplit, Level, ModelPricing, Preference, TierModel, TierName
from radixway.core.pipeline import ModelState


@dataclass(frozen=True, slots=True)
class ModelCandidate:
    """A model that may answer a question."""

    model: str
    score: float
    use_reasoning: bool = False
    effort: str | None = None
    tier: TierName | None = None
    """Its tier, where difficulty chose the candidates."""


@dataclass(frozen=True, slots=True)
class WeighedCandidate:
    """A candidate with its price and time for this question."""

    candidate: ModelCandidate
    cost: float
    """Cost in the currency of its pricing; 0 without a price."""
    latency_s: float
    """Expected until the first token, from what was measured and is queued; 0 where nothing is known."""
    available: bool

    def explain(self) -> dict[str, Any]:
        """Return the fields for the journal."""
        entry = {
            "model": self.candidate.model,
            "score": round(self.candidate.score, 4),
            "cost": round(self.cost, 8),
            "latency_s": round(self.latency_s, 4),
            "available": self.available,
        }
        return entry | ({"tier": self.candidate.tier} if self.candidate.tier else {})


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The candidates in the order in which they are tried, and why the first is first."""

    ranked: tuple[WeighedCandidate, ...]
    reason: str

    @property
    def best(self) -> ModelCandidate:
        """The one that answers if it can."""
        return self.ranked[0].candidate


_NEEDED: Mapping[Level, TierName] = {"easy": "small", "medium": "medium", "hard": "large"}
_SIZES: Mapping[TierName, int] = {"small": 0, "medium": 1, "large": 2}


def tier_candidates(tiers: Mapping[TierName, TierModel], level: Level) -> list[ModelCandidate]:
    """Return the models of `tiers`, scored for a question of that `level`.

    The smallest that suffices scores best: a larger one loses a tenth a step, a smaller one half.
    """
    needed = _SIZES[_NEEDED[level]]
    candidates = []
    for name, tier in tiers.items():
        above = _SIZES[name] - needed
        score = 1 - above / 10 if above >= 0 else 0.5**-above
        candidates.append(
            ModelCandidate(tier.model, score, tier.use_reasoning, tier.reasoning_effort, tier=name)
        )
    return candidates


def weigh_candidates(
    candidates: Iterable[ModelCandidate],
    pricing: Mapping[str, ModelPricing | None],
    state_of: Callable[[str], ModelState | None],
    prompt_tokens: int,
    completion_tokens: int,
) -> list[WeighedCandidate]:
    """Price and time of every candidate. A model of which no worker is known may still join: it is available
    only if no other is (`choose_model`).
    """
    weighed = []
    for candidate in candidates:
        price, state = pricing.get(candidate.model), state_of(candidate.model)
        cost = 0.0
        if price is not None:
            tokens = prompt_tokens * price.prompt_per_1m + completion_tokens * price.completion_per_1m
            cost = tokens / 1e6
        latency_s = state.expected_ttft_s(prompt_tokens) if state is not None else 0.0
        available = state is not None and state.workers > 0
        weighed.append(WeighedCandidate(candidate, cost, latency_s, available))
    return weighed


def choose_model(
    weighed: Sequence[WeighedCandidate],
    preference: Preference,
    min_share: float,
    quality_weight: float = 1.0,
) -> ModelChoice:
    """Order the candidates.

    Those that cannot answer now come last. Of the others only the Pareto front (no other is as good in
    score, price and time and better in one) competes for the first place: for `best` by score, less price
    where `quality_weight` is under 1; for `fast` and `cheap` by time or price, among those with `min_share`
    of the best score. The rest follow by score.
    """
    able = [model for model in weighed if model.available]
    reason: str = preference
    if not able:
        able, reason = list(weighed), f"{preference}_though_none_is_ready"
    by_score = sorted(weighed, key=lambda model: (model not in able, -model.candidate.score))
    front = pareto_front(able)
    top = max(model.candidate.score for model in able)
    good = [model for model in front if model.candidate.score >= min_share * top]
    if preference == "fast":
        first = min(good, key=lambda model: (model.latency_s, -model.candidate.score))
    elif preference == "cheap":
        first = min(good, key=lambda model: (model.cost, -model.candidate.score))
    else:
        dearest = max(model.cost for model in able) or 1.0

        def rank(model: WeighedCandidate) -> tuple[float, float, float, float]:
            score, price = model.candidate.score / top, model.cost / dearest
            value = quality_weight * score - (1 - quality_weight) * price
            return -value, -score, model.cost, model.latency_s

        first = min(front, key=rank)
    return ModelChoice((first, *(model for model in by_score if model is not first)), reason)


def pareto_front(weighed: Sequence[WeighedCandidate]) -> list[WeighedCandidate]:
    """Return the candidates that no other dominates, in order."""
    return [one for one in weighed if not any(_dominates(other, one) for other in weighed)]


def _dominates(one: WeighedCandidate, other: WeighedCandidate) -> bool:
    mine = (-one.candidate.score, one.cost, one.latency_s)
    theirs = (-other.candidate.score, other.cost, other.latency_s)
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


def pick_ab_split(splits: Iterable[AbSplit], category: str | None, key: str) -> tuple[AbSplit, str] | None:
    """Return the first A/B split for the category, and the model that `key` falls to, always the same one."""
    for split in splits:
        if split.category in (None, category):
            total = sum(split.models.values())
            at = xxhash.xxh64_intdigest(f"{split.name}\0{key}".encode()) / 2**64 * total
            for model, weight in split.models.items():
                at -= weight
                if at < 0:
                    return split, model
            return split, next(reversed(split.models))
    return None

"""How good models are at a category: what was configured, moved by what users say of the answers."""

import random
from collections import OrderedDict
from dataclasses import dataclass

from radixway.core.config.semantic import FeedbackConfig


@dataclass(slots=True)
class FeedbackCount:
    """Feedback on one model's answers in one category: the sum of the judgements, and their number."""

    good: float = 0.0
    count: int = 0


class ScoreFeedback:
    """A Beta posterior per category and model, whose prior is the configured score.

    A score s counts as `strength` judgements of mean s, so the posterior mean after judgements r₁…rₙ in
    [0, 1] is (s · strength + Σr) / (strength + n): the conjugate update of a Bernoulli bandit.
    """

    def __init__(self, config: FeedbackConfig, rng: random.Random | None = None) -> None:
        self._config = config
        self._rng = rng or random.Random()
        self._judged: dict[tuple[str, str], FeedbackCount] = {}
        self._given: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def remember_decision(self, request_id: str, category: str, model: str, tenant: str = "") -> None:
        """Remember a decision that may be judged later; the oldest is forgotten beyond `remembered`.

        Clients choose ids: those of one tenant are apart from another's.
        """
        if not self._config.remembered:
            return
        self._given[tenant, request_id] = category, model
        self._given.move_to_end((tenant, request_id))
        while len(self._given) > self._config.remembered:
            self._given.popitem(last=False)

    def record_feedback(
        self, request_id: str, reward: float, tenant: str | None = None
    ) -> tuple[str, str] | None:
        """Record that an answer was worth `reward`, 0 to 1. Returns category and model; None if unknown.

        A request is judged once. `tenant`: whose it must be; None: anybody's, the newest of that id.
        """
        mine = (tenant, request_id) if tenant is not None else self._newest_key(request_id)
        known = self._given.pop(mine, None)
        if known is not None:
            judged = self._judged.setdefault(known, FeedbackCount())
            judged.good += reward
            judged.count += 1
        return known

    def _newest_key(self, request_id: str) -> tuple[str, str]:
        return next((key for key in reversed(self._given) if key[1] == request_id), ("", request_id))

    def current_score(self, category: str, model: str, configured: float, *, explore: bool = True) -> float:
        """The score that counts now; a draw from the posterior where `explore` is configured and wanted."""
        judged = self._judged.get((category, model))
        scale = max(1.0, configured)  # scores above 1 are allowed; a posterior is of shares
        prior = self._config.strength
        good = configured / scale * prior + (judged.good if judged else 0.0)
        total = prior + (judged.count if judged else 0)
        if self._config.explore and explore:
            return scale * self._rng.betavariate(max(good, 1e-6), max(total - good, 1e-6))
        return scale * good / total

    def describe(self) -> list[dict[str, object]]:
        """Return every judged category and model."""
        return [
            {
                "category": category,
                "model": model,
                "judgements": judged.count,
                "mean": judged.good / judged.count,
            }
            for (category, model), judged in self._judged.items()
        ]

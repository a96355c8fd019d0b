"""Power of two choices: draw two workers, take the less loaded.

Source: M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001. With many gateways in
front of the same workers it avoids the herd that follows one shared minimum.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

from radixway.pipeline import Request
from radixway.routing.worker import Worker


class PowerOfTwo:
    """Two random candidates compete by requests in hand; the others cost infinity."""

    name = "power_of_two"

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    def costs(self, request: Request, candidates: Sequence[Worker]) -> list[float]:
        costs = [inf] * len(candidates)
        for index in self._rng.sample(range(len(candidates)), min(2, len(candidates))):
            costs[index] = float(candidates[index].load.requests)
        return costs

"""What tokens cost, model by model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from radixway.config import Pricing

PricingOf = Callable[[str], Pricing | None]


class Price(NamedTuple):
    """What something cost; without a price it cost nothing, in no currency."""

    cost: float = 0.0
    currency: str = ""


class Prices:
    """By the model's name or a pattern of it, the first that fits; else what the semantic layer was told."""

    def __init__(self, given: Mapping[str, Pricing], beside: PricingOf = lambda model: None) -> None:
        self._given = given
        self._beside = beside

    def find(self, model: str) -> Pricing | None:
        """The model's pricing, if it has one."""
        exact = self._given.get(model)
        if exact is not None:
            return exact
        for pattern, pricing in self._given.items():
            if fnmatchcase(model, pattern):
                return pricing
        return self._beside(model)

    def of(self, model: str, prompt_tokens: int, completion_tokens: int) -> Price:
        """What so many tokens of that model cost."""
        pricing = self.find(model)
        if pricing is None:
            return Price()
        return Price(pricing.cost(prompt_tokens, completion_tokens), pricing.currency)

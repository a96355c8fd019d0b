"""What tokens cost, model by model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from radixway.config import ModelPricing

PricingOf = Callable[[str], ModelPricing | None]


class TokenCost(NamedTuple):
    """What something cost; without a price it cost nothing, in no currency."""

    cost: float = 0.0
    currency: str = ""


class PriceList:
    """By the model's name or a pattern of it, the first that fits; else what the semantic layer was told."""

    def __init__(self, given: Mapping[str, ModelPricing], beside: PricingOf = lambda model: None) -> None:
        self._given = given
        self._beside = beside

    def find_pricing(self, model: str) -> ModelPricing | None:
        """The model's pricing, if it has one."""
        exact = self._given.get(model)
        if exact is not None:
            return exact
        for pattern, pricing in self._given.items():
            if fnmatchcase(model, pattern):
                return pricing
        return self._beside(model)

    def cost_of(self, model: str, prompt_tokens: int, completion_tokens: int) -> TokenCost:
        """What so many tokens of that model cost."""
        pricing = self.find_pricing(model)
        if pricing is None:
            return TokenCost()
        return TokenCost(pricing.cost(prompt_tokens, completion_tokens), pricing.currency)

"""Prices of a model's tokens."""

from decimal import Decimal

from pydantic import Field

from radixway.core.config.base import ConfigSection


class ModelPricing(ConfigSection):
    """Prices per million tokens."""

    currency: str = Field(default="USD", min_length=1, max_length=16)
    """Of both."""
    prompt_per_1m: float = Field(default=0, ge=0)
    """A million tokens of prompts."""
    completion_per_1m: float = Field(default=0, ge=0)
    """A million tokens of answers."""

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of `prompt_tokens` and `completion_tokens`, in `currency`."""
        return (prompt_tokens * self.prompt_per_1m + completion_tokens * self.completion_per_1m) / 1e6


def format_cost(cost: float) -> str:
    """`cost` in digits, never with an exponent: six that count, and all of those before the point.

    >>> format_cost(4.06e-05), format_cost(1234567.5), format_cost(12.0)
    ('0.0000406', '1,234,567.5', '12')
    """
    exact = Decimal(repr(cost))
    if not exact.is_finite() or not exact:
        return f"{cost:g}"
    places = max(5 - exact.adjusted(), 2)
    return f"{exact:,.{places}f}".rstrip("0").rstrip(".")

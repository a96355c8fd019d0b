"""What a model's tokens cost."""

from pydantic import Field

from radixway.config.base import Section


class Pricing(Section):
    """What tokens cost, per million."""

    currency: str = Field(default="USD", min_length=1, max_length=16)
    """Of both."""
    prompt_per_1m: float = Field(default=0, ge=0)
    """A million tokens of prompts."""
    completion_per_1m: float = Field(default=0, ge=0)
    """A million tokens of answers."""

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Of so many tokens, in `currency`."""
        return (prompt_tokens * self.prompt_per_1m + completion_tokens * self.completion_per_1m) / 1e6

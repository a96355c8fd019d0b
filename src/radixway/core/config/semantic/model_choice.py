"""Weights in the choice of a model, beside scores: ours, and off or neutral until configured."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from radixway.core.config.base import ConfigSection
from radixway.core.config.semantic.models import ModelName, Share

Preference = Literal["best", "fast", "cheap"]


class FusionConfig(ConfigSection):
    """Fusion of the signals that name a category: keyword, then embedding, then domain."""

    certain_at: Share = 0.8
    """A signal at least this sure ends the search."""
    override_at: Share = 0.95
    """A later signal this sure goes before an earlier one that was less than certain."""


class ReasoningConfig(ConfigSection):
    """Conditions on which a model thinks."""

    entropy: bool = True
    """How unsure the domain is counts too, in the published bands; else the chosen model's flag alone."""


class PreferenceConfig(ConfigSection):
    """Quality against price and time."""

    default: Preference = "best"
    """For requests that say nothing (`x-radixway-preference`, or `preference` in the body)."""
    least_share: Share = 0.8
    """`fast` and `cheap` choose among models with at least this share of the best score."""
    completion_tokens: int = Field(default=256, ge=1)
    """Expected of an answer, for its price, where the request limits it no further."""


class AbSplit(ConfigSection):
    """Requests shared out among models, each session staying with its own."""

    name: str = Field(min_length=1)
    """How journals call it."""
    category: str | None = None
    """Only for this one."""
    models: dict[ModelName, float] = Field(min_length=2)
    """Model: its weight."""


class FeedbackConfig(ConfigSection):
    """Scores that move with `/feedback`: a Beta posterior per category and model."""

    strength: float = Field(default=20, gt=0)
    """Judgements that the configured score is worth."""
    explore: bool = False
    """Choose by a draw from the posterior (Thompson sampling) rather than by its mean."""
    remembered: int = Field(default=10_000, ge=0)
    """Recent decisions that may still be scored."""


class BlockConfig(ConfigSection):
    """The reply to a client whom a rule blocks."""

    status: int = Field(default=403, ge=400, le=499)
    """Of the answer to a request that a rule blocks."""

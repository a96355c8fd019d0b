"""The categories of questions, and which models answer them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from radixway.core.config.base import MAY_BE_OFF, ConfigSection
from radixway.core.config.semantic.models import ModelName, Share

CATEGORIES = (
    "biology",
    "business",
    "chemistry",
    "computer science",
    "economics",
    "engineering",
    "health",
    "history",
    "law",
    "math",
    "other",
    "philosophy",
    "physics",
    "psychology",
)
"""The labels that the domain head knows, in its order."""

PromptMode = Annotated[Literal["replace", "insert", "off"], MAY_BE_OFF]


class BilingualText(BaseModel):
    """A text in two languages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    en: str = ""
    """For questions in any other language."""
    zh: str = ""
    """For questions in Chinese."""

    def text_in(self, language: str) -> str:
        """In that language if there is one, else in the other."""
        return (self.zh or self.en) if language == "zh" else (self.en or self.zh)


class ModelScore(ConfigSection):
    """The score of one model at a category."""

    model: ModelName
    """A model's name, as requests name it."""
    score: float = Field(gt=0)
    """How good it is in this category."""
    use_reasoning: bool
    """Whether it is to think about these questions."""
    reasoning_description: str = ""
    """For people; nothing reads it."""
    reasoning_effort: str | None = None
    """For families with efforts; by default `default_reasoning_effort`."""


class CategoryConfig(ConfigSection):
    """One category, and what is different for its questions."""

    name: str = Field(min_length=1, max_length=128)
    """A label of the domain head, or one of your own that `mmlu_categories` or rules lead to."""
    description: str = ""
    """For people; nothing reads it."""
    mmlu_categories: tuple[str, ...] = ()
    """The domain head's labels that mean this one; by default the label of its own name."""
    system_prompt: str | BilingualText = ""
    system_prompt_enabled: bool | None = None
    """False: its prompt is not set."""
    system_prompt_mode: PromptMode = "replace"
    """Of a system message that is there already. `insert`: the prompt goes before it."""
    semantic_cache_enabled: bool | None = None
    """Whether its answers are kept and given again."""
    semantic_cache_similarity_threshold: Share | None = None
    """The least likeness for that."""
    jailbreak_enabled: bool | None = None
    """Whether the guard looks for attacks in requests of this category."""
    jailbreak_threshold: Share | None = None
    """The guard's threshold for them."""
    pii_enabled: bool | None = None
    """Whether the guard looks for personal data in requests of this category."""
    pii_threshold: Share | None = None
    """The guard's threshold for it."""
    model_scores: tuple[ModelScore, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """Labels of the domain head for this category."""
        return self.mmlu_categories or (self.name,)

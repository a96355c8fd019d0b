"""The models that may answer, the categories of questions, and how one is chosen for the other."""

import re
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from radixway.core.config.base import MAY_BE_OFF, ConfigSection, Port, Share
from radixway.core.config.tenants import ModelPricing

_HOST = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?|\[?[0-9A-Fa-f:]+\]?")


def _check_address(address: str) -> str:
    if not _HOST.fullmatch(address):
        raise ValueError(
            f"an address is an IP or a name alone, 10.0.0.7 or gpu1.internal, not {address!r}: "
            "no http://, no path, and the port under `port`"
        )
    return address


Address = Annotated[str, AfterValidator(_check_address)]
ModelName = Annotated[str, Field(min_length=1, max_length=256)]
SignalName = Annotated[
    str, Field(min_length=1, max_length=128, description="How rules and journals call it.")
]
Comment = Annotated[str, Field(description="For people; nothing reads it.")]
T = TypeVar("T")
Unused = Annotated[T, Field(description="Read and not used.")]
"""A key of a vLLM-Semantic-Router `config.yaml` that has no effect here."""


class PiiPolicy(ConfigSection):
    """The personal data that a model may see."""

    allow_by_default: bool = False
    """All of it: nothing is looked for."""
    pii_types_allowed: tuple[str, ...] = ()
    """Types that it may be shown although `allow_by_default` is false."""


class LoraAdapterConfig(ConfigSection):
    """An adapter that the model's workers serve under its own name."""

    name: ModelName
    """The worker's name of the model."""
    description: Comment = ""


class ModelParams(ConfigSection):
    """A model, under `model_config`."""

    reasoning_family: str | None = None
    """Its entry in `reasoning_families`; a model without one is never told whether to think."""
    preferred_endpoints: tuple[str, ...] = ()
    """Names of `vllm_endpoints` that answer for it."""
    pii_policy: PiiPolicy | None = None
    """Without one, all is allowed."""
    pricing: ModelPricing | None = None
    scored_as: str | None = None
    """For `shipped_scores`: the model whose published scores it has, where its own name is not known."""
    loras: tuple[LoraAdapterConfig, ...] = ()


class VllmEndpoint(ConfigSection):
    """A worker: `http://address:port`. It joins those under `workers`."""

    name: str = Field(min_length=1)
    """Name in `preferred_endpoints`, and the pool of its worker."""
    address: Address
    """Its host."""
    port: Port
    """Its port."""
    weight: int = Field(default=1, ge=0)
    """Read and checked; how requests are shared among workers is for `routing`."""
    models: tuple[ModelName, ...] = ()
    """Read from the worker where not given."""
    health_check_path: str | None = None
    """Read and ignored: workers are watched as `routing.health` says."""

    @property
    def url(self) -> str:
        """Return its address as a worker URL."""
        host = f"[{self.address}]" if ":" in self.address and "[" not in self.address else self.address
        return f"http://{host}:{self.port}"


class ReasoningFamily(ConfigSection):
    """The switch by which models of one family are told to think."""

    type: Literal["chat_template_kwargs", "reasoning_effort", "thinking"]
    """`chat_template_kwargs.<parameter>: true|false`; `<parameter>: <effort>`, a dotted parameter being
    nested; or `<parameter>: {type: enabled|disabled}`."""
    parameter: str = Field(min_length=1)
    """The field, or the template's argument, that says whether to think."""
    off: str = "low"
    """The effort that stands for off, where the client gave none."""


REASONING_FAMILIES: dict[str, ReasoningFamily] = {
    "deepseek": ReasoningFamily(type="chat_template_kwargs", parameter="thinking"),
    "qwen3": ReasoningFamily(type="chat_template_kwargs", parameter="enable_thinking"),
    "gpt-oss": ReasoningFamily(type="reasoning_effort", parameter="reasoning_effort"),
    "gpt": ReasoningFamily(type="reasoning_effort", parameter="reasoning_effort"),
}
"""Known without configuration."""

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


class BilingualText(ConfigSection):
    """A text in two languages."""

    en: str = ""
    """Text for questions in any other language."""
    zh: str = ""
    """Text for questions in Chinese."""

    def text_in(self, language: str) -> str:
        """Return the text in `language`, else in the other one."""
        return (self.zh or self.en) if language == "zh" else (self.en or self.zh)


class ModelScore(ConfigSection):
    """The score of one model at a category."""

    model: ModelName
    """A model's name, as requests name it."""
    score: float = Field(gt=0)
    """How good it is in this category."""
    use_reasoning: bool
    """Reason about these questions."""
    reasoning_description: Comment = ""
    reasoning_effort: str | None = None
    """Effort for families that have it; by default `default_reasoning_effort`."""


class CategoryConfig(ConfigSection):
    """A category, and what differs for its questions."""

    name: str = Field(min_length=1, max_length=128)
    """A label of the domain head, or one of your own that `mmlu_categories` or rules lead to."""
    description: Comment = ""
    mmlu_categories: tuple[str, ...] = ()
    """The domain head's labels that mean this one; by default the label of its own name."""
    system_prompt: str | BilingualText = ""
    system_prompt_enabled: bool | None = None
    """False: its prompt is not set."""
    system_prompt_mode: PromptMode = "replace"
    """How to combine it with an existing system message. `insert`: the prompt goes before it."""
    semantic_cache_enabled: bool | None = None
    """Cache its answers."""
    semantic_cache_similarity_threshold: Share | None = None
    """The least likeness for that."""
    jailbreak_enabled: bool | None = None
    """Look for attacks in requests of this category."""
    jailbreak_threshold: Share | None = None
    """The guard's threshold for them."""
    pii_enabled: bool | None = None
    """Look for personal data in requests of this category."""
    pii_threshold: Share | None = None
    """The guard's threshold for it."""
    model_scores: tuple[ModelScore, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """Labels of the domain head for this category."""
        return self.mmlu_categories or (self.name,)


class TierModel(ConfigSection):
    """The model of a tier."""

    model: ModelName
    """A model's name, as requests name it."""
    use_reasoning: bool = False
    """Reason about the questions of this tier."""
    reasoning_effort: str | None = None
    """Effort for families that have it; by default `default_reasoning_effort`."""


def _named_tier(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


Tier = Annotated[TierModel | None, BeforeValidator(_named_tier)]
TierName = Literal["small", "medium", "large"]
Level = Literal["easy", "medium", "hard"]


class TiersConfig(ConfigSection):
    """Models by the difficulty of a question: each a name, or `{model, use_reasoning, reasoning_effort}`."""

    small: Tier = None
    """Answers easy questions."""
    medium: Tier = None
    """Answers those between; without it, `large` does."""
    large: Tier = None
    """Answers hard questions."""
    medium_from: Share = 0.2
    """The `complexity.score` from which a question is no longer easy."""
    large_from: Share = 0.5
    """The `complexity.score` from which a question is hard."""

    @model_validator(mode="after")
    def _check_tiers(self) -> Self:
        named = self.models()
        if named and not {"small", "large"} <= named.keys():
            raise ValueError("tiers need both small and large; medium may be left out")
        if self.medium_from > self.large_from:
            raise ValueError("medium_from must not be above large_from")
        return self

    def models(self) -> dict[TierName, TierModel]:
        """Return the tiers that have a model, the small one first."""
        tiers: dict[TierName, TierModel | None] = {
            "small": self.small,
            "medium": self.medium,
            "large": self.large,
        }
        return {name: tier for name, tier in tiers.items() if tier is not None}

    def level_of(self, complexity: float) -> Level:
        """Return how hard a question with that `complexity.score` is."""
        return (
            "easy" if complexity < self.medium_from else "medium" if complexity < self.large_from else "hard"
        )


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
    easy: bool = False
    """Easy questions may be thought about too; else only where a rule's own model or a tier says so."""


class PreferenceConfig(ConfigSection):
    """Quality against price and time."""

    default: Preference = "best"
    """Preference of requests without one (`x-radixway-preference`, or `preference` in the body)."""
    least_share: Share = 0.8
    """`fast` and `cheap` choose among models with at least this share of the best score."""
    quality_weight: Share = 1
    """What score counts for `best`, beside price: 1 is the score alone, 0 the price alone."""
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
    """Status of a blocked request's answer."""

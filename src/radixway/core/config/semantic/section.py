"""The `semantic` section: ours, and everything a vLLM-Semantic-Router `config.yaml` may hold."""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import ConfigDict, Field

from radixway.core.config.base import ConfigSection
from radixway.core.config.semantic.classic import (
    BertModel,
    ClassicApi,
    ClassicCache,
    ClassicClassifier,
    ClassicListener,
    ClassicObservability,
    ClassicTools,
    EmbeddingModels,
    PromptGuard,
)
from radixway.core.config.semantic.models import (
    CATEGORIES,
    REASONING_FAMILIES,
    AbSplit,
    BlockConfig,
    CategoryConfig,
    FeedbackConfig,
    FusionConfig,
    ModelName,
    ModelParams,
    ModelScore,
    PreferenceConfig,
    ReasoningConfig,
    ReasoningFamily,
    TierModel,
    TierName,
    TiersConfig,
    VllmEndpoint,
)
from radixway.core.config.semantic.shipped_scores import find_published_scores
from radixway.core.config.semantic.signals import (
    DecisionRule,
    EmbeddingSignalConfig,
    KeywordSignalConfig,
    PolicyRule,
    RegexSignalConfig,
    SignalsConfig,
)


class SemanticConfig(ConfigSection):
    """The meaning of requests, and the model that answers them. Off until it is configured."""

    model_config = ConfigDict(serialize_by_alias=True)

    enabled: bool | None = None
    """By default, whether anything here is configured."""
    config: Path | None = None
    """A file with these keys, such as a vLLM-Semantic-Router `config.yaml`. Keys beside it go first."""
    watch: bool = True
    """Changes of that file take effect while the gateway runs."""

    default_model: str = ""
    """Answers where nothing else is decided; by default the model that scores best on the whole."""
    auto_model_name: str = "MoM"
    """A model name that leaves the choice to the gateway, as `auto` always does."""
    include_config_models_in_list: bool = False
    """Models that the configuration names are in `/v1/models`."""
    clear_route_cache: bool = False
    """Envoy's."""
    default_reasoning_effort: str = "medium"
    """Default effort of reasoning models."""
    strategy: Literal["priority", "confidence"] = "priority"
    """How to choose among `decisions` that hold."""

    tiers: TiersConfig = TiersConfig()
    """Models by difficulty, for questions without a category that has scores. Where nothing else chooses a
    model, two or more models with prices are tiers."""
    categories: tuple[CategoryConfig, ...] = ()
    models: dict[ModelName, ModelParams] = Field(default_factory=dict, alias="model_config")
    vllm_endpoints: tuple[VllmEndpoint, ...] = ()
    reasoning_families: dict[str, ReasoningFamily] = Field(default_factory=dict)
    """Added to those known: deepseek, qwen3, gpt-oss, gpt."""

    keyword_rules: tuple[KeywordSignalConfig, ...] = ()
    regex_rules: tuple[RegexSignalConfig, ...] = ()
    embedding_rules: tuple[EmbeddingSignalConfig, ...] = ()
    concepts: tuple[EmbeddingSignalConfig, ...] = ()
    signals: SignalsConfig = SignalsConfig()
    decisions: tuple[DecisionRule, ...] = ()
    policy_rules: tuple[PolicyRule, ...] = ()

    fusion: FusionConfig = FusionConfig()
    reasoning: ReasoningConfig = ReasoningConfig()
    preference: PreferenceConfig = PreferenceConfig()
    ab_splits: tuple[AbSplit, ...] = ()
    feedback: FeedbackConfig = FeedbackConfig()
    block: BlockConfig = BlockConfig()
    shipped_prompts: bool = False
    """Categories without a system prompt of their own get the shipped one."""
    shipped_scores: bool = False
    """Categories without `model_scores` of their own get published ones, of the models named here."""

    bert_model: BertModel = BertModel()
    semantic_cache: ClassicCache | None = None
    tools: ClassicTools | None = None
    prompt_guard: PromptGuard | None = None
    classifier: ClassicClassifier = ClassicClassifier()
    embedding_models: EmbeddingModels = EmbeddingModels()
    api: ClassicApi = ClassicApi()
    observability: ClassicObservability = ClassicObservability()
    router: dict[str, float | None] = Field(default_factory=dict)
    """Figures of the peer's own classifiers: read and not used."""
    listeners: tuple[ClassicListener, ...] = ()

    @property
    def is_on(self) -> bool:
        """True if requests are read for their meaning."""
        return bool(self.model_fields_set) if self.enabled is None else self.enabled

    def model_names(self) -> list[str]:
        """Return every configured model once."""
        scored = (score.model for category in self.categories for score in category.model_scores)
        refs = (ref.lora_name or ref.model for rule in self.decisions for ref in rule.model_refs)
        tiers = (tier.model for tier in self.tiers.models().values())
        default = (self.default_model,) if self.default_model else ()
        return list(dict.fromkeys((*default, *self.models, *tiers, *scored, *refs)))

    @property
    def routes_by_rule(self) -> bool:
        """True if a rule, a category or an A/B split names a model."""
        return bool(self.ab_splits) or any(
            (
                *(category.model_scores for category in self.categories),
                *(decision.model_refs for decision in self.decisions),
                *(policy.models for policy in self.policy_rules),
                *(keyword.models for keyword in (*self.keyword_rules, *self.signals.keywords)),
                *(regex.models for regex in (*self.regex_rules, *self.signals.regexes)),
                *(rule.models for rule in (*self.embedding_rules, *self.concepts, *self.signals.embeddings)),
            )
        )

    def published_scores(self) -> dict[str, Mapping[str, float] | None]:
        """Return what `shipped_scores` knows of each model that is named: its score by category, or None."""
        tiers = (tier.model for tier in self.tiers.models().values())
        named = dict.fromkeys((*((self.default_model,) if self.default_model else ()), *self.models, *tiers))
        alias = {name: params.scored_as for name, params in self.models.items()}
        return {name: find_published_scores(alias.get(name) or name) for name in named}

    def scored_categories(self) -> tuple[CategoryConfig, ...]:
        """Return the configured categories; with `shipped_scores` all, with the scores of known models."""
        if not self.shipped_scores:
            return self.categories
        known = {name: scores for name, scores in self.published_scores().items() if scores}
        covered = {label for category in self.categories for label in category.labels()}
        missing = (CategoryConfig(name=label) for label in CATEGORIES if label not in covered)
        return tuple(
            category if category.model_scores else _with_scores(category, known)
            for category in (*self.categories, *missing)
        )

    def tier_models(self) -> dict[TierName, TierModel]:
        """Return the models by tier, the small one first: as configured, else by price. Empty without tiers.

        Prices make tiers only where no default model, rule or category chooses. A model with the price of
        another adds no tier; of more than three prices the middle one is `medium`.
        """
        if (tiers := self.tiers.models()) or self.default_model or self.routes_by_rule:
            return tiers
        prices: dict[float, str] = {}
        for name, params in self.models.items():
            if params.pricing is not None:
                prices.setdefault(params.pricing.cost(1, 1), name)
        names = [prices[price] for price in sorted(prices)]
        if len(names) < 2:
            return {}
        tiers = {"small": TierModel(model=names[0])}
        if len(names) > 2:
            tiers["medium"] = TierModel(model=names[len(names) // 2])
        return tiers | {"large": TierModel(model=names[-1])}

    def models_at(self, endpoint: VllmEndpoint) -> tuple[str, ...]:
        """Return the models of `endpoint`, its own or by `preferred_endpoints`; empty: those it lists."""
        if endpoint.models:
            return endpoint.models
        prefer = {name: params.preferred_endpoints for name, params in self.models.items()}
        if not any(endpoint.name in names for names in prefer.values()):
            return ()
        served = [name for name, names in prefer.items() if not names or endpoint.name in names]
        return (*served, *(lora.name for name in served for lora in self.models[name].loras))

    def family_of(self, model: str) -> ReasoningFamily | None:
        """Return the reasoning family of that model: how it is told to think."""
        params = self.models.get(model)
        if params is None or params.reasoning_family is None:
            return None
        name = params.reasoning_family
        return self.reasoning_families.get(name) or REASONING_FAMILIES.get(name)


def _with_scores(category: CategoryConfig, known: Mapping[str, Mapping[str, float]]) -> CategoryConfig:
    """Return `category` with the mean of its labels' scores for each of the `known` models."""
    labels = [label for label in category.labels() if label in CATEGORIES]
    scores = (
        ModelScore(model=name, score=fmean(by_label[label] for label in labels), use_reasoning=False)
        for name, by_label in known.items()
        if labels
    )
    return category.model_copy(update={"model_scores": tuple(scores)})

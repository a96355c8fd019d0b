"""The `semantic` section, by idea; it reads a vLLM-Semantic-Router `config.yaml` as it is."""

from radixway.core.config.semantic.classic import ClassicTools, local_model_paths
from radixway.core.config.semantic.compatibility import (
    has_guard_by_category,
    has_guard_conditions,
    is_cached_by_default,
    merge_cache_section,
    requests_guard,
)
from radixway.core.config.semantic.decisions import DecisionRule, ModelRef, PolicyRule, SignalCondition
from radixway.core.config.semantic.loader import (
    file_mistakes_at,
    find_contradictions,
    load_semantic,
    merge_semantic_file,
    parse_semantic,
)
from radixway.core.config.semantic.models import (
    CATEGORIES,
    AbSplit,
    BilingualText,
    CategoryConfig,
    FeedbackConfig,
    FusionConfig,
    Preference,
    ReasoningFamily,
)
from radixway.core.config.semantic.section import SemanticConfig
from radixway.core.config.semantic.signals import (
    ComplexitySignalConfig,
    ContextSignalConfig,
    DomainSignalConfig,
    EmbeddingSignalConfig,
    HeaderSignalConfig,
    KeywordSignalConfig,
    RegexSignalConfig,
    SignalsConfig,
)
from radixway.core.config.tenants import ModelPricing

__all__ = [
    "CATEGORIES",
    "AbSplit",
    "BilingualText",
    "CategoryConfig",
    "ClassicTools",
    "ComplexitySignalConfig",
    "ContextSignalConfig",
    "DecisionRule",
    "DomainSignalConfig",
    "EmbeddingSignalConfig",
    "FeedbackConfig",
    "FusionConfig",
    "HeaderSignalConfig",
    "KeywordSignalConfig",
    "ModelPricing",
    "ModelRef",
    "PolicyRule",
    "Preference",
    "ReasoningFamily",
    "RegexSignalConfig",
    "SemanticConfig",
    "SignalCondition",
    "SignalsConfig",
    "file_mistakes_at",
    "find_contradictions",
    "has_guard_by_category",
    "has_guard_conditions",
    "is_cached_by_default",
    "load_semantic",
    "local_model_paths",
    "merge_cache_section",
    "merge_semantic_file",
    "parse_semantic",
    "requests_guard",
]

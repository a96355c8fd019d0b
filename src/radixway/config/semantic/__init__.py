"""The `semantic` section, by idea; it reads a vLLM-Semantic-Router `config.yaml` as it is."""

from radixway.config.pricing import ModelPricing
from radixway.config.semantic.caching import is_cached_by_default, merge_cache_section
from radixway.config.semantic.categories import CATEGORIES, BilingualText, CategoryConfig, ModelScore
from radixway.config.semantic.checks import find_contradictions
from radixway.config.semantic.choosing import AbSplit, FeedbackConfig, FusionConfig, Preference
from radixway.config.semantic.classic import ClassicTools, local_model_paths
from radixway.config.semantic.decisions import DecisionRule, ModelRef, PolicyRule, SignalCondition
from radixway.config.semantic.guarding import has_guard_by_category, has_guard_conditions, requests_guard
from radixway.config.semantic.loading import (
    file_mistakes_at,
    load_semantic,
    merge_semantic_file,
    parse_semantic,
)
from radixway.config.semantic.models import ModelParams, ReasoningFamily, VllmEndpoint
from radixway.config.semantic.section import SemanticConfig
from radixway.config.semantic.signals import (
    ComplexitySignalConfig,
    ContextSignalConfig,
    DomainSignalConfig,
    EmbeddingSignalConfig,
    HeaderSignalConfig,
    KeywordSignalConfig,
    LanguageSignalConfig,
    RegexSignalConfig,
    SignalsConfig,
)

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
    "LanguageSignalConfig",
    "ModelParams",
    "ModelPricing",
    "ModelRef",
    "ModelScore",
    "PolicyRule",
    "Preference",
    "ReasoningFamily",
    "RegexSignalConfig",
    "SemanticConfig",
    "SignalCondition",
    "SignalsConfig",
    "VllmEndpoint",
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

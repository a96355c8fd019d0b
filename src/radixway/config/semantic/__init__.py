"""The `semantic` section, by idea; it reads a vLLM-Semantic-Router `config.yaml` as it is."""

from radixway.config.pricing import Pricing
from radixway.config.semantic.caching import is_cached_by_default, whole_cache
from radixway.config.semantic.categories import CATEGORIES, Category, InLanguages, ModelScore
from radixway.config.semantic.checks import check
from radixway.config.semantic.choosing import AbSplit, FeedbackSection, FusionSection, Preference
from radixway.config.semantic.classic import ClassicTools, on_this_machine
from radixway.config.semantic.decisions import Condition, DecisionRule, ModelRef, PolicyRule
from radixway.config.semantic.guarding import guards_by_category, reads_guard, wants_guard
from radixway.config.semantic.loading import load_semantic, mistakes_at, parse_semantic, whole_semantic
from radixway.config.semantic.models import ModelParams, ReasoningFamily, VllmEndpoint
from radixway.config.semantic.section import SemanticSection
from radixway.config.semantic.signals import (
    ComplexitySignal,
    ContextSignal,
    DomainSignal,
    EmbeddingSignal,
    HeaderSignal,
    KeywordSignal,
    LanguageSignal,
    RegexSignal,
    SignalsSection,
)

__all__ = [
    "CATEGORIES",
    "AbSplit",
    "Category",
    "ClassicTools",
    "ComplexitySignal",
    "Condition",
    "ContextSignal",
    "DecisionRule",
    "DomainSignal",
    "EmbeddingSignal",
    "FeedbackSection",
    "FusionSection",
    "HeaderSignal",
    "InLanguages",
    "KeywordSignal",
    "LanguageSignal",
    "ModelParams",
    "ModelRef",
    "ModelScore",
    "PolicyRule",
    "Preference",
    "Pricing",
    "ReasoningFamily",
    "RegexSignal",
    "SemanticSection",
    "SignalsSection",
    "VllmEndpoint",
    "check",
    "guards_by_category",
    "is_cached_by_default",
    "load_semantic",
    "mistakes_at",
    "on_this_machine",
    "parse_semantic",
    "reads_guard",
    "wants_guard",
    "whole_cache",
    "whole_semantic",
]

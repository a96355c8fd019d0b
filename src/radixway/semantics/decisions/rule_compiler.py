"""From the configuration's many forms of rules to one: conditions and what follows from them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from radixway.core.config import ConfigError
from radixway.core.config.semantic import (
    CATEGORIES,
    CategoryConfig,
    DecisionRule,
    EmbeddingSignalConfig,
    KeywordSignalConfig,
    ModelRef,
    PolicyRule,
    RegexSignalConfig,
    SemanticConfig,
)
from radixway.semantics.decisions.conditions import SignalMatched, build_condition
from radixway.semantics.decisions.expression_parser import parse_expression
from radixway.semantics.decisions.verdict import CompiledRule, CompiledRules

_BLOCKS, _ROUTES = 200, 150
"""Priorities of the published proposal: safety, then routes."""
_LESS = 0.999
"""Quality ratio of successive models without scores."""


def collect_keywords(section: SemanticConfig) -> tuple[KeywordSignalConfig, ...]:
    """Keyword rules of every form, in the order in which they are heard."""
    return (*section.keyword_rules, *section.signals.keywords)


def collect_regexes(section: SemanticConfig) -> tuple[RegexSignalConfig, ...]:
    """Patterns of every form."""
    return (*section.regex_rules, *section.signals.regexes)


def collect_embeddings(section: SemanticConfig) -> tuple[EmbeddingSignalConfig, ...]:
    """Embedding rules of every form."""
    return (*section.embedding_rules, *section.concepts, *section.signals.embeddings)


def collect_categories(section: SemanticConfig) -> tuple[CategoryConfig, ...]:
    """The configured categories; where there are none, all that the domain head knows, without models."""
    return section.scored_categories() or tuple(CategoryConfig(name=name) for name in CATEGORIES)


def compile_rules(section: SemanticConfig) -> CompiledRules:
    """Raises ConfigError for an expression that is none."""
    policies = [*_policy_rules(section.policy_rules), *_signal_rules(section)]
    decisions = [_compile_decision(rule) for rule in section.decisions]
    chain = _category_chain(section)
    return CompiledRules(
        policies=_by_priority(policies),
        decisions=_by_priority(decisions),
        strategy=section.strategy,
        chain=chain,
        fusion=section.fusion,
        threshold=section.classifier.category_model.threshold,
        tiers=section.tiers if chain or section.tier_models() else None,
    )


def _category_chain(section: SemanticConfig) -> tuple[str, ...]:
    """Return the kinds that determine the category; none if nothing depends on it."""
    categories = collect_categories(section)
    matters = section.shipped_prompts or any(
        category.model_scores or category.system_prompt for category in categories
    )
    if not matters:
        return ()
    names = {category.name for category in categories}
    chain = []
    if any(rule.name in names for rule in collect_keywords(section)):
        chain.append("keyword")
    if any(rule.name in names for rule in collect_embeddings(section)):
        chain.append("embedding")
    return (*chain, "domain")


def _by_priority(rules: Sequence[CompiledRule]) -> tuple[CompiledRule, ...]:
    return tuple(sorted(rules, key=lambda rule: -rule.priority))


def _policy_rules(rules: Sequence[PolicyRule]) -> Iterator[CompiledRule]:
    for rule in rules:
        yield CompiledRule(
            name=rule.name,
            when=parse_expression(rule.condition, f"semantic: policy_rules: {rule.name}"),
            action=rule.action,
            priority=rule.priority,
            refs=_model_refs(rule.models),
            category=rule.category,
            boost_weight=rule.boost_weight,
            message=rule.message,
        )


def _compile_decision(rule: DecisionRule) -> CompiledRule:
    plugins: dict[str, Mapping[str, Any]] = {plugin.type: plugin.configuration for plugin in rule.plugins}
    if len(plugins) < len(rule.plugins):
        raise ConfigError(f"semantic: decisions: {rule.name}: a plugin comes twice")
    return CompiledRule(
        name=rule.name,
        when=build_condition(rule.rules),
        action=rule.action,
        priority=rule.priority,
        refs=_with_scores(rule.model_refs),
        category=rule.category,
        boost_weight=rule.boost_weight,
        message=rule.message,
        plugins=plugins,
    )


def _signal_rules(section: SemanticConfig) -> Iterator[CompiledRule]:
    """Yield signals that define their own consequences."""
    for pattern in collect_regexes(section):
        if pattern.action != "log":
            usual = _BLOCKS if pattern.action == "block" else _ROUTES
            yield CompiledRule(
                name=pattern.name,
                when=SignalMatched("regex", pattern.name),
                action=pattern.action,
                priority=usual if pattern.priority is None else pattern.priority,
                refs=_model_refs(pattern.models),
                message=pattern.message,
            )
    for keyword in collect_keywords(section):
        if keyword.models:
            when = SignalMatched("keyword", keyword.name)
            yield CompiledRule(keyword.name, when, "route", keyword.priority, _model_refs(keyword.models))
    for concept in collect_embeddings(section):
        if concept.action != "none":
            yield CompiledRule(
                name=concept.name,
                when=SignalMatched("embedding", concept.name),
                action=concept.action,
                priority=concept.priority,
                refs=_model_refs(concept.models),
                category=concept.category or (concept.name if concept.action == "boost_category" else None),
                boost_weight=concept.boost_weight,
            )


def _model_refs(models: Sequence[str]) -> tuple[ModelRef, ...]:
    return _with_scores([ModelRef(model=model) for model in models])


def _with_scores(refs: Sequence[ModelRef]) -> tuple[ModelRef, ...]:
    """Return models with scores: configured ones, or ones that keep their order."""
    return tuple(
        ref if ref.score is not None else ref.model_copy(update={"score": _LESS**index})
        for index, ref in enumerate(refs)
    )

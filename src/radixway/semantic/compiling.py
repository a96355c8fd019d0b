"""From the configuration's many forms of rules to one: conditions and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from radixway.config import ConfigError
from radixway.config.semantic import (
    CATEGORIES,
    Category,
    DecisionRule,
    EmbeddingSignal,
    KeywordSignal,
    ModelRef,
    PolicyRule,
    RegexSignal,
    SemanticSection,
)
from radixway.semantic.conditions import Matched, from_tree
from radixway.semantic.decide import Rule, Rules
from radixway.semantic.expression import parse

_BLOCKS, _ROUTES = 200, 150
"""Priorities of the published proposal: safety, then routes."""
_LESS = 0.999
"""How much less good the next of models without scores is."""


def keywords_of(section: SemanticSection) -> tuple[KeywordSignal, ...]:
    """Keyword rules of every form, in the order in which they are heard."""
    return (*section.keyword_rules, *section.signals.keywords)


def regexes_of(section: SemanticSection) -> tuple[RegexSignal, ...]:
    """Patterns of every form."""
    return (*section.regex_rules, *section.signals.regexes)


def embeddings_of(section: SemanticSection) -> tuple[EmbeddingSignal, ...]:
    """Embedding rules of every form."""
    return (*section.embedding_rules, *section.concepts, *section.signals.embeddings)


def categories_of(section: SemanticSection) -> tuple[Category, ...]:
    """The configured categories; where there are none, all that the domain head knows, without models."""
    return section.categories or tuple(Category(name=name) for name in CATEGORIES)


def compile_rules(section: SemanticSection) -> Rules:
    """Raises ConfigError for an expression that is none."""
    policies = [*_policies(section.policy_rules), *_of_signals(section)]
    decisions = [_decision(rule) for rule in section.decisions]
    return Rules(
        policies=_by_priority(policies),
        decisions=_by_priority(decisions),
        strategy=section.strategy,
        chain=_chain(section),
        fusion=section.fusion,
        threshold=section.classifier.category_model.threshold,
    )


def _chain(section: SemanticSection) -> tuple[str, ...]:
    """The kinds that are asked for a category; none where nothing depends on it."""
    categories = categories_of(section)
    matters = section.shipped_prompts or any(
        category.model_scores or category.system_prompt for category in categories
    )
    if not matters:
        return ()
    names = {category.name for category in categories}
    chain = []
    if any(rule.name in names for rule in keywords_of(section)):
        chain.append("keyword")
    if any(rule.name in names for rule in embeddings_of(section)):
        chain.append("embedding")
    return (*chain, "domain")


def _by_priority(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(sorted(rules, key=lambda rule: -rule.priority))


def _policies(rules: Sequence[PolicyRule]) -> Iterator[Rule]:
    for rule in rules:
        yield Rule(
            name=rule.name,
            when=parse(rule.condition, f"semantic: policy_rules: {rule.name}"),
            action=rule.action,
            priority=rule.priority,
            refs=_refs(rule.models),
            category=rule.category,
            boost_weight=rule.boost_weight,
            message=rule.message,
        )


def _decision(rule: DecisionRule) -> Rule:
    plugins: dict[str, Mapping[str, Any]] = {plugin.type: plugin.configuration for plugin in rule.plugins}
    if len(plugins) < len(rule.plugins):
        raise ConfigError(f"semantic: decisions: {rule.name}: a plugin comes twice")
    return Rule(
        name=rule.name,
        when=from_tree(rule.rules),
        action=rule.action,
        priority=rule.priority,
        refs=_scored(rule.model_refs),
        category=rule.category,
        boost_weight=rule.boost_weight,
        message=rule.message,
        plugins=plugins,
    )


def _of_signals(section: SemanticSection) -> Iterator[Rule]:
    """Signals that say themselves what follows from them."""
    for pattern in regexes_of(section):
        if pattern.action != "log":
            usual = _BLOCKS if pattern.action == "block" else _ROUTES
            yield Rule(
                name=pattern.name,
                when=Matched("regex", pattern.name),
                action=pattern.action,
                priority=usual if pattern.priority is None else pattern.priority,
                refs=_refs(pattern.models),
                message=pattern.message,
            )
    for keyword in keywords_of(section):
        if keyword.models:
            when = Matched("keyword", keyword.name)
            yield Rule(keyword.name, when, "route", keyword.priority, _refs(keyword.models))
    for concept in embeddings_of(section):
        if concept.action != "none":
            yield Rule(
                name=concept.name,
                when=Matched("embedding", concept.name),
                action=concept.action,
                priority=concept.priority,
                refs=_refs(concept.models),
                category=concept.category or (concept.name if concept.action == "boost_category" else None),
                boost_weight=concept.boost_weight,
            )


def _refs(models: Sequence[str]) -> tuple[ModelRef, ...]:
    return _scored([ModelRef(model=model) for model in models])


def _scored(refs: Sequence[ModelRef]) -> tuple[ModelRef, ...]:
    """Every model with a score: the configured one, or one that keeps the order."""
    return tuple(
        ref if ref.score is not None else ref.model_copy(update={"score": _LESS**index})
        for index, ref in enumerate(refs)
    )

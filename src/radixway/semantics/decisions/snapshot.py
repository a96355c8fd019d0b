"""One reading of the configuration, compiled: whole, immutable, and a request's from beginning to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from radixway.core.config import ConfigError
from radixway.core.config.semantic import (
    CategoryConfig,
    ClassicTools,
    ComplexitySignalConfig,
    SemanticConfig,
    TierModel,
    TierName,
    has_guard_by_category,
)
from radixway.core.telemetry import SharedObject
from radixway.semantics.decisions.cache_rules import CategoryCacheRules, compile_cache_rules
from radixway.semantics.decisions.rule_compiler import (
    collect_categories,
    collect_embeddings,
    collect_keywords,
    collect_regexes,
    compile_rules,
)
from radixway.semantics.decisions.verdict import CompiledRules
from radixway.semantics.signals.base import SignalDetector
from radixway.semantics.signals.context_length import ContextLengthDetector

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.complexity import Leaning
    from radixway.semantics.signals.domain import DomainClassifier
    from radixway.semantics.signals.embedding import Vectors
    from radixway.semantics.tools import ToolIndex, ToolProfileCache

Encode = Callable[[str], Awaitable["TextEncoding"]]

KINDS = ("header", "context", "language", "regex", "keyword", "complexity", "embedding", "domain")
"""Kinds read here, cheapest first; the guard's findings come last."""


@dataclass(frozen=True, slots=True)
class SemanticSnapshot(SharedObject):
    """All that a request is judged by."""

    section: SemanticConfig
    rules: CompiledRules
    detectors: Mapping[str, SignalDetector]
    """By kind; a kind that is not among them has nothing to say."""
    categories: Mapping[str, CategoryConfig]
    needs: Mapping[str, bool]
    """By category, whether its best model is to think."""
    tiers: Mapping[TierName, TierModel]
    """Models by difficulty, the small one first; empty without tiers."""
    default_model: str
    """Empty where none is configured and nothing suggests one."""
    blocks: frozenset[str]
    """Kinds of signals that rules that block may need: all that is read for an explicit model."""
    cache_rules: CategoryCacheRules
    guard_by_category: bool
    """Whether the guard depends on the category, or on the decision."""
    tools: ToolIndex | None

    def is_auto(self, model: str | None) -> bool:
        """Return whether that name leaves the choice to the gateway."""
        return model in ("auto", self.section.auto_model_name)


async def compile_snapshot(
    section: SemanticConfig,
    encode: Encode | None,
    head: DomainClassifier | None,
    profiles: ToolProfileCache | None = None,
) -> SemanticSnapshot:
    """Compile a section; examples are encoded. `encode` and `head` None: signals that need them say nothing.

    Without `profiles` there are no tools. Raises ConfigError, for what can only be found by compiling:
    expressions, patterns, the database of tools.
    """
    rules = compile_rules(section)
    categories = collect_categories(section)
    blocking = [rule for rule in (*rules.policies, *rules.decisions) if rule.action == "block"]
    blocks = frozenset().union(*(rule.when.signal_kinds for rule in blocking))
    detectors = await _build_detectors(section, categories, encode, head, blocks)
    return SemanticSnapshot(
        section=section,
        rules=rules,
        detectors={each.kind: each for each in detectors},
        categories={category.name: category for category in categories},
        needs={
            category.name: _best_model_thinks(category) for category in categories if category.model_scores
        },
        tiers=section.tier_models(),
        default_model=section.default_model or _best_overall_model(categories),
        blocks=blocks,
        cache_rules=compile_cache_rules(section),
        guard_by_category=has_guard_by_category(section),
        tools=await _build_tool_index(section.tools, profiles),
    )


async def _build_detectors(
    section: SemanticConfig,
    categories: Sequence[CategoryConfig],
    encode: Encode | None,
    head: DomainClassifier | None,
    blocks: frozenset[str],
) -> list[SignalDetector]:
    from radixway.semantics.signals.complexity import ComplexityDetector
    from radixway.semantics.signals.language import LanguageDetector

    names = [category.name for category in categories]
    found: list[SignalDetector] = [ContextLengthDetector(section.signals.context), LanguageDetector()]
    try:
        if keywords := collect_keywords(section):
            from radixway.semantics.signals.keyword import KeywordDetector

            found.append(KeywordDetector(keywords, names, reads_message="keyword" in blocks))
        if regexes := collect_regexes(section):
            from radixway.semantics.signals.keyword import RegexDetector

            found.append(RegexDetector(regexes))
        if section.signals.headers:
            from radixway.semantics.signals.header import HeaderDetector

            found.append(HeaderDetector(section.signals.headers))
    except ImportError as error:
        raise ConfigError(f"semantic: keywords and patterns need radixway[semantic]: {error}") from None
    if head is not None:
        from radixway.semantics.signals.domain import DomainDetector

        threshold = section.classifier.category_model.threshold
        found.append(DomainDetector(head, categories, section.signals.domains, threshold))
    if encode is None:
        return [*found, ComplexityDetector()]
    if embeddings := collect_embeddings(section):
        from radixway.semantics.signals.embedding import EmbeddingDetector

        examples = [sentence for rule in embeddings for sentence in rule.candidates]
        found.append(EmbeddingDetector(embeddings, await _encode_sentences(examples, encode), names))
    rules = section.signals.complexity
    return [*found, ComplexityDetector(rules, [await _build_leaning(rule, encode) for rule in rules])]


async def _build_leaning(rule: ComplexitySignalConfig, encode: Encode) -> Leaning:
    """Return how a rule's hard side is scored: by its examples or its head."""
    from radixway.semantics.signals.complexity import leaning_by_examples, leaning_by_head

    if rule.hard is not None and rule.easy is not None:
        return leaning_by_examples(
            await _encode_sentences(rule.hard.candidates, encode),
            await _encode_sentences(rule.easy.candidates, encode),
        )
    from radixway.semantics.encoders import EncoderError
    from radixway.semantics.encoders.heads.quality_head import PROBE, QualityHead

    assert rule.head is not None
    try:
        head = QualityHead.read_file(rule.head)
        head.check_probe((await encode(PROBE)).vector)
        if head.domains is not None or len(head.models) < 2:
            raise EncoderError("a head for this reads the vector alone and knows two models, weak and strong")
    except EncoderError as error:
        raise ConfigError(f"semantic.signals.complexity: {rule.name}: {error}") from None
    return leaning_by_head(head)


async def _build_tool_index(
    section: ClassicTools | None, profiles: ToolProfileCache | None
) -> ToolIndex | None:
    if section is None or not section.enabled or section.tools_db_path is None or profiles is None:
        return None
    from radixway.semantics.tools.database import read_database

    path = Path(section.tools_db_path)
    return await read_database(path, profiles) if await asyncio.to_thread(path.is_file) else None


async def _encode_sentences(sentences: Sequence[str], encode: Encode) -> Vectors:
    """Return [sentences, size], encoded one by one, so that waiting requests go between."""
    import numpy as np

    from radixway.semantics.encoders import EncoderError

    try:
        return np.stack([(await encode(sentence)).vector for sentence in sentences])
    except EncoderError as error:
        raise ConfigError(f"semantic: examples cannot be encoded: {error}") from None


def _best_model_thinks(category: CategoryConfig) -> bool:
    return max(category.model_scores, key=lambda each: each.score).use_reasoning


def _best_overall_model(categories: Sequence[CategoryConfig]) -> str:
    """Return the model with the highest sum of scores."""
    sums: dict[str, float] = {}
    for category in categories:
        for each in category.model_scores:
            sums[each.model] = sums.get(each.model, 0.0) + each.score
    return max(sums, key=sums.__getitem__, default="")

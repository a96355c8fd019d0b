"""One reading of the configuration, compiled: whole, immutable, and a request's from beginning to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from radixway.config import ConfigError
from radixway.config.semantic import (
    Category,
    ClassicTools,
    ComplexitySignal,
    SemanticSection,
    guards_by_category,
)
from radixway.semantic.cache_rules import CacheRules, cache_rules_of
from radixway.semantic.compiling import (
    categories_of,
    compile_rules,
    embeddings_of,
    keywords_of,
    regexes_of,
)
from radixway.semantic.decide import Rules
from radixway.semantic.signals.base import Detector
from radixway.semantic.signals.context_length import ContextLengthDetector
from radixway.telemetry import Shared

if TYPE_CHECKING:
    from radixway.encoders import Encoding
    from radixway.semantic.signals.complexity import Leaning
    from radixway.semantic.signals.domain import DomainHead
    from radixway.semantic.signals.embedding import Vectors
    from radixway.semantic.tools import Profiles, ToolIndex

Encode = Callable[[str], Awaitable["Encoding"]]

KINDS = ("header", "context", "language", "regex", "keyword", "complexity", "embedding", "domain")
"""What is read here, cheapest first; what the guard reads comes last."""


@dataclass(frozen=True, slots=True)
class Snapshot(Shared):
    """What a request is judged by."""

    section: SemanticSection
    rules: Rules
    detectors: Mapping[str, Detector]
    """By kind; a kind that is not among them has nothing to say."""
    categories: Mapping[str, Category]
    needs: Mapping[str, bool]
    """By category, whether its best model is to think."""
    default_model: str
    """Empty where none is configured and nothing suggests one."""
    blocks: frozenset[str]
    """Kinds of signals that rules that block may need: all that is read for an explicit model."""
    cache_rules: CacheRules
    guard_by_category: bool
    """Whether what the guard looks for depends on the category, or on the decision."""
    tools: ToolIndex | None
    """The database of tools, where there is one."""

    def is_auto(self, model: str | None) -> bool:
        """Whether that name leaves the choice to the gateway."""
        return model in ("auto", self.section.auto_model_name)


async def take_snapshot(
    section: SemanticSection,
    encode: Encode | None,
    head: DomainHead | None,
    profiles: Profiles | None = None,
) -> Snapshot:
    """Compile a section; examples are encoded. `encode` and `head` None: signals that need them say nothing.

    Without `profiles` there are no tools. Raises ConfigError, for what can only be found by compiling:
    expressions, patterns, the database of tools.
    """
    rules = compile_rules(section)
    categories = categories_of(section)
    blocking = [rule for rule in (*rules.policies, *rules.decisions) if rule.action == "block"]
    return Snapshot(
        section=section,
        rules=rules,
        detectors={each.kind: each for each in await _detectors(section, categories, encode, head)},
        categories={category.name: category for category in categories},
        needs={category.name: _best_thinks(category) for category in categories if category.model_scores},
        default_model=section.default_model or _best_on_the_whole(section.categories),
        blocks=frozenset().union(*(rule.when.kinds for rule in blocking)),
        cache_rules=cache_rules_of(section),
        guard_by_category=guards_by_category(section),
        tools=await _tools(section.tools, profiles),
    )


async def _detectors(
    section: SemanticSection, categories: Sequence[Category], encode: Encode | None, head: DomainHead | None
) -> list[Detector]:
    from radixway.semantic.signals.complexity import ComplexityDetector
    from radixway.semantic.signals.language import LanguageDetector

    names = [category.name for category in categories]
    found: list[Detector] = [ContextLengthDetector(section.signals.context), LanguageDetector()]
    try:
        if keywords := keywords_of(section):
            from radixway.semantic.signals.keyword import KeywordDetector

            found.append(KeywordDetector(keywords, names))
        if regexes := regexes_of(section):
            from radixway.semantic.signals.regex import RegexDetector

            found.append(RegexDetector(regexes))
        if section.signals.headers:
            from radixway.semantic.signals.header import HeaderDetector

            found.append(HeaderDetector(section.signals.headers))
    except ImportError as error:
        raise ConfigError(f"semantic: keywords and patterns need radixway[semantic]: {error}") from None
    if head is not None:
        from radixway.semantic.signals.domain import DomainDetector

        threshold = section.classifier.category_model.threshold
        found.append(DomainDetector(head, categories, section.signals.domains, threshold))
    if encode is None:
        return [*found, ComplexityDetector()]
    if embeddings := embeddings_of(section):
        from radixway.semantic.signals.embedding import EmbeddingDetector

        examples = [sentence for rule in embeddings for sentence in rule.candidates]
        found.append(EmbeddingDetector(embeddings, await _vectors(examples, encode), names))
    rules = section.signals.complexity
    return [*found, ComplexityDetector(rules, [await _leaning(rule, encode) for rule in rules])]


async def _leaning(rule: ComplexitySignal, encode: Encode) -> Leaning:
    """How a rule's hard side is known: by its examples or by its head."""
    from radixway.semantic.signals.complexity import by_examples, by_head

    if rule.hard is not None and rule.easy is not None:
        return by_examples(
            await _vectors(rule.hard.candidates, encode), await _vectors(rule.easy.candidates, encode)
        )
    from radixway.encoders import EncoderError
    from radixway.encoders.heads.quality import PROBE, QualityHead

    assert rule.head is not None
    try:
        head = QualityHead.read_file(rule.head)
        head.check((await encode(PROBE)).vector)
        if head.domains is not None or len(head.models) < 2:
            raise EncoderError("a head for this reads the vector alone and knows two models, weak and strong")
    except EncoderError as error:
        raise ConfigError(f"semantic.signals.complexity: {rule.name}: {error}") from None
    return by_head(head)


async def _tools(section: ClassicTools | None, profiles: Profiles | None) -> ToolIndex | None:
    if section is None or not section.enabled or section.tools_db_path is None or profiles is None:
        return None
    from radixway.semantic.tools.database import read_database

    path = Path(section.tools_db_path)
    return await read_database(path, profiles) if await asyncio.to_thread(path.is_file) else None


async def _vectors(sentences: Sequence[str], encode: Encode) -> Vectors:
    """[sentences, size]. One after the other: requests that are waiting go between."""
    import numpy as np

    from radixway.encoders import EncoderError

    try:
        return np.stack([(await encode(sentence)).vector for sentence in sentences])
    except EncoderError as error:
        raise ConfigError(f"semantic: examples cannot be encoded: {error}") from None


def _best_thinks(category: Category) -> bool:
    return max(category.model_scores, key=lambda each: each.score).use_reasoning


def _best_on_the_whole(categories: Sequence[Category]) -> str:
    """The model with the highest sum of scores: good at much."""
    sums: dict[str, float] = {}
    for category in categories:
        for each in category.model_scores:
            sums[each.model] = sums.get(each.model, 0.0) + each.score
    return max(sums, key=sums.__getitem__, default="")

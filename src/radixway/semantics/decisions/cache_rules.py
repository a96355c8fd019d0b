"""What categories and decisions want of the semantic cache."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from radixway.core.config.semantic import SemanticConfig
from radixway.semantics.decisions.verdict import DecisionVerdict

PLUGIN = "semantic-cache"

Wanted = tuple[bool | None, float | None]
"""Whether to cache, and the least similarity; None: the cache's own setting."""

_NOTHING: Wanted = (None, None)


@dataclass(frozen=True, slots=True)
class CacheDefault:
    """The cache's configured default."""

    enabled: bool
    """Whether answers are cached where no category decides."""
    by_category: bool
    """Whether it has thresholds for categories."""


@dataclass(frozen=True, slots=True)
class CategoryCacheRules:
    """Cache rules by category, and by the winning decision's plugin. False: no rule."""

    by_category: Mapping[str, Wanted] = field(default_factory=dict)
    by_decision: Mapping[str, Wanted] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_category or self.by_decision)

    def rule_for(self, verdict: DecisionVerdict) -> Wanted:
        """Return the rule of the decision that won, else that of its category."""
        rule = verdict.rule
        if rule is not None and rule.name in self.by_decision and PLUGIN in rule.plugins:
            return self.by_decision[rule.name]
        return self.by_category.get(verdict.category or "", _NOTHING)


def compile_cache_rules(section: SemanticConfig) -> CategoryCacheRules:
    """Read the rules of a configuration."""
    by_category = {
        category.name: (category.semantic_cache_enabled, category.semantic_cache_similarity_threshold)
        for category in section.categories
    }
    by_decision = {
        rule.name: (settings.get("enabled", True), settings.get("similarity_threshold"))
        for rule in section.decisions
        for settings in (plugin.configuration for plugin in rule.plugins if plugin.type == PLUGIN)
    }
    return CategoryCacheRules(
        {name: settings for name, settings in by_category.items() if settings != _NOTHING}, by_decision
    )

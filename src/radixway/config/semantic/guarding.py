"""What keys of a vLLM-Semantic-Router configuration say of a guard."""

from __future__ import annotations

import re

from radixway.config.semantic.section import SemanticConfig

_PLUGINS = frozenset({"pii", "jailbreak"})


def requests_guard(section: SemanticConfig) -> bool:
    """Whether any of them asks for one."""
    return (
        (section.prompt_guard is not None and section.prompt_guard.enabled)
        or any(params.pii_policy is not None for params in section.models.values())
        or any(each.pii_enabled or each.jailbreak_enabled for each in section.categories)
        or any(
            plugin.type in _PLUGINS and plugin.configuration.get("enabled", True)
            for rule in section.decisions
            for plugin in rule.plugins
        )
    )


def has_guard_by_category(section: SemanticConfig) -> bool:
    """Whether what is looked for differs by what a request is about, or by the decision on it."""
    plugins = {plugin.type for rule in section.decisions for plugin in rule.plugins}
    return not plugins.isdisjoint(_PLUGINS) or any(
        said is not None
        for each in section.categories
        for said in (each.pii_enabled, each.pii_threshold, each.jailbreak_enabled, each.jailbreak_threshold)
    )


def has_guard_conditions(section: SemanticConfig) -> bool:
    """Whether rules ask what a guard found."""
    trees = [rule.rules for rule in section.decisions]
    while trees:
        node = trees.pop()
        if node.type in _PLUGINS:
            return True
        trees += node.conditions
    return any(_TERM.search(rule.condition) for rule in section.policy_rules)


_TERM = re.compile(r"\b(pii|jailbreak)\.")

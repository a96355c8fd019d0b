"""Categories' system prompts, shown and switched while the gateway runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from radixway.config.semantic import BilingualText, CategoryConfig
from radixway.config.semantic.categories import PromptMode
from radixway.semantic.shipped_prompts import SHIPPED
from radixway.semantic.snapshot import SemanticSnapshot


def describe_prompts(snapshot: SemanticSnapshot) -> list[dict[str, Any]]:
    """Every category with its prompt, whether it is given to models, and how."""
    return [_describe_prompt(each, snapshot.section.shipped_prompts) for each in snapshot.categories.values()]


def switch_prompts(
    snapshot: SemanticSnapshot, category: str | None, enabled: bool | None, mode: PromptMode | None
) -> SemanticSnapshot:
    """The prompt of one category, or of all, on or off or in another mode; None leaves it as it is.

    Raises KeyError for a category that there is not.
    """
    if category is not None and category not in snapshot.categories:
        raise KeyError(category)
    change: dict[str, Any] = {}
    if enabled is not None:
        change["system_prompt_enabled"] = enabled
    if mode is not None:
        change["system_prompt_mode"] = mode
    categories = {
        name: each.model_copy(update=change) if category in (None, name) else each
        for name, each in snapshot.categories.items()
    }
    own = tuple(categories[each.name] for each in snapshot.section.categories)
    return replace(
        snapshot, categories=categories, section=snapshot.section.model_copy(update={"categories": own})
    )


def _describe_prompt(category: CategoryConfig, shipped: bool) -> dict[str, Any]:
    given: str | BilingualText = category.system_prompt
    if not given and shipped:
        given = SHIPPED.get(category.labels()[0], BilingualText())
    told: dict[str, Any] = {
        "category": category.name,
        "prompt": given if isinstance(given, str) else given.text_in("en"),
        "enabled": category.system_prompt_enabled is not False and category.system_prompt_mode != "off",
        "mode": category.system_prompt_mode,
    }
    if isinstance(given, BilingualText):
        told["prompts"] = {"en": given.en, "zh": given.zh}
    return told

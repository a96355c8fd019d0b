"""Loads a `semantic` section from a file of its own, and checks that the names in it refer to something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from radixway.core.config.base import ConfigError
from radixway.core.config.semantic.decisions import SignalCondition
from radixway.core.config.semantic.models import REASONING_FAMILIES
from radixway.core.config.semantic.section import SemanticConfig
from radixway.core.config.yaml_file import (
    ConfigFileError,
    FileMistake,
    Place,
    locate_mistakes,
    parse_yaml,
    places_of_mistakes,
    read_text,
)

PlacedMistake = tuple[Place, str]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


GUARD_FINDS = {
    "jailbreak": {"prompt_injection", "instruction_override", "adversarial_prompt", "social_engineering"},
    "pii": {
        *("PERSON", "AGE", "NRP", "EMAIL_ADDRESS", "PHONE_NUMBER", "STREET_ADDRESS", "ZIP_CODE"),
        *("IBAN_CODE", "US_SSN", "US_DRIVER_LICENSE", "IP_ADDRESS", "DOMAIN_NAME", "ORGANIZATION", "GPE"),
        *("DATE_TIME", "CN_ID_CARD", "CN_BANK_CARD", "CREDIT_CARD"),
    },
}
"""What conditions may name without a signal of that name: what ships finds these."""


def find_contradictions(section: SemanticConfig) -> Iterator[PlacedMistake]:
    """Return every place where keys of `section` contradict each other, and how."""
    yield from _check_models(section)
    yield from _check_categories(section)
    for at, names in _named_lists(section):
        yield from _check_duplicates(at, names)
    for index, rule in enumerate(section.decisions):
        models = [ref.model for ref in rule.model_refs]
        yield from _check_conditions(rule.rules, ("decisions", index, "rules"), _known_signals(section))
        yield from _check_action(rule.action, models, rule.category, ("decisions", index), "modelRefs")
    for index, policy in enumerate(section.policy_rules):
        yield from _check_action(
            policy.action, policy.models, policy.category, ("policy_rules", index), "models"
        )


def _check_models(section: SemanticConfig) -> Iterator[PlacedMistake]:
    endpoints = {endpoint.name for endpoint in section.vllm_endpoints}
    families = REASONING_FAMILIES.keys() | section.reasoning_families.keys()
    at: Place
    for name, model in section.models.items():
        for index, endpoint in enumerate(model.preferred_endpoints):
            if endpoint not in endpoints:
                at = ("model_config", name, "preferred_endpoints", index)
                yield at, f"there is no endpoint {endpoint!r} under vllm_endpoints"
        if model.reasoning_family is not None and model.reasoning_family not in families:
            at = ("model_config", name, "reasoning_family")
            known = ", ".join(sorted(families))
            yield at, f"there is no family {model.reasoning_family!r}; known are {known}"


def _check_categories(section: SemanticConfig) -> Iterator[PlacedMistake]:
    for index, category in enumerate(section.categories):
        at = ("categories", index)
        if not category.model_scores and not (section.decisions or section.default_model):
            yield at, f"{category.name} needs model_scores, or the section a default_model"
        yield from _check_duplicates((*at, "model_scores"), [score.model for score in category.model_scores])


def _named_lists(section: SemanticConfig) -> Iterator[tuple[Place, list[str]]]:
    for name in ("categories", "vllm_endpoints", "decisions", "policy_rules", "ab_splits"):
        yield (name,), [each.name for each in getattr(section, name)]
    for name in ("keywords", "embeddings", "headers", "context", "complexity"):
        yield ("signals", name), [each.name for each in getattr(section.signals, name)]


def _check_duplicates(at: Place, names: Iterable[str]) -> Iterator[PlacedMistake]:
    seen = set()
    for index, name in enumerate(names):
        if name in seen:
            yield (*at, index), f"{name!r} comes twice"
        seen.add(name)


def _known_signals(section: SemanticConfig) -> dict[str, set[str]]:
    signals = section.signals
    levels = [f"{each.name}:{level}" for each in signals.complexity for level in ("hard", "medium", "easy")]
    return {
        "keyword": _names(signals.keywords, section.keyword_rules),
        "regex": _names(signals.regexes, section.regex_rules),
        "embedding": _names(signals.embeddings, section.embedding_rules, section.concepts),
        "domain": _names(signals.domains, section.categories),
        "context": _names(signals.context),
        "header": _names(signals.headers),
        "complexity": set(levels),
        "jailbreak": _names(signals.jailbreak) | GUARD_FINDS["jailbreak"],
        "pii": _names(signals.pii) | GUARD_FINDS["pii"],
    }


def _names(*sections: Iterable[_Named]) -> set[str]:
    return {each.name for section in sections for each in section}


def _check_conditions(
    node: SignalCondition, at: Place, known: dict[str, set[str]]
) -> Iterator[PlacedMistake]:
    names = known.get(node.type or "")
    if node.name is not None and names is not None and node.name not in names:
        some = ", ".join(sorted(names)[:8]) or "none"
        yield (*at, "name"), f"there is no {node.type} signal {node.name!r}; there are: {some}"
    for index, child in enumerate(node.conditions):
        yield from _check_conditions(child, (*at, "conditions", index), known)


def _check_action(
    action: str, models: Iterable[str], category: str | None, at: Place, field: str
) -> Iterator[PlacedMistake]:
    if action == "route" and not tuple(models) and category is None:
        yield at, f"a rule that routes needs {field}, or a category"
    if action == "boost_category" and category is None:
        yield at, "a rule that boosts needs the category"


def load_semantic(path: Path) -> SemanticConfig:
    """Load a vLLM-Semantic-Router `config.yaml`, or the same keys of ours. Raises ConfigError by line."""
    return parse_semantic(read_text(path), path)


def parse_semantic(text: str, path: Path) -> SemanticConfig:
    """Parse a text that is to be saved to that file. Raises ConfigFileError."""
    tree, root = parse_yaml(text, path)
    if not tree:  # as a file is for a moment while somebody writes it: that must not switch rules off
        raise ConfigFileError(path, [FileMistake("there is nothing in it")])
    for name in tuple(tree):
        if tree[name] is None:  # all its keys are commented out
            del tree[name]
    found: list[PlacedMistake] = []
    if "config" in tree:
        found = [(("config",), "a semantic file cannot name another one")]
    else:
        try:
            section = SemanticConfig.model_validate(tree)
            found = list(find_contradictions(section))
        except ValidationError as error:
            found = places_of_mistakes(error)
    if found:
        raise ConfigFileError(path, locate_mistakes(found, root))
    return section


def file_mistakes_at(path: Path, text: str, mistakes: Iterable[PlacedMistake]) -> ConfigFileError | None:
    """Mistakes in the text of a file, each with its line; None where there are none."""
    root = parse_yaml(text, path)[1]
    found = list(mistakes)
    return ConfigFileError(path, locate_mistakes(found, root)) if found else None


def merge_semantic_file(section: SemanticConfig, text: str | None = None) -> SemanticConfig:
    """Return the section above the file that it names (or above `text` in its place). Raises ConfigError."""
    if section.config is None:
        return section
    below = parse_semantic(read_text(section.config) if text is None else text, section.config)
    own = {name: getattr(section, name) for name in section.model_fields_set}
    whole = below.model_copy(update=own)
    mistakes = [FileMistake(text, at=at) for at, text in find_contradictions(whole)]
    if mistakes:
        raise ConfigError("\n".join(f"semantic: {each.path}: {each.text}" for each in mistakes))
    return whole

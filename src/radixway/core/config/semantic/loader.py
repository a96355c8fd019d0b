"""Checks between keys: names that refer to nothing, names that come twice.

A `semantic` section from a file of its own, with its mistakes told by path and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from radixway.core.config.base import ConfigError
from radixway.core.config.semantic.decisions import SignalCondition
from radixway.core.config.semantic.models import REASONING_FAMILIES
from radixway.core.config.semantic.section import SemanticConfig
from radixway.core.config.yaml_file import (
    ConfigFileError,
    FileMistake,
    Place,
    describe_validation_error,
    locate_mistakes,
    parse_yaml,
    read_text,
)

PlacedMistake = tuple[Place, str]

GUARD_FINDS = {
    "jailbreak": {"prompt_injection", "instruction_override", "adversarial_prompt", "social_engineering"},
    "pii": {
        *(
            "PERSON",
            "AGE",
            "NRP",
            "EMAIL_ADDRESS",
            "PHONE_NUMBER",
            "STREET_ADDRESS",
            "ZIP_CODE",
            "CREDIT_CARD",
        ),
        *("IBAN_CODE", "US_SSN", "US_DRIVER_LICENSE", "IP_ADDRESS", "DOMAIN_NAME", "ORGANIZATION", "GPE"),
        *("DATE_TIME", "CN_ID_CARD", "CN_BANK_CARD"),
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
    signals = section.signals
    yield ("categories",), [each.name for each in section.categories]
    yield ("vllm_endpoints",), [each.name for each in section.vllm_endpoints]
    yield ("decisions",), [each.name for each in section.decisions]
    yield ("policy_rules",), [each.name for each in section.policy_rules]
    yield ("ab_splits",), [each.name for each in section.ab_splits]
    yield ("signals", "keywords"), [each.name for each in signals.keywords]
    yield ("signals", "embeddings"), [each.name for each in signals.embeddings]
    yield ("signals", "headers"), [each.name for each in signals.headers]
    yield ("signals", "context"), [each.name for each in signals.context]
    yield ("signals", "complexity"), [each.name for each in signals.complexity]


def _check_duplicates(at: Place, names: Iterable[str]) -> Iterator[PlacedMistake]:
    seen = set()
    for index, name in enumerate(names):
        if name in seen:
            yield (*at, index), f"{name!r} comes twice"
        seen.add(name)


def _known_signals(section: SemanticConfig) -> dict[str, set[str]]:
    signals = section.signals
    domains = {each.name for each in signals.domains} | {each.name for each in section.categories}
    return {
        "keyword": {each.name for each in (*signals.keywords, *section.keyword_rules)},
        "regex": {each.name for each in (*signals.regexes, *section.regex_rules)},
        "embedding": {
            each.name for each in (*signals.embeddings, *section.embedding_rules, *section.concepts)
        },
        "domain": domains,
        "context": {each.name for each in signals.context},
        "header": {each.name for each in signals.headers},
        "complexity": {
            f"{each.name}:{level}" for each in signals.complexity for level in ("hard", "medium", "easy")
        },
        "jailbreak": {each.name for each in signals.jailbreak} | GUARD_FINDS["jailbreak"],
        "pii": {each.name for each in signals.pii} | GUARD_FINDS["pii"],
    }


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
    """The section in a file: a vLLM-Semantic-Router `config.yaml`, or the same keys of ours.

    Raises:
        ConfigError: one line per mistake, each with path and line.
    """
    return parse_semantic(read_text(path), path)


def parse_semantic(text: str, path: Path) -> SemanticConfig:
    """Parse a text that is to be saved to that file. Raises ConfigFileError."""
    tree, root = parse_yaml(text, path)
    if not tree:  # as a file is for a moment while somebody writes it: that must not switch rules off
        raise ConfigFileError(path, [FileMistake("there is nothing in it")])
    for name in tuple(tree):
        if tree[name] is None:  # all its keys are commented out
            del tree[name]
    found: list[tuple[Place, str]] = []
    if "config" in tree:
        found = [(("config",), "a semantic file cannot name another one")]
    else:
        try:
            section = SemanticConfig.model_validate(tree)
            found = list(find_contradictions(section))
        except ValidationError as error:
            found = [(mistake["loc"], describe_validation_error(mistake)) for mistake in error.errors()]
    if found:
        raise ConfigFileError(path, locate_mistakes(found, root))
    return section


def file_mistakes_at(path: Path, text: str, mistakes: Iterable[tuple[Place, str]]) -> ConfigFileError | None:
    """Mistakes in the text of a file, each with its line; None where there are none."""
    root = parse_yaml(text, path)[1]
    found = list(mistakes)
    return ConfigFileError(path, locate_mistakes(found, root)) if found else None


def merge_semantic_file(section: SemanticConfig, text: str | None = None) -> SemanticConfig:
    """The section together with the file that it names; its own keys go before the file's.

    `text`: what is to stand in the file. Raises ConfigError, also for what the two say of each other.
    """
    if section.config is None:
        return section
    below = parse_semantic(read_text(section.config) if text is None else text, section.config)
    own = {name: getattr(section, name) for name in section.model_fields_set}
    whole = below.model_copy(update=own)
    if mistakes := [f"semantic: {_dotted_path(at)}: {said}" for at, said in find_contradictions(whole)]:
        raise ConfigError("\n".join(mistakes))
    return whole


def _dotted_path(at: Place) -> str:
    return ".".join(str(part) for part in at)

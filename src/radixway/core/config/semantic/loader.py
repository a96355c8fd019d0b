"""Loads and checks a `semantic` section, and reads off it what it asks of the cache and of the guard."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from pydantic import Field, SecretStr, ValidationError

from radixway.core.config.base import ConfigError, ConfigSection
from radixway.core.config.sections import MilvusConfig, SemanticCacheConfig, ValkeyConfig
from radixway.core.config.semantic.models import REASONING_FAMILIES
from radixway.core.config.semantic.section import SemanticConfig
from radixway.core.config.semantic.signals import SignalCondition
from radixway.core.config.yaml_file import (
    ConfigFileError,
    FileMistake,
    Place,
    locate_mistakes,
    parse_yaml,
    places_of_mistakes,
    read_text,
    read_yaml,
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
"""Names that conditions may use without a signal: findings of the shipped guard."""


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
    if section.shipped_scores and not any(section.published_scores().values()):
        named = ", ".join(section.published_scores()) or "none"
        yield (
            ("shipped_scores",),
            f"no scores are known for the models named ({named}): see model_config.MODEL.scored_as",
        )
    for index, category in enumerate(section.categories):
        at = ("categories", index)
        if not category.model_scores and not (
            section.decisions or section.default_model or section.shipped_scores or section.tier_models()
        ):
            yield at, f"{category.name} needs model_scores, or the section a default_model or tiers"
        yield from _check_duplicates((*at, "model_scores"), [score.model for score in category.model_scores])


def _named_lists(section: SemanticConfig) -> Iterator[tuple[Place, list[str]]]:
    for name in ("categories", "vllm_endpoints", "decisions", "policy_rules", "ab_splits"):
        yield (name,), [entry.name for entry in getattr(section, name)]
    for name in ("keywords", "embeddings", "headers", "context", "complexity"):
        yield ("signals", name), [entry.name for entry in getattr(section.signals, name)]


def _check_duplicates(at: Place, names: Iterable[str]) -> Iterator[PlacedMistake]:
    seen = set()
    for index, name in enumerate(names):
        if name in seen:
            yield (*at, index), f"{name!r} comes twice"
        seen.add(name)


def _known_signals(section: SemanticConfig) -> dict[str, set[str]]:
    signals = section.signals
    levels = [f"{rule.name}:{level}" for rule in signals.complexity for level in ("hard", "medium", "easy")]
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
    return {entry.name for section in sections for entry in section}


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
    if not tree:  # as a file is for a moment while it is written: that must not switch rules off
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
    merged = below.model_copy(update=own)
    mistakes = [FileMistake(text, at=at) for at, text in find_contradictions(merged)]
    if mistakes:
        raise ConfigError("\n".join(f"semantic: {mistake.path}: {mistake.text}" for mistake in mistakes))
    return merged


def merge_cache_section(own: SemanticCacheConfig, semantic: SemanticConfig) -> SemanticCacheConfig:
    """Return the section `semantic_cache`, completed with the classic key of its name. Raises ConfigError."""
    classic = semantic.semantic_cache
    if classic is None:
        return own
    threshold = classic.similarity_threshold
    given: dict[str, Any] = {
        "enabled": classic.enabled or any(rule.semantic_cache_enabled for rule in semantic.categories),
        "similarity_threshold": semantic.bert_model.threshold if threshold is None else threshold,
        "max_entries": max(classic.max_entries, 1),
        "ttl_s": float(classic.ttl_seconds),
        "eviction": classic.eviction_policy,
    }
    given |= _backend_settings(classic.backend_type, classic.backend_config_path)
    given |= {name: getattr(own, name) for name in own.model_fields_set}
    return SemanticCacheConfig.model_validate(given)


def is_cached_by_default(own: SemanticCacheConfig, semantic: SemanticConfig) -> bool:
    """Return whether `own` and `semantic` keep answers where no category or decision says otherwise."""
    classic = semantic.semantic_cache
    return own.enabled or ("enabled" not in own.model_fields_set and classic is not None and classic.enabled)


def _backend_settings(kind: str, path: str | None) -> dict[str, Any]:
    if kind == "memory":
        return {"backend": "memory"}
    if kind == "qdrant":
        raise ConfigError(
            "semantic: semantic_cache.backend_type: qdrant is not supported: memory, milvus, hybrid or valkey"
        )
    file = _read_store_file(Path(path)) if path else _StoreFile()
    if kind in ("milvus", "hybrid"):  # memory stands beside Milvus in any case
        return {"backend": "milvus", "milvus": file.as_milvus()}
    return {"backend": "valkey", "valkey": file.as_valkey()}


class _Lenient(ConfigSection, extra="ignore"):
    """Ignores the settings that tune the other product's own client and index."""


class _Login(_Lenient):
    enabled: bool = False
    username: str = ""
    password: str = ""


class _Tls(_Lenient):
    enabled: bool = False
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""


class _Connection(_Lenient):
    host: str = "localhost"
    port: int | None = Field(default=None, ge=1, le=65535)
    database: str | int = ""
    password: str = ""
    auth: _Login = _Login()
    tls: _Tls = _Tls()


class _Collection(_Lenient):
    name: str = "semantic_cache"


class _StoreFile(_Lenient):
    """The file under `backend_config_path`."""

    connection: _Connection = _Connection()
    collection: _Collection = _Collection()

    def as_milvus(self) -> MilvusConfig:
        to, login, tls = self.connection, self.connection.auth, self.connection.tls
        return MilvusConfig(
            uri=f"{'https' if tls.enabled else 'http'}://{to.host}:{to.port or 19530}",
            token=SecretStr(f"{login.username}:{login.password}") if login.enabled else None,
            database=str(to.database),
            # Its schema is ours: a collection that the peer made cannot be shared.
            collection=f"radixway_{self.collection.name}",
            ca_file=Path(tls.ca_file) if tls.enabled and tls.ca_file else None,
            client_cert_file=Path(tls.cert_file) if tls.enabled and tls.cert_file else None,
            client_key_file=Path(tls.key_file) if tls.enabled and tls.key_file else None,
        )

    def as_valkey(self) -> ValkeyConfig:
        to, tls = self.connection, self.connection.tls
        password = to.password or (to.auth.password if to.auth.enabled else "")
        login = f":{quote(password, safe='')}@" if password else ""
        scheme = "rediss" if tls.enabled else "redis"
        return ValkeyConfig(
            url=SecretStr(f"{scheme}://{login}{to.host}:{to.port or 6379}/{to.database or 0}"),
            ca_file=Path(tls.ca_file) if tls.enabled and tls.ca_file else None,
        )


def _read_store_file(path: Path) -> _StoreFile:
    tree, root = read_yaml(path)
    try:
        return _StoreFile.model_validate({name: value for name, value in tree.items() if value is not None})
    except ValidationError as error:
        raise ConfigFileError(path, locate_mistakes(places_of_mistakes(error), root)) from None


_PLUGINS = frozenset({"pii", "jailbreak"})


def requests_guard(section: SemanticConfig) -> bool:
    """Return whether any decision of `section` asks for a guard."""
    return (
        (section.prompt_guard is not None and section.prompt_guard.enabled)
        or any(params.pii_policy is not None for params in section.models.values())
        or any(rule.pii_enabled or rule.jailbreak_enabled for rule in section.categories)
        or any(
            plugin.type in _PLUGINS and plugin.configuration.get("enabled", True)
            for rule in section.decisions
            for plugin in rule.plugins
        )
    )


def has_guard_by_category(section: SemanticConfig) -> bool:
    """Return whether what is looked for differs by what a request is about, or by the decision on it."""
    plugins = {plugin.type for rule in section.decisions for plugin in rule.plugins}
    return not plugins.isdisjoint(_PLUGINS) or any(
        value is not None
        for rule in section.categories
        for value in (rule.pii_enabled, rule.pii_threshold, rule.jailbreak_enabled, rule.jailbreak_threshold)
    )


def has_guard_conditions(section: SemanticConfig) -> bool:
    """Return whether rules of `section` ask what a guard found."""
    trees = [rule.rules for rule in section.decisions]
    while trees:
        node = trees.pop()
        if node.type in _PLUGINS:
            return True
        trees += node.conditions
    return any(_TERM.search(rule.condition) for rule in section.policy_rules)


_TERM = re.compile(r"\b(pii|jailbreak)\.")

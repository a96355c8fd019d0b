"""What keys of a vLLM-Semantic-Router `config.yaml` ask of the cache and of the guard, in our own terms."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import Field, SecretStr, ValidationError

from radixway.core.config.base import ConfigError, ConfigSection
from radixway.core.config.semantic.section import SemanticConfig
from radixway.core.config.semantic_cache import MilvusConfig, SemanticCacheConfig, ValkeyConfig
from radixway.core.config.yaml_file import ConfigFileError, locate_mistakes, places_of_mistakes, read_yaml


def merge_cache_section(own: SemanticCacheConfig, semantic: SemanticConfig) -> SemanticCacheConfig:
    """Return the section `semantic_cache`, completed with the classic key of its name. Raises ConfigError."""
    classic = semantic.semantic_cache
    if classic is None:
        return own
    threshold = classic.similarity_threshold
    given: dict[str, Any] = {
        "enabled": classic.enabled or any(each.semantic_cache_enabled for each in semantic.categories),
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
    """What else stands there tunes the peer's own client and index, and has no effect here."""


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
        or any(each.pii_enabled or each.jailbreak_enabled for each in section.categories)
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
        said is not None
        for each in section.categories
        for said in (each.pii_enabled, each.pii_threshold, each.jailbreak_enabled, each.jailbreak_threshold)
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

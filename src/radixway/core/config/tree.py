"""The whole tree, and how it is put together: defaults ◂ file ◂ environment ◂ command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import BaseModel, PlainSerializer, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from radixway.core.config.base import ConfigError
from radixway.core.config.chat import ChatConfig
from radixway.core.config.chat_env import convert_published_keys
from radixway.core.config.engine import EngineConfig
from radixway.core.config.gateway import GatewayConfig, LimitsConfig, PipelineConfig, TelemetryConfig
from radixway.core.config.guard import GuardConfig
from radixway.core.config.hosted import WorkerEntries
from radixway.core.config.keys import KeysConfig
from radixway.core.config.renamed_keys import old_places, rename_keys
from radixway.core.config.routing import RoutingConfig
from radixway.core.config.scale import RayConfig, ScaleConfig
from radixway.core.config.sections import (
    ConsoleConfig,
    EncodersConfig,
    ExtProcConfig,
    SemanticCacheConfig,
    SimulationsConfig,
    TrajectoriesConfig,
)
from radixway.core.config.tenants import TenantsConfig
from radixway.core.config.workers import DiscoveryConfig
from radixway.core.config.yaml_file import Place, has_node, line_of, places_of_mistakes, read_yaml
from radixway.core.near_names import suggest_names

if TYPE_CHECKING:
    from radixway.core.config.semantic import SemanticConfig

ENV_PREFIX = "RADIXWAY__"


def _dump(section: Any, info: Any) -> Any:
    return section.model_dump(mode=info.mode) if isinstance(section, BaseModel) else section


class Config(BaseSettings):
    """The effective configuration. Build it with `load_config`."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    gateway: GatewayConfig = GatewayConfig()
    limits: LimitsConfig = LimitsConfig()
    workers: WorkerEntries = ()
    routing: RoutingConfig = RoutingConfig()
    pipeline: PipelineConfig = PipelineConfig()
    encoders: EncodersConfig = EncodersConfig()
    engine: EngineConfig = EngineConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    trajectories: TrajectoriesConfig = TrajectoriesConfig()
    scale: ScaleConfig = ScaleConfig()
    discovery: DiscoveryConfig = DiscoveryConfig()
    if TYPE_CHECKING:
        semantic: SemanticConfig | None = None
    else:  # its many models are built where it is configured: they take a third as long as all the others
        semantic: Annotated[dict | Any, PlainSerializer(_dump)] = None
    semantic_cache: SemanticCacheConfig = SemanticCacheConfig()
    tenants: TenantsConfig = TenantsConfig()
    keys: KeysConfig = KeysConfig()
    guard: GuardConfig = GuardConfig()
    chat: ChatConfig = ChatConfig()
    ext_proc: ExtProcConfig = ExtProcConfig()
    console: ConsoleConfig = ConsoleConfig()
    ray: RayConfig = RayConfig()
    simulations: SimulationsConfig = SimulationsConfig()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only what `load_config` merged: it decides the order of the sources."""
        return (init_settings,)


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
) -> Config:
    """Read `path` (YAML), then the environment (`RADIXWAY__SECTION__KEY`), then `overrides` (nested).

    `base` (nested too) stands in place of defaults, and above it what `convert_published_keys` finds.

    Raises:
        ConfigError: unreadable or malformed file, unknown key, wrong type or value.
    """
    tree, root = _read_yaml(path) if path is not None else ({}, None)
    given = rename_keys(dict(overrides or {}), lambda place: _describe_place(place, None, None))
    chosen = _merge(_merge(tree, _read_environment()), given)
    below = _merge(
        rename_keys(dict(base or {}), lambda place: _describe_place(place, None, None)),
        convert_published_keys(chosen.get("chat"), os.environ),
    )
    merged = _merge(below, chosen)
    mistakes: list[str] = []
    if merged.get("semantic") is not None:
        merged["semantic"] = _read_semantic(merged["semantic"], path, root, mistakes)
    try:
        config = Config(**merged)
    except ValidationError as error:
        mistakes += _describe_errors(error, path, root, Config)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return config


def _read_semantic(given: Any, path: Path | None, root: yaml.Node | None, mistakes: list[str]) -> Any:
    """The `semantic` section, checked together with the file that it names; adds to `mistakes`."""
    from radixway.core.config.semantic import SemanticConfig, merge_semantic_file
    from radixway.core.config.semantic.loader import find_contradictions

    try:
        section = SemanticConfig.model_validate(given)
        merge_semantic_file(section)
    except ValidationError as error:
        mistakes += _describe_errors(error, path, root, SemanticConfig, ("semantic",))
        return None
    except ConfigError as error:
        mistakes.append(str(error))
        return None
    mistakes += [
        _describe_error(("semantic", *at), text, path, root) for at, text in find_contradictions(section)
    ]
    return section


def _read_yaml(path: Path) -> tuple[dict[str, Any], yaml.Node | None]:
    tree, root = read_yaml(path)
    for name in Config.model_fields:
        if name in tree and tree[name] is None:  # all its keys are commented out
            del tree[name]
    return rename_keys(tree, lambda place: _describe_place(place, path, root)), root


def _read_environment() -> dict[str, Any]:
    known = {name.upper() for name in Config.model_fields}
    for name in os.environ:
        upper = name.upper()
        section = upper.removeprefix(ENV_PREFIX).split("__")[0]
        if upper.startswith(ENV_PREFIX) and section not in known:
            near = suggest_names(section, known)
            raise ConfigError(f"environment: {name}: there is no such section{near}")
    try:
        source = EnvSettingsSource(
            Config, env_prefix=ENV_PREFIX, env_nested_delimiter="__", case_sensitive=False
        )
        return rename_keys(source(), lambda place: f"environment: {_variable_name(place)}")
    except ValueError as error:
        raise ConfigError(f"environment: {error}") from None


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if old is None or not isinstance(value, Mapping):
            merged[key] = value
        elif isinstance(old, Mapping):
            merged[key] = _merge(old, value)
        else:
            merged[key] = (old, value)  # one of them is a mistake: valid as neither, it is reported
    return merged


def _describe_errors(
    error: ValidationError,
    path: Path | None,
    root: yaml.Node | None,
    model: type[BaseModel],
    section: Place = (),
) -> list[str]:
    found = places_of_mistakes(error, model)
    return [_describe_error((*section, *at), text, path, root) for at, text in found]


def _describe_error(at: Place, text: str, path: Path | None, root: yaml.Node | None) -> str:
    at = next((old for old in old_places(at) if _is_written(old, root) and not _is_written(at, root)), at)
    return f"{_describe_place(at, path, root)}: {'.'.join(str(part) for part in at)}: {text}"


def _describe_place(at: Place, path: Path | None, root: yaml.Node | None) -> str:
    line = line_of(at, root)
    if _in_environment(at):
        return f"environment: {_variable_name(at)}"
    return "configuration" if line is None else f"{path}:{line}"


def _is_written(at: Place, root: yaml.Node | None) -> bool:
    return _in_environment(at) or has_node(at, root)


def _in_environment(at: Place) -> bool:
    variable = _variable_name(at)
    return any(name.upper() == variable for name in os.environ)


def _variable_name(at: Place) -> str:
    return ENV_PREFIX + "__".join(str(part).upper() for part in at)

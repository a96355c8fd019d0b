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
from radixway.core.config.console import ConsoleConfig
from radixway.core.config.discovery import DiscoveryConfig
from radixway.core.config.encoders import EncodersConfig
from radixway.core.config.engine import EngineConfig
from radixway.core.config.ext_proc import ExtProcConfig
from radixway.core.config.guard import GuardConfig
from radixway.core.config.limits import LimitsConfig
from radixway.core.config.ray import RayConfig
from radixway.core.config.renamed_keys import old_places, rename_keys
from radixway.core.config.scale import ScaleConfig
from radixway.core.config.sections import (
    GatewayConfig,
    PipelineConfig,
    RoutingConfig,
    TelemetryConfig,
    WorkerSettings,
)
from radixway.core.config.semantic_cache import SemanticCacheConfig
from radixway.core.config.simulations import SimulationsConfig
from radixway.core.config.tenants import TenantsConfig
from radixway.core.config.trajectories import TrajectoriesConfig
from radixway.core.config.yaml_file import Place, describe_validation_error, has_node, line_of, read_yaml

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
    workers: tuple[WorkerSettings, ...] = ()
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
        """Only what `load_config` merged: it decides the order of the sources."""
        return (init_settings,)


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
) -> Config:
    """Read `path` (YAML), then the environment (`RADIXWAY__SECTION__KEY`), then `overrides` (nested).

    `base` (nested too) stands in place of defaults, and above it what `published_keys` finds.

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
    told: list[str] = []
    if merged.get("semantic") is not None:
        merged["semantic"] = _read_semantic(merged["semantic"], path, root, told)
    try:
        config = Config(**merged)
    except ValidationError as error:
        told += _describe_errors(error, path, root)
    if told:
        raise ConfigError("\n".join(told))
    return config


def _read_semantic(given: Any, path: Path | None, root: yaml.Node | None, told: list[str]) -> Any:
    """The `semantic` section, checked together with the file that it names; mistakes are added to `told`."""
    from radixway.core.config.semantic import SemanticConfig, find_contradictions, merge_semantic_file

    try:
        section = SemanticConfig.model_validate(given)
        merge_semantic_file(section)
    except ValidationError as error:
        told += _describe_errors(error, path, root, ("semantic",))
        return None
    except ConfigError as error:
        told.append(str(error))
        return None
    told += [
        _describe_error(("semantic", *at), text, path, root) for at, text in find_contradictions(section)
    ]
    return section


def _read_yaml(path: Path) -> tuple[dict[str, Any], yaml.Node | None]:
    """The tree of a file, and the nodes that know its lines."""
    tree, root = read_yaml(path)
    for name in Config.model_fields:
        if name in tree and tree[name] is None:  # all its keys are commented out
            del tree[name]
    return rename_keys(tree, lambda place: _describe_place(place, path, root)), root


def _read_environment() -> dict[str, Any]:
    known = {name.upper() for name in Config.model_fields}
    for name in os.environ:
        upper = name.upper()
        if upper.startswith(ENV_PREFIX) and upper.removeprefix(ENV_PREFIX).split("__")[0] not in known:
            raise ConfigError(f"environment: {name}: there is no such section")
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
            merged[key] = (old, value)  # one of them is a mistake: valid as neither, it is told
    return merged


def _describe_errors(
    error: ValidationError, path: Path | None, root: yaml.Node | None, within: Place = ()
) -> list[str]:
    """One line per mistake: where it stands, which key, what is wrong."""
    return [
        _describe_error((*within, *each["loc"]), describe_validation_error(each), path, root)
        for each in error.errors()
    ]


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

"""The whole tree, and how it is put together: defaults ◂ file ◂ environment ◂ command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from radixway.config.encoders import EncodersSection
from radixway.config.engine import EngineConfig
from radixway.config.scale import ScaleSection
from radixway.config.sections import (
    GatewaySection,
    PipelineSection,
    RoutingSection,
    TelemetrySection,
    WorkerSection,
)
from radixway.config.trajectories import TrajectoriesSection

ENV_PREFIX = "RADIXWAY__"

_Place = tuple[str | int, ...]

_IN_WORDS = {
    "extra_forbidden": "there is no such key",
    "model_type": "this must be a mapping of keys",
    "dict_type": "this must be a mapping of keys",
    "tuple_type": "this must be a list",
}
"""Kinds of mistakes that pydantic tells in Python's words."""


class Config(BaseSettings):
    """The effective configuration. Build it with `load_config`."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    gateway: GatewaySection = GatewaySection()
    workers: tuple[WorkerSection, ...] = ()
    routing: RoutingSection = RoutingSection()
    pipeline: PipelineSection = PipelineSection()
    encoders: EncodersSection = EncodersSection()
    engine: EngineConfig = EngineConfig()
    telemetry: TelemetrySection = TelemetrySection()
    trajectories: TrajectoriesSection = TrajectoriesSection()
    scale: ScaleSection = ScaleSection()

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


class ConfigError(Exception):
    """The configuration cannot be used; the message names each place and what is wrong there."""


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
) -> Config:
    """Read `path` (YAML), then the environment (`RADIXWAY__SECTION__KEY`), then `overrides` (nested).

    `base` (nested too) stands in place of defaults.

    Raises:
        ConfigError: unreadable or malformed file, unknown key, wrong type or value.
    """
    tree, root = _read_yaml(path) if path is not None else ({}, None)
    merged = _merge(_merge(base or {}, tree), _read_environment())
    merged = _merge(merged, overrides or {})
    try:
        return Config(**merged)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(error, path, root))) from None


def _read_yaml(path: Path) -> tuple[dict[str, Any], yaml.Node | None]:
    """The tree of a file, and the nodes that know its lines."""
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        tree = None if root is None else loader.construct_document(root)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
    except RecursionError:
        raise ConfigError(f"{path}: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(f"{where}: not valid YAML: {what}") from None
    if tree is None:
        return {}, None
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise ConfigError(f"{path}:1: the file must be a mapping of sections")
    for name in Config.model_fields:
        if name in tree and tree[name] is None:  # all its keys are commented out
            del tree[name]
    return tree, root


class _Loader(yaml.SafeLoader):
    """Tells two more mistakes by their line: a key that comes twice, and a scalar that is not of its type."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key {key.value} comes twice"
                    raise ComposerError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):
            kind = node.tag.rpartition(":")[2]
            raise ConstructorError(problem=f"this is no {kind}", problem_mark=node.start_mark) from None


def _line_of(at: _Place, node: yaml.Node | None) -> int | None:
    """Where in the file the longest beginning of `at` stands."""
    line = None
    for part in at:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == part]
        elif isinstance(node, yaml.SequenceNode):
            found = [(value, value) for index, value in enumerate(node.value) if index == part]
        else:
            break
        if not found:
            break
        named, node = found[-1]
        line = named.start_mark.line + 1
    return line


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
        return source()
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


def _explain(error: ValidationError, path: Path | None, root: yaml.Node | None) -> list[str]:
    """One line per mistake: where it stands, which key, what is wrong."""
    told = []
    for mistake in error.errors():
        at = mistake["loc"]
        key = ".".join(str(part) for part in at)
        variable = ENV_PREFIX + "__".join(str(part).upper() for part in at)
        line = _line_of(at, root)
        if any(name.upper() == variable for name in os.environ):
            where = f"environment: {variable}"
        elif line is not None:
            where = f"{path}:{line}"
        else:
            where = "configuration"
        text = _IN_WORDS.get(mistake["type"]) or mistake["msg"].removeprefix("Value error, ")
        told.append(f"{where}: {key}: {text}")
    return told

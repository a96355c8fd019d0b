"""The whole tree, and how it is put together: defaults ◂ file ◂ environment ◂ command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from radixway.config.engine import EngineConfig
from radixway.config.sections import (
    GatewaySection,
    PipelineSection,
    RoutingSection,
    TelemetrySection,
    WorkerSection,
)

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
    engine: EngineConfig = EngineConfig()
    telemetry: TelemetrySection = TelemetrySection()

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


def load_config(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read `path` (YAML), then the environment (`RADIXWAY__SECTION__KEY`), then `overrides` (nested).

    Raises:
        ConfigError: unreadable or malformed file, unknown key, wrong type or value.
    """
    lines: dict[_Place, int] = {}
    merged: dict[str, Any] = {}
    if path is not None:
        merged = _read_yaml(path, lines)
    merged = _merge(merged, _read_environment())
    merged = _merge(merged, overrides or {})
    try:
        return Config(**merged)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(error, path, lines))) from None


def _read_yaml(path: Path, lines: dict[_Place, int]) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read {path}: {reason}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        tree = yaml.safe_load(text)
        _note_lines(node, (), lines)
    except RecursionError:
        raise ConfigError(f"{path}: a part of the file contains itself") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{where}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise ConfigError(f"{path}:1: the file must be a mapping of sections")
    for name in Config.model_fields:
        if name in tree and tree[name] is None:  # all its keys are commented out
            del tree[name]
    return tree


def _note_lines(node: yaml.Node | None, at: _Place, lines: dict[_Place, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            lines[(*at, key.value)] = key.start_mark.line + 1
            _note_lines(value, (*at, key.value), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*at, index)] = value.start_mark.line + 1
            _note_lines(value, (*at, index), lines)


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


def _explain(error: ValidationError, path: Path | None, lines: Mapping[_Place, int]) -> list[str]:
    """One line per mistake: where it stands, which key, what is wrong."""
    told = []
    for mistake in error.errors():
        at = mistake["loc"]
        key = ".".join(str(part) for part in at)
        variable = ENV_PREFIX + "__".join(str(part).upper() for part in at)
        line = next((lines[at[:n]] for n in range(len(at), 0, -1) if at[:n] in lines), None)
        if any(name.upper() == variable for name in os.environ):
            where = f"environment: {variable}"
        elif line is not None:
            where = f"{path}:{line}"
        else:
            where = "configuration"
        text = _IN_WORDS.get(mistake["type"]) or mistake["msg"].removeprefix("Value error, ")
        told.append(f"{where}: {key}: {text}")
    return told

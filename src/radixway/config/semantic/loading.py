"""A `semantic` section from a file of its own, with its mistakes told by path and line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml
from pydantic import ValidationError

from radixway.config.base import ConfigError
from radixway.config.semantic.checks import check
from radixway.config.semantic.section import SemanticSection
from radixway.config.yaml_file import Place, in_words, line_of, read_yaml


def load_semantic(path: Path) -> SemanticSection:
    """The section in a file: a vLLM-Semantic-Router `config.yaml`, or the same keys of ours.

    Raises:
        ConfigError: one line per mistake, each with path and line.
    """
    tree, root = read_yaml(path)
    if not tree:  # as a file is for a moment while somebody writes it: that must not switch rules off
        raise ConfigError(f"{path}: there is nothing in it")
    for name in tuple(tree):
        if tree[name] is None:  # all its keys are commented out
            del tree[name]
    if "config" in tree:
        raise ConfigError(_told(path, root, ("config",), "a semantic file cannot name another one"))
    try:
        section = SemanticSection.model_validate(tree)
    except ValidationError as error:
        told = [_told(path, root, mistake["loc"], in_words(mistake)) for mistake in error.errors()]
        raise ConfigError("\n".join(told)) from None
    if mistakes := [_told(path, root, at, text) for at, text in check(section)]:
        raise ConfigError("\n".join(mistakes))
    return section


def told_at(path: Path, mistakes: Iterable[tuple[Place, str]]) -> list[str]:
    """Mistakes in a file, each with its path and line."""
    root = read_yaml(path)[1]
    return [_told(path, root, at, text) for at, text in mistakes]


def whole_semantic(section: SemanticSection) -> SemanticSection:
    """The section together with the file that it names; its own keys go before the file's.

    Raises ConfigError, also for what the two say of each other.
    """
    if section.config is None:
        return section
    below = load_semantic(section.config)
    own = {name: getattr(section, name) for name in section.model_fields_set}
    whole = below.model_copy(update=own)
    if mistakes := [f"semantic: {_dotted(at)}: {text}" for at, text in check(whole)]:
        raise ConfigError("\n".join(mistakes))
    return whole


def _told(path: Path, root: yaml.Node | None, at: Place, text: str) -> str:
    line = line_of(at, root)
    where = str(path) if line is None else f"{path}:{line}"
    return f"{where}: {_dotted(at)}: {text}"


def _dotted(at: Place) -> str:
    return ".".join(str(part) for part in at)

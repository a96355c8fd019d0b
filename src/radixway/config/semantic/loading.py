"""A `semantic` section from a file of its own, with its mistakes told by path and line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from radixway.config.base import ConfigError
from radixway.config.semantic.checks import find_contradictions
from radixway.config.semantic.section import SemanticConfig
from radixway.config.yaml_file import (
    ConfigFileError,
    FileMistake,
    Place,
    describe_validation_error,
    locate_mistakes,
    parse_yaml,
    read_text,
)


def load_semantic(path: Path) -> SemanticConfig:
    """The section in a file: a vLLM-Semantic-Router `config.yaml`, or the same keys of ours.

    Raises:
        ConfigError: one line per mistake, each with path and line.
    """
    return parse_semantic(read_text(path), path)


def parse_semantic(text: str, path: Path) -> SemanticConfig:
    """The same of a text that is to stand in that file. Raises ConfigFileError."""
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

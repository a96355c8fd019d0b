"""Files that commands about meaning take: radixway.yaml, or a semantic router's config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from radixway.cli.options import load_options
from radixway.cli.terminal import exit_with_error
from radixway.config import Config, ConfigError, EncodersConfig
from radixway.config.yaml_file import read_text, read_yaml

if TYPE_CHECKING:
    from radixway.config.semantic import SemanticConfig


def is_semantic_file(path: Path) -> bool:
    """Whether it is a vLLM-Semantic-Router `config.yaml`, by its keys. A file that cannot be read is none."""
    from radixway.config.semantic import SemanticConfig

    try:
        keys = set(read_yaml(path)[0])
    except ConfigError:
        return False
    known = {field.alias or name for name, field in SemanticConfig.model_fields.items()}
    both = known & Config.model_fields.keys()
    return bool(keys & known - both) and not keys & (Config.model_fields.keys() - both)


def load_semantic_sections(path: Path | None) -> tuple[SemanticConfig, EncodersConfig]:
    """What decides and what reads, from either kind of file; a mistake ends the command.

    None: ./radixway.yaml if there is one, else what ships.
    """
    from radixway.config.semantic import SemanticConfig, load_semantic

    try:
        if path is not None and is_semantic_file(path):
            load_semantic(path)
            return SemanticConfig(config=path, watch=False), EncodersConfig()
    except ConfigError as error:
        exit_with_error(str(error))
    config = load_options(path)
    return config.semantic or SemanticConfig(), config.encoders


def check_semantic_file(path: Path) -> None:
    """Explain every mistake in a `config.yaml` by its line, those of expressions and patterns too."""
    from radixway.semantic.checking import parse_section

    try:
        parse_section(read_text(path), path)
    except ConfigError as error:
        exit_with_error(str(error))

"""Files that commands about meaning take: radixway.yaml, or a semantic router's config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from radixway.cli.options import load
from radixway.cli.terminal import fail
from radixway.config import Config, ConfigError, EncodersSection
from radixway.config.yaml_file import read_text, read_yaml

if TYPE_CHECKING:
    from radixway.config.semantic import SemanticSection


def is_semantic_file(path: Path) -> bool:
    """Whether it is a vLLM-Semantic-Router `config.yaml`, by its keys. A file that cannot be read is none."""
    from radixway.config.semantic import SemanticSection

    try:
        keys = set(read_yaml(path)[0])
    except ConfigError:
        return False
    known = {field.alias or name for name, field in SemanticSection.model_fields.items()}
    both = known & Config.model_fields.keys()
    return bool(keys & known - both) and not keys & (Config.model_fields.keys() - both)


def load_meaning(path: Path | None) -> tuple[SemanticSection, EncodersSection]:
    """What decides and what reads, from either kind of file; a mistake ends the command.

    None: ./radixway.yaml if there is one, else what ships.
    """
    from radixway.config.semantic import SemanticSection, load_semantic

    try:
        if path is not None and is_semantic_file(path):
            load_semantic(path)
            return SemanticSection(config=path, watch=False), EncodersSection()
    except ConfigError as error:
        fail(str(error))
    config = load(path)
    return config.semantic or SemanticSection(), config.encoders


def check_semantic_file(path: Path) -> None:
    """Explain every mistake in a `config.yaml` by its line, those of expressions and patterns too."""
    from radixway.semantic.checking import check_text

    try:
        check_text(read_text(path), path)
    except ConfigError as error:
        fail(str(error))

"""`radixway config`: shows and checks radixway.yaml, or a semantic router's config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from radixway.cli.options import ConfigFile, load_options
from radixway.cli.terminal import exit_on, out
from radixway.core.config import Config, ConfigError, EncodersConfig
from radixway.core.config.yaml_file import read_text, read_yaml

if TYPE_CHECKING:
    from radixway.core.config.semantic import SemanticConfig


def is_semantic_file(path: Path) -> bool:
    """Tell by its keys if `path` is a vLLM-Semantic-Router `config.yaml`; False if it cannot be read."""
    from radixway.core.config.semantic import SemanticConfig

    try:
        keys = set(read_yaml(path)[0])
    except ConfigError:
        return False
    known = {field.alias or name for name, field in SemanticConfig.model_fields.items()}
    both = known & Config.model_fields.keys()
    return bool(keys & known - both) and not keys & (Config.model_fields.keys() - both)


def load_semantic_sections(path: Path | None) -> tuple[SemanticConfig, EncodersConfig]:
    """Load the semantic and encoder sections from either kind of file; a mistake ends the command.

    `path` None: ./radixway.yaml if there is one, else the defaults.
    """
    from radixway.core.config.semantic import SemanticConfig, load_semantic

    if path is not None and is_semantic_file(path):
        with exit_on(ConfigError):
            load_semantic(path)
        return SemanticConfig(config=path, watch=False), EncodersConfig()
    config = load_options(path)
    return config.semantic or SemanticConfig(), config.encoders


def config_show(config: ConfigFile = None) -> None:
    """Print the effective configuration: defaults, file, environment. Secrets are masked."""
    import yaml

    tree = load_options(config).model_dump(mode="json")
    out.print(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), end="")


def config_check(file: Annotated[Path, Argument(help="The file to check.", metavar="FILE")]) -> None:
    """Explain every mistake in a configuration, by its line.

    The file is a radixway.yaml or a semantic router's config.yaml.
    """
    if is_semantic_file(file):
        from radixway.semantics.decisions.section_validation import parse_section

        with exit_on(ConfigError):
            section = parse_section(read_text(file), file)
        _print_warnings(section)
        out.print(f"{file} is good: set semantic.config to it")
        return
    config = load_options(file)
    if config.semantic is not None and config.semantic.is_on:
        from radixway.core.config.semantic import merge_semantic_file

        with exit_on(ConfigError):
            _print_warnings(merge_semantic_file(config.semantic))
    out.print(f"{file} is good")


def _print_warnings(section: SemanticConfig) -> None:
    from radixway.semantics.decisions.section_validation import find_warnings

    for _, warning in find_warnings(section):
        out.print(f"warning: {warning}", style="yellow", soft_wrap=True)

"""`radixway config`: the configuration, shown and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radixway.cli.options import ConfigFile, load_options
from radixway.cli.semantic_files import check_semantic_file, is_semantic_file
from radixway.cli.terminal import out


def config_show(config: ConfigFile = None) -> None:
    """Print the effective configuration: defaults, file, environment. Secrets are masked."""
    import yaml

    tree = load_options(config).model_dump(mode="json")
    out.print(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), end="", soft_wrap=True)


def config_check(file: Annotated[Path, typer.Argument(help="The file to check.", metavar="FILE")]) -> None:
    """Explain every mistake in a radixway.yaml, or in a semantic router's config.yaml, by its line."""
    if is_semantic_file(file):
        check_semantic_file(file)
        out.print(f"{file} is good: set semantic.config to it", soft_wrap=True)
        return
    load_options(file)
    out.print(f"{file} is good", soft_wrap=True)

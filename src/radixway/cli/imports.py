"""`radixway import`: makes a radixway.yaml of another gateway's configuration."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from radixway.cli.terminal import err, exit_on, exit_with_error, out
from radixway.core.config import ConfigError, load_config
from radixway.core.config.litellm_config import import_litellm
from radixway.core.config.yaml_file import line_of, read_yaml


def import_litellm_config(
    file: Annotated[Path, Argument(help="LiteLLM's config.yaml.", metavar="FILE")],
    out_file: Annotated[
        Path | None,
        Option("--out", "-o", help="Where to write it; by default it is printed.", metavar="FILE"),
    ] = None,
) -> None:
    """Make a radixway.yaml of a LiteLLM proxy's config.yaml.

    What could not be taken is told line by line.
    """
    import yaml

    with exit_on(ConfigError, ValueError):
        tree, root = read_yaml(file)
        imported = import_litellm(tree)
    text = yaml.safe_dump(imported.tree, sort_keys=False, allow_unicode=True)
    with exit_on(ConfigError):
        load_config(overrides=imported.tree)
    if out_file is None:
        out.print(text, end="")
    else:
        try:
            out_file.touch(mode=0o600)  # it has the keys that the other file has
            out_file.write_text(text, "utf-8")
        except OSError as error:
            exit_with_error(f"{out_file}: {error.strerror}")
        out.print(f"{out_file} is written: {len(imported.tree['workers'])} workers")
    for place, reason in sorted(imported.left_out, key=lambda left: line_of(left.place, root) or 0):
        err.print(f"{file}:{line_of(place, root)}: {'.'.join(map(str, place))}: {reason}")

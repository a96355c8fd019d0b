"""`radixway completion`: the script that makes a shell complete commands and options."""

import os
from enum import StrEnum
from typing import Annotated

from typer import Argument

from radixway.cli.terminal import out

_VARIABLE = "_RADIXWAY_COMPLETE"
"""Set by the script when a shell asks `radixway` for completions."""


class CompletedShell(StrEnum):
    """A shell for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[CompletedShell, Argument(help="The shell that reads it.")]) -> None:
    """Print the script for completion in a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name="radixway", complete_var=_VARIABLE, shell=shell.value)
    out.file.write(f"{script}\n")


def prepare_completion() -> None:
    """Let the command answer a shell that asks for completions."""
    if _VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()

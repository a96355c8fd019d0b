"""The command line's reference, from the typer application itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from configuration_reference import type_in_words


def cli_reference() -> str:
    """The page."""
    from radixway.cli import app

    parts = [
        "# Every command\n",
        "Made from the command line when this site is built. `radixway COMMAND --help` says the same.\n",
    ]
    return "\n".join([*parts, *_tell("radixway", typer.main.get_command(app), 2)])


def _tell(name: str, command: Any, depth: int) -> Iterator[str]:
    commands = getattr(command, "commands", {})
    if name != "radixway":
        yield f"{'#' * depth} `{name}`\n"
        yield f"{_prose(command.help or '')}\n"
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [
        each for each in command.params if each.param_type_name == "option" and "--help" not in each.opts
    ]
    if not commands:
        words = " ".join(_metavar(each) for each in arguments)
        yield f"```text\n{' '.join(filter(None, [name, words, '[OPTIONS]' if options else '']))}\n```\n"
    if arguments or options:
        yield "| option | takes | default | |\n|---|---|---|---|"
        for each in [*arguments, *options]:
            yield _row(each)
        yield ""
    for short, each in commands.items():
        yield from _tell(f"{name} {short}", each, 2 if name == "radixway" else 3)


def _row(option: Any) -> str:
    if option.param_type_name == "argument":
        shown = f"`{_metavar(option)}`"
    else:
        shown = ", ".join(f"`{each}`" for each in [*option.opts, *option.secondary_opts])
    takes = "" if getattr(option, "is_flag", False) else _type(option)
    default = option.default
    if callable(default) or default is None or default == () or default == "":
        default = "*needed*" if option.required else ""
    elif isinstance(default, bool):
        default = "on" if default else ""
    else:
        default = f"`{', '.join(map(str, default)) if isinstance(default, (list, tuple)) else default}`"
    variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
    meant = " ".join([getattr(option, "help", None) or "", *(f"`${name}`" for name in variables)])
    several = ", may be repeated" if getattr(option, "multiple", False) else ""
    return f"| {shown} | {takes}{several} | {default} | {_cell(meant)} |"


def _metavar(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper()
    name = f"{name}…" if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def _type(option: Any) -> str:
    if option.metavar:
        return f"`{option.metavar}`"
    return type_in_words(option.type_descriptor.annotation).removeprefix("list of ")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _prose(text: str) -> str:
    return text.replace("\f", "").replace("\b\n", "").replace("<", "&lt;").strip()

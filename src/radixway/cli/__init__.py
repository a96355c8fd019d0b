"""The `radixway` command: a file per group of commands. The work is done by the packages they call."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from radixway._version import __version__
from radixway.cli.audit import audit_app
from radixway.cli.chat import chat_app
from radixway.cli.classify import classify, rules_test
from radixway.cli.client import ask, erase, explain, usage
from radixway.cli.completion import completion, prepare_completion
from radixway.cli.config import config_check, config_show
from radixway.cli.examples import add_examples
from radixway.cli.imports import import_litellm_config
from radixway.cli.keys import budget_app, keys_app, teams_app, users_app
from radixway.cli.options import SeveralValues
from radixway.cli.plan import plan_app
from radixway.cli.ray_cluster import ray_app
from radixway.cli.servers import console, engine, operator, serve, up
from radixway.cli.slime_router import slime_router
from radixway.cli.terminal import exit_with_error, out
from radixway.cli.top.command import top
from radixway.cli.traces import record, simulate
from radixway.cli.worker import worker
from radixway.cli.workers import (
    workers_add,
    workers_announce,
    workers_drain,
    workers_list,
    workers_remove,
    workers_resume,
)

__all__ = ["app", "main"]


def version() -> None:
    """Print the version."""
    out.print(__version__)


app = typer.Typer(
    name="radixway",
    help="The gateway for people who run their own language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(given: bool) -> None:
    if given:
        version()
        raise typer.Exit


@app.callback()
def read_general_options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The gateway for people who run their own language models."""


workers_app = typer.Typer(help="The workers of a running gateway.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration.", no_args_is_help=True)
app.add_typer(workers_app, name="workers")
app.add_typer(config_app, name="config")
import_app = typer.Typer(
    help="Make a radixway.yaml of another gateway's configuration.", no_args_is_help=True
)
app.add_typer(import_app, name="import")
app.add_typer(audit_app, name="audit")
app.add_typer(chat_app, name="chat")
app.add_typer(ray_app, name="ray")
app.add_typer(plan_app, name="plan")
app.add_typer(keys_app, name="keys")
app.add_typer(teams_app, name="teams")
app.add_typer(users_app, name="users")
app.add_typer(budget_app, name="budget")
rules_app = typer.Typer(help="Rules of the semantic layer.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")

_GATEWAYS: tuple[Callable[..., None], ...] = (up, serve, slime_router)
_OTHERS: tuple[Callable[..., None], ...] = (
    *(engine, ask, explain, classify, simulate),
    *(record, usage, erase, console, worker, operator, top, completion, version),
)
for command in _GATEWAYS:
    app.command(cls=SeveralValues)(command)
for command in _OTHERS:
    app.command()(command)
workers_app.command("add")(workers_add)
workers_app.command("announce")(workers_announce)
workers_app.command("drain")(workers_drain)
workers_app.command("resume")(workers_resume)
workers_app.command("remove")(workers_remove)
workers_app.command("list")(workers_list)
rules_app.command("test")(rules_test)
config_app.command("show")(config_show)
config_app.command("check")(config_check)
import_app.command("litellm")(import_litellm_config)

_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


@app.command("eval", hidden=True, add_help_option=False, context_settings=_ANYTHING)
def name_successor_of_eval() -> None:
    """End `radixway eval …`, a command of an earlier release, with what to run in its place."""
    exit_with_error("`radixway eval` has moved; run python tools/evaluate.py (in a checkout of Radixway)")


add_examples(app)


def main() -> None:
    """The console script."""
    prepare_completion()
    sys.path.insert(0, "")  # dotted paths in the configuration may name modules of the working directory
    app(prog_name="radixway")

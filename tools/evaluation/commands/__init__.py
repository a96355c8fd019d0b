"""The commands of `tools/evaluate.py`: how good the shipped parts are, measured on labelled data."""

from __future__ import annotations

import typer

from evaluation.commands.cache import cache
from evaluation.commands.choices import choices
from evaluation.commands.conversations import conversations
from evaluation.commands.domain import domain
from evaluation.commands.jailbreak import jailbreak
from evaluation.commands.pii import pii
from evaluation.commands.routing import routing
from evaluation.commands.tools import tools
from evaluation.commands.wrapped import wrapped

app = typer.Typer(
    help="Measure how good the shipped parts are, on labelled data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
guard_app = typer.Typer(help="How well the guard finds what it looks for.", no_args_is_help=True)
for command in (domain, cache, routing, tools, wrapped, conversations, choices):
    app.command()(command)
guard_app.command()(pii)
guard_app.command()(jailbreak)
app.add_typer(guard_app, name="guard")

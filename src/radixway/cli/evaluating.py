"""`radixway eval …`: how good the shipped parts are, measured on labelled data."""

from __future__ import annotations

import typer

from radixway.cli.evaluating_cache import cache
from radixway.cli.evaluating_domain import domain
from radixway.cli.evaluating_guard import guard_app
from radixway.cli.evaluating_routing import routing
from radixway.cli.evaluating_tools import tools

eval_app = typer.Typer(help="How good the parts are, on labelled data.", no_args_is_help=True)
eval_app.command()(domain)
eval_app.command()(cache)
eval_app.command()(routing)
eval_app.command()(tools)
eval_app.add_typer(guard_app, name="guard")

"""`radixway eval guard …`: how well the guard finds what it looks for."""

from __future__ import annotations

import typer

from radixway.cli.evaluating_guard_jailbreak import jailbreak
from radixway.cli.evaluating_pii import pii

guard_app = typer.Typer(help="How well the guard finds what it looks for.", no_args_is_help=True)
guard_app.command()(pii)
guard_app.command()(jailbreak)

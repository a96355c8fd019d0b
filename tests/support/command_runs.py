"""Commands of `radixway` that call, read and print, run in the tests' process."""

import asyncio
from collections.abc import Mapping

import pytest
from click.testing import Result
from typer.testing import CliRunner

from radixway.cli import app, terminal

_COLUMNS = 200


def run_command(*args: object, env: Mapping[str, str] | None = None) -> Result:
    """Run `radixway` with `args` and more `env`; `exit_code`, `stdout` and `stderr` tell what it did."""
    with pytest.MonkeyPatch.context() as patched:
        for console in (terminal.out, terminal.err):
            patched.setattr(console, "_width", _COLUMNS)
        return CliRunner(env=env).invoke(app, [*map(str, args)])


async def call_command(*args: object, env: Mapping[str, str] | None = None) -> Result:
    """As `run_command`, while the running loop serves what the command calls."""
    return await asyncio.to_thread(run_command, *args, env=env)

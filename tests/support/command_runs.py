"""Commands of `radixway` that call, read and print, run in the tests' process."""

import asyncio
import logging
from collections.abc import Mapping

import pytest
from click.testing import Result
from typer.testing import CliRunner

from radixway.cli import app, terminal

_COLUMNS = 200


def run_command(*args: object, env: Mapping[str, str] | None = None) -> Result:
    """Run `radixway` with `args` and more `env`; `exit_code`, `stdout` and `stderr` tell what it did.

    Not for commands that get as far as to serve: they take over the process, its log and its collector.
    """
    handlers = logging.getLogger("radixway").handlers
    with pytest.MonkeyPatch.context() as patched:
        for console in (terminal.out, terminal.err):
            patched.setattr(console, "_width", _COLUMNS)
        result = CliRunner(env=env).invoke(app, [*map(str, args)])
    assert logging.getLogger("radixway").handlers is handlers, "it has begun to serve"
    return result


async def call_command(*args: object, env: Mapping[str, str] | None = None) -> Result:
    """As `run_command`, while the running loop serves what the command calls."""
    return await asyncio.to_thread(run_command, *args, env=env)

"""Helpers of commands: output, errors and signals that end them, calls to a running gateway."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

from rich.console import Console
from rich.markup import escape

AnswerT = TypeVar("AnswerT")

out = Console(highlight=False, markup=False)


def exit_with_error(message: str) -> NoReturn:
    """Print `message`, one clear sentence, to standard error and exit with code 2."""
    Console(stderr=True, highlight=False).print(f"[bold red]radixway:[/] {escape(message)}", soft_wrap=True)
    raise SystemExit(2)


def run_call(call: Coroutine[Any, Any, AnswerT]) -> AnswerT:
    """Run `call` to a gateway and return its result; a refusal or no gateway ends the command."""
    from radixway.core.http.gateway_client import GatewayCallError

    try:
        return asyncio.run(call)
    except GatewayCallError as error:
        exit_with_error(str(error))


def terminate_when_stdin_closes() -> None:
    """End this process when its parent dies, however hard: the parent holds the other end of stdin."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="stdin watch").start()

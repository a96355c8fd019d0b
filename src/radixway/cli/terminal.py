"""What commands say, how they end, and how they call a running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

from rich.console import Console
from rich.markup import escape

AnswerT = TypeVar("AnswerT")

out = Console(highlight=False, markup=False)


def exit_with_error(message: str) -> NoReturn:
    """End the command with one clear sentence and exit code 2."""
    Console(stderr=True, highlight=False).print(f"[bold red]radixway:[/] {escape(message)}", soft_wrap=True)
    raise SystemExit(2)


def run_call(call: Coroutine[Any, Any, AnswerT]) -> AnswerT:
    """Run one call to a gateway; its refusal or absence ends the command."""
    from radixway.core.http.gateway_client import GatewayCallError

    try:
        return asyncio.run(call)
    except GatewayCallError as error:
        exit_with_error(str(error))

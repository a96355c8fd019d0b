"""`radixway ask`: one question to a running gateway."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from radixway.cli.options import GATEWAY, GatewayUrl, TenantKey
from radixway.cli.terminal import finish, out


def ask(
    prompt: Annotated[str, typer.Argument(help="The question.")],
    url: GatewayUrl = GATEWAY,
    model: Annotated[str, typer.Option(help="The model; `auto` leaves it to the gateway.")] = "auto",
    system: Annotated[str | None, typer.Option(help="A system prompt.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest answer, in tokens.", min=1)] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0)] = 0.0,
    key: TenantKey = None,
) -> None:
    """Ask one question and stream the answer to the terminal."""
    from radixway.client import ask as ask_gateway

    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    body: dict[str, Any] = {"model": model, "messages": messages, "temperature": temperature}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    told = finish(ask_gateway(url, body, lambda text: out.print(text, end="", soft_wrap=True), key))
    out.print()
    out.print(told.summary(), style="dim", soft_wrap=True)

"""`radixway ask`: one question to a running gateway."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl, TenantKey
from radixway.cli.terminal import exit_with_error, out

_NO_WORKER_STATUSES = (502, 503, 504)
_MAX_TROUBLES = 5


def ask(
    prompt: Annotated[str, typer.Argument(help="The question.")],
    url: GatewayUrl = GATEWAY,
    model: Annotated[str, typer.Option(help="The model; `auto` leaves it to the gateway.")] = "auto",
    system: Annotated[str | None, typer.Option(help="A system prompt.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest answer, in tokens.", min=1)] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0)] = 0.0,
    key: TenantKey = None,
    admin_key: AdminKey = None,
) -> None:
    """Ask one question and stream the answer to the terminal."""
    from radixway.core.http.gateway_client import GatewayCallError, stream_chat

    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    body: dict[str, Any] = {"model": model, "messages": messages, "temperature": temperature}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    try:
        answer = asyncio.run(stream_chat(url, body, lambda text: out.print(text, end=""), key))
    except GatewayCallError as error:
        troubles = _worker_troubles(url, admin_key) if error.status in _NO_WORKER_STATUSES else ""
        exit_with_error(f"{error}{troubles}")
    out.print()
    out.print(answer.summary(), style="dim")


def _worker_troubles(url: str, admin_key: str | None) -> str:
    """Return why workers are not ready, a line each, where the gateway tells this caller."""
    from radixway.core.http.gateway_client import GatewayCallError, WorkerListing, call_gateway
    from radixway.core.telemetry.terminal import printable

    try:
        workers = asyncio.run(call_gateway(url, "GET", "/list_workers", WorkerListing, key=admin_key)).workers
    except GatewayCallError:
        return ""
    troubled = [worker for worker in workers if worker.trouble]
    lines = [printable(f"{worker.url}: {worker.trouble}") for worker in troubled[:_MAX_TROUBLES]]
    if len(troubled) > _MAX_TROUBLES:
        lines.append(f"and {len(troubled) - _MAX_TROUBLES} more: radixway workers list")
    return "".join(f"\n  {line}" for line in lines)

"""`radixway erase`: have a running gateway forget somebody."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl
from radixway.cli.terminal import exit_with_error, out, run_call


def erase(
    tenant: Annotated[str, typer.Option(help="Whose they are.")],
    user: Annotated[str | None, typer.Option(help="This user of the tenant.")] = None,
    session: Annotated[str | None, typer.Option(help="This session.")] = None,
    request: Annotated[str | None, typer.Option(help="This request, by its id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything of the tenant.")] = False,
    workers: Annotated[bool, typer.Option("--workers", help="Empty the workers' prefix caches too.")] = False,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as it came.")] = False,
) -> None:
    """Forget a user, a session, a request or a tenant: caches, trajectories, sessions, journals, audit.

    Exit code 1 where a room cannot be reached now: the gateway asks it again until it is done.
    """
    if not (user or session or request or everything):
        exit_with_error("say whose: --user, --session or --request; or --all for the whole tenant")
    from radixway.core.http.gateway_client import ErasureSummary, call_gateway

    asked: dict[str, Any] = {"tenant": tenant, "user": user, "session": session, "request": request}
    body = {name: value for name, value in asked.items() if value} | {"all": everything, "workers": workers}
    told = run_call(call_gateway(url, "POST", "/admin/erase", ErasureSummary, body, key=key))
    if as_json:
        import msgspec

        out.print(msgspec.json.format(msgspec.json.encode(told), indent=2).decode(), soft_wrap=True)
    else:
        for name, room in told.rooms.items():
            why = f": {room.why}" if room.why else ""
            out.print(f"{name}: {_WORDS[room.status]}, {room.entries} entries{why}", soft_wrap=True)
        out.print(f"erasure {told.erasure}, receipt {told.receipt}", soft_wrap=True)
    raise SystemExit(0 if told.complete else 1)


_WORDS = {"erased": "erased", "pending": "out of reach, asked again", "cannot_tell": "cannot tell them apart"}

"""`radixway erase`: erase a user's data from a running gateway."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl
from radixway.cli.terminal import exit_with_error, format_json, out, run_call


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
    """Erase a user, a session, a request or a tenant: caches, trajectories, sessions, journals, audit.

    Exit code 1 where a part cannot be reached now: the gateway tries it again until it is done.
    """
    if not (user or session or request or everything):
        exit_with_error("say whose: --user, --session or --request; or --all for the whole tenant")
    from radixway.core.http.gateway_client import ErasureSummary, call_gateway

    subject: dict[str, Any] = {"tenant": tenant, "user": user, "session": session, "request": request}
    body = {name: value for name, value in subject.items() if value} | {"all": everything, "workers": workers}
    summary = run_call(call_gateway(url, "POST", "/admin/erase", ErasureSummary, body, key=key))
    if as_json:
        out.print(format_json(summary))
    else:
        for name, target in summary.rooms.items():
            why = f": {target.why}" if target.why else ""
            out.print(f"{name}: {_WORDS[target.status]}, {target.entries} entries{why}")
        out.print(f"erasure {summary.erasure}, receipt {summary.receipt}")
    raise SystemExit(0 if summary.complete else 1)


_WORDS = {
    "erased": "erased",
    "pending": "out of reach, will be retried",
    "cannot_tell": "cannot tell them apart",
}

"""`radixway ask`, `usage` and `erase`: a call to a running gateway each."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from typer import Argument, Option

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl, TenantKey
from radixway.cli.terminal import exit_with_error, format_json, journal_lines, out, run_call, write_file
from radixway.core.config.tenants import format_cost

_NO_WORKER_STATUSES = (502, 503, 504)
_NOT_FOUND = 404
_MAX_TROUBLES = 5
_COLUMNS = {
    "requests": ("requests", 0),
    "failed": ("failed", 1),
    "kept_answers": ("kept answers", 3),
    "prompt_tokens": ("prompt", 0),
    "cached_tokens": ("cached", 2),
    "completion_tokens": ("answers", 0),
    "estimated": ("estimated", 4),
    "cost": ("cost", 0),
    "currency": ("", 0),
}
"""Columns by field: title, and the order in which they are dropped on narrow terminals."""
_ERASED = {
    "erased": "erased",
    "pending": "out of reach, will be retried",
    "cannot_tell": "cannot tell them apart",
}


def ask(
    prompt: Annotated[str, Argument(help="The question.")],
    url: GatewayUrl = GATEWAY,
    model: Annotated[str, Option(help="The model; `auto` leaves it to the gateway.")] = "auto",
    system: Annotated[str | None, Option(help="A system prompt.")] = None,
    max_tokens: Annotated[int | None, Option(help="Longest answer, in tokens.", min=1)] = None,
    temperature: Annotated[float, Option(help="0 is greedy.", min=0)] = 0.0,
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
        near = _near_models(model, url, key) if error.status == _NOT_FOUND else ""
        exit_with_error(f"{error}{near}", troubles)
    out.print()
    out.print(answer.summary(), style="dim")


def _near_models(model: str, url: str, key: str | None) -> str:
    """Return which of the models that this caller may use are near to `model`, if any."""
    from radixway.core.http.gateway_client import GatewayCallError, ModelNames, call_gateway
    from radixway.core.near_names import suggest_names

    try:
        listing = asyncio.run(call_gateway(url, "GET", "/v1/models", ModelNames, key=key))
    except GatewayCallError:
        return ""
    return suggest_names(model, [each.id for each in listing.data])


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


def explain(
    request_id: Annotated[str, Argument(help="The x-request-id of its answer.", metavar="ID")],
    url: GatewayUrl = GATEWAY,
    key: Annotated[
        str | None,
        Option(help="The admin key, or the tenant's own.", envvar=["RADIXWAY_ADMIN_KEY", "RADIXWAY_KEY"]),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the answer as it came.")] = False,
) -> None:
    """Show what was decided for a request, step by step, and why."""
    from urllib.parse import quote

    from radixway.core.http.gateway_client import call_gateway

    path = f"/explain/{quote(request_id, safe='')}"
    journal = run_call(call_gateway(url, "GET", path, dict[str, Any], key=key))
    if as_json:
        out.print(format_json(journal))
        return
    for line in journal_lines(journal["steps"]):
        out.print(line)


def usage(
    url: GatewayUrl = GATEWAY,
    key: Annotated[
        str | None,
        Option(help="The admin key, or a tenant's own.", envvar=["RADIXWAY_ADMIN_KEY", "RADIXWAY_KEY"]),
    ] = None,
    tenant: Annotated[str | None, Option(help="Only this one, and its limits.")] = None,
    since: Annotated[str | None, Option("--from", help="First day.", metavar="YYYY-MM-DD")] = None,
    until: Annotated[str | None, Option("--to", help="Last day.", metavar="YYYY-MM-DD")] = None,
    by: Annotated[
        str, Option(help="Group by day, tenant, model, category.", metavar="A,B")
    ] = "tenant,model,category",
    json_file: Annotated[
        Path | None, Option("--json", help="Write the answer there; - prints it.", metavar="FILE")
    ] = None,
    csv_file: Annotated[
        Path | None, Option("--csv", help="Write the rows there; - prints them.", metavar="FILE")
    ] = None,
) -> None:
    """Show requests, tokens and costs of tenants."""
    from radixway.core.http.gateway_client import UsageReport, call_gateway

    parameters = {"tenant": tenant, "from": since, "to": until, "by": by}
    query = urlencode({name: value for name, value in parameters.items() if value}, safe=",")
    report = run_call(call_gateway(url, "GET", f"/usage?{query}", UsageReport, key=key))
    if json_file is not None:
        _write_file(json_file, f"{format_json(report)}\n")
    if csv_file is not None:
        _write_file(csv_file, _to_csv(report.by, report.usage))
    if json_file is None and csv_file is None:
        _print_usage(report.by, report.usage, report.limits)


def _print_usage(by: list[str], rows: list[dict[str, Any]], limits: list[dict[str, Any]]) -> None:
    from radixway.core.telemetry.terminal import FittedTable, TableColumn

    figures = (TableColumn(name, is_number=bool(name), drop_order=order) for name, order in _COLUMNS.values())
    table = FittedTable(*map(TableColumn, by), *figures)
    for row in rows:
        table.add_row(
            *(str(row[name]) or "–" for name in by), *(_format_cell(row[name]) for name in _COLUMNS)
        )
    table.print_to(out)
    for limit in limits:
        used, allowed = _format_cell(limit["used"]), _format_cell(limit["limit"])
        out.print(f"{limit['name']}: {used} of {allowed}{_limit_reset(limit)}")


def _limit_reset(limit: dict[str, Any]) -> str:
    seconds = limit.get("resets_in_s")
    return f" {limit.get('currency', '')}; resets in {seconds / 3600:.1f} h" if seconds is not None else ""


def _format_cell(value: Any) -> str:
    if isinstance(value, float):
        return format_cost(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _to_csv(by: list[str], rows: list[dict[str, Any]]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, [*by, *_COLUMNS], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write_file(file: Path, text: str) -> None:
    if str(file) == "-":
        out.print(text, end="")
    else:
        write_file(file, text)


def erase(
    tenant: Annotated[str, Option(help="The tenant.")],
    user: Annotated[str | None, Option(help="This user of the tenant.")] = None,
    session: Annotated[str | None, Option(help="This session.")] = None,
    request: Annotated[str | None, Option(help="This request, by its id.")] = None,
    everything: Annotated[bool, Option("--all", help="Everything of the tenant.")] = False,
    workers: Annotated[bool, Option("--workers", help="Empty the workers' prefix caches too.")] = False,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: Annotated[bool, Option("--json", help="Print the answer as it came.")] = False,
) -> None:
    """Erase what is kept of a user, session, request or tenant.

    That is in caches, trajectories, sessions, journals and the audit log. Exit code 1 where a part cannot be
    reached now: the gateway tries it again until it is done.
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
            out.print(f"{name}: {_ERASED[target.status]}, {target.entries} entries{why}")
        out.print(f"erasure {summary.erasure}, receipt {summary.receipt}")
    raise SystemExit(0 if summary.complete else 1)

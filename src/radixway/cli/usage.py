"""`radixway usage`: what tenants have used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from radixway.cli.options import GATEWAY, GatewayUrl
from radixway.cli.terminal import format_json, out, run_call
from radixway.core.config.pricing import format_cost

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
"""Figures of a row: what stands above them, and which go first where there is little room."""


def usage(
    url: GatewayUrl = GATEWAY,
    key: Annotated[
        str | None,
        typer.Option(help="The admin key, or a tenant's own.", envvar=["RADIXWAY_ADMIN_KEY", "RADIXWAY_KEY"]),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this one, and its limits.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="First day.", metavar="YYYY-MM-DD")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last day.", metavar="YYYY-MM-DD")] = None,
    by: Annotated[
        str, typer.Option(help="What to tell apart: day, tenant, model, category.", metavar="A,B")
    ] = "tenant,model,category",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the answer there; - prints it.", metavar="FILE")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write the rows there; - prints them.", metavar="FILE")
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
        used, most = _format_cell(limit["used"]), _format_cell(limit["limit"])
        out.print(f"{limit['name']}: {used} of {most}{_limit_reset(limit)}")


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
        file.write_text(text, encoding="utf-8")

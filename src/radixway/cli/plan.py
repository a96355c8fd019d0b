"""`radixway plan`: a gateway's plan, a plan for a trace, and the profile of an engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from radixway.cli.options import GATEWAY, AdminKey, ConfigFile, GatewayUrl, load_options
from radixway.cli.terminal import exit_on, format_json, out, run_call, write_file

plan_app = typer.Typer(help="How many replicas there should be.", invoke_without_command=True)

JsonFile = Annotated[Path | None, Option("--json", help="Write it here.", metavar="FILE")]


@plan_app.callback()
def plan(
    context: typer.Context,
    trace: Annotated[Path | None, Option(help="Plan for this traffic, simulated.", metavar="FILE")] = None,
    config: ConfigFile = None,
    model: Annotated[str, Option(help="Whose objective and profile hold for TRACE.")] = "default",
    start: Annotated[int | None, Option(help="Replicas at first. Default: max_replicas.", min=1)] = None,
    speedup: Annotated[float, Option(help="How much faster requests come than in TRACE.")] = 1.0,
    window_s: Annotated[float, Option(help="The objective is judged by such windows.", min=1)] = 60.0,
    json: JsonFile = None,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
) -> None:
    """Show what a running gateway proposes; with --trace, what would have been proposed for that traffic."""
    if context.invoked_subcommand is not None:
        return
    if trace is None:
        from radixway.core.http.gateway_client import call_gateway

        _print_plan(run_call(call_gateway(url, "GET", "/plan", dict[str, Any], key=key)), json)
        return
    from radixway.cluster.planner.dry_run import PlanOptions, run_dry_run
    from radixway.core.config import ConfigError

    settings = load_options(config)
    section = settings.scale.planner
    max_replicas = 16 if section is None else section.for_model(model).max_replicas
    with exit_on(ValueError, ConfigError):
        run_dry_run(PlanOptions(trace, model, start or max_replicas, speedup, window_s, json), settings, out)


@plan_app.command()
def profile(
    url: Annotated[str, Argument(help="An engine without other traffic.", metavar="URL")],
    model: Annotated[str, Option(help="The model to ask for.")],
    startup_s: Annotated[float, Option(help="How long it takes to start.", min=0)] = 60.0,
    key: Annotated[str | None, Option(help="Sent as bearer token.")] = None,
    json: JsonFile = None,
) -> None:
    """Measure one engine, and print the `profile` to configure."""
    from radixway.cluster.planner.engine_profiler import ProfilingError, fit_profile, measure_engine

    with exit_on(ProfilingError, ValueError):
        alone, together = asyncio.run(measure_engine(url, model, key))
        fitted = fit_profile(alone, together, startup_s).model_dump(
            include={"step_s", "prefill_s", "decode_s", "context_s", "startup_s"}
        )
    out.print("profile:")
    for name, value in fitted.items():
        out.print(f"  {name}: {value:.6g}")
    _write_json(fitted, json)


def _print_plan(plan: dict[str, Any], json: Path | None) -> None:
    from radixway.core.telemetry.terminal import FittedTable, TableColumn

    figures = ("replicas", "ready", "by load", "by forecast", "pressure")
    table = FittedTable(
        TableColumn("model"), TableColumn("role"), *(TableColumn(name, is_number=True) for name in figures)
    )
    for model in plan["models"]:
        for role, target in model["roles"].items():
            forecast, pressure = target["by_forecast"], target["pressure"]
            table.add_row(
                *(model["model"], role, *(str(target[name]) for name in ("replicas", "ready", "by_load"))),
                "–" if forecast is None else str(forecast),
                "–" if pressure is None else f"{pressure:.2f}",  # beyond all numbers
            )
    table.print_to(out)
    _write_json(plan, json)


def _write_json(plan: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        write_file(path, f"{format_json(plan)}\n")

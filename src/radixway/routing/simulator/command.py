"""`radixway simulate`: reads a trace, runs it under each policy, prints and writes the results."""

from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from radixway.core.telemetry.terminal import FittedTable, TableColumn
from radixway.routing.simulator.comparison import compare_policies, parse_policies
from radixway.routing.simulator.dynamo_replay import compare_with_dynamo
from radixway.routing.simulator.report import (
    PlottingUnavailableError,
    SimulationFigures,
    compute_figures,
    draw_plots,
    format_number,
    write_html_page,
)
from radixway.routing.simulator.simulation import SimulationOutcome, SimulationSettings
from radixway.routing.simulator.trace import RequestTrace, read_trace


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Options of the command line."""

    trace: Path
    policies: str
    setting: SimulationSettings
    block_tokens: int
    limit: int | None
    jobs: int
    json: Path | None
    report: Path | None
    against_dynamo: bool = False


def run_simulate_command(order: SimulateOptions, out: Console, err: Console) -> None:
    """Carry out `order`: a table to `out`, progress to `err`, files. Raises ValueError."""
    policies = parse_policies(order.policies)
    trace = read_trace(order.trace, order.block_tokens)
    if order.limit is not None:
        trace = replace(trace, requests=trace.requests[: order.limit])
    _check_output_paths(order)
    if order.against_dynamo:
        with err.status("replaying with Dynamo's engines"):
            outcomes = compare_with_dynamo(trace, policies, order.setting)
        _report_outcomes(order, trace, outcomes, out, err)
        return
    try:
        with _progress_bar(err) as bar:
            task = bar.add_task("simulating", total=len(policies) * len(trace.requests))
            outcomes = compare_policies(
                trace, policies, order.setting, order.jobs, lambda done: bar.update(task, completed=done)
            )
    except BrokenProcessPool:
        raise ValueError(
            "a process that simulated was ended from outside; with --jobs 1 it takes less memory"
        ) from None
    _report_outcomes(order, trace, outcomes, out, err)


def _report_outcomes(
    order: SimulateOptions,
    trace: RequestTrace,
    outcomes: Mapping[str, SimulationOutcome],
    out: Console,
    err: Console,
) -> None:
    results = {name: compute_figures(outcome) for name, outcome in outcomes.items()}
    skipped = next(iter(results.values())).skipped
    if skipped == len(trace.requests):
        raise ValueError(
            f"none of the {skipped} requests fits into a worker's {order.setting.kv_tokens} KV tokens"
        )
    out.print(_trace_headline(order, trace), soft_wrap=True)
    _figures_table(results).print_to(out)
    if skipped:
        err.print(f"{skipped} requests were skipped: no worker's KV cache has room for them", soft_wrap=True)
    try:
        if order.json is not None:
            order.json.write_bytes(
                msgspec.json.format(msgspec.json.encode(_build_document(order, trace, results))) + b"\n"
            )
        if order.report is not None:
            _write_report_files(order, trace, outcomes, results, err)
    except OSError as error:
        raise ValueError(f"cannot write {error.filename}: {error.strerror}") from None


def _check_output_paths(order: SimulateOptions) -> None:
    """Find out before the work whether its results can be written."""
    try:
        if order.report is not None:
            order.report.mkdir(parents=True, exist_ok=True)
        if order.json is not None:
            order.json.touch()
    except OSError as error:
        raise ValueError(f"cannot write {error.filename}: {error.strerror}") from None


def _write_report_files(
    order: SimulateOptions,
    trace: RequestTrace,
    outcomes: Mapping[str, SimulationOutcome],
    results: Mapping[str, SimulationFigures],
    err: Console,
) -> None:
    assert order.report is not None
    picture: Path | None = order.report / "simulation.png"
    try:
        draw_plots(order.report / "simulation.png", outcomes, results)
    except PlottingUnavailableError as error:
        err.print(str(error), soft_wrap=True)
        picture = None
    page = order.report / "simulation.html"
    write_html_page(page, _trace_headline(order, trace), _build_document(order, trace, results), picture)
    err.print(f"report: {page}", soft_wrap=True)


def _build_document(
    order: SimulateOptions, trace: RequestTrace, results: Mapping[str, SimulationFigures]
) -> dict[str, Any]:
    setting = asdict(order.setting)
    constants, queue = setting.pop("constants"), setting.pop("queue")
    setting["slo_itl_s"] = order.setting.slo_itl_s if isfinite(order.setting.slo_itl_s) else None
    setting |= {
        "queue": {name: getattr(queue, name) for name in ("hold_s", "free_below_s", "order", "size")},
        "trace": order.trace.name,
        "requests": len(trace.requests),
        "block_tokens": trace.block_tokens,
    }
    policies = {name: asdict(figures) for name, figures in results.items()}
    return {"policies": policies, "setting": setting, "constants": constants}


def _trace_headline(order: SimulateOptions, trace: RequestTrace) -> str:
    setting, last = order.setting, trace.requests[-1].at
    prompts = sum(request.input_tokens for request in trace.requests) / 1e6
    events = f"KV events after {setting.event_delay_s * 1e3:g} ms" if setting.events else "no KV events"
    return (
        f"{order.trace.name}: {len(trace.requests)} requests, {prompts:.1f} M prompt tokens in {last:.0f} s, "
        f"{setting.speedup:g} times as fast, {setting.workers} workers of {setting.kv_tokens} KV tokens, "
        f"{events}"
    )


def _figures_table(results: Mapping[str, SimulationFigures]) -> FittedTable:
    figures = (
        *("TTFT mean", "p50", "p99", "ITL mean", "good", "hits", "expected", "imbalance", "of requests"),
        *("held", "preempted"),
    )
    table = FittedTable(TableColumn("policy"), *(TableColumn(name, is_number=True) for name in figures))
    for name, of in results.items():
        seconds = (of.ttft_mean_s, of.ttft_p50_s, of.ttft_p99_s)
        table.add_row(
            name,
            *(format_number(value, "{:.3f} s") for value in seconds),
            format_number(of.itl_mean_s, "{:.4f} s"),
            format_number(of.goodput, "{:.1%}"),
            format_number(of.hit_rate, "{:.1%}"),
            format_number(of.expected_hit_rate, "{:.1%}"),
            format_number(of.imbalance, "{:.3f}"),
            format_number(of.request_imbalance, "{:.3f}"),
            str(of.held),
            str(of.preemptions),
        )
    return table


def _progress_bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

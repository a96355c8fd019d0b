"""What `radixway simulate` does: read a trace, run it under each policy, say and write what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from radixway.simulate.comparison import compare, read_policies
from radixway.simulate.figures import Figures, figures_of
from radixway.simulate.report import NoPlots, draw, write_page
from radixway.simulate.simulation import Outcome, Setting
from radixway.simulate.trace import Trace, TraceError, read_trace
from radixway.telemetry.tables import Column, FittedTable


class Refused(Exception):
    """The command cannot do what it was asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for."""

    trace: Path
    policies: str
    setting: Setting
    block_tokens: int
    limit: int | None
    jobs: int
    json: Path | None
    report: Path | None


def simulate(order: Order, out: Console, err: Console) -> None:
    """Carry out `order`: a table to `out`, a progress bar and remarks to `err`, files. Raises Refused."""
    try:
        policies = read_policies(order.policies)
        trace = read_trace(order.trace, order.block_tokens)
    except (ValueError, TraceError) as error:
        raise Refused(str(error)) from None
    if order.limit is not None:
        trace = replace(trace, requests=trace.requests[: order.limit])
    _make_room(order)
    try:
        with _bar(err) as bar:
            task = bar.add_task("simulating", total=len(policies) * len(trace.requests))
            outcomes = compare(
                trace, policies, order.setting, order.jobs, lambda done: bar.update(task, completed=done)
            )
    except ValueError as error:
        raise Refused(str(error)) from None
    except BrokenProcessPool:
        raise Refused(
            "a process that simulated was ended from outside; with --jobs 1 it takes less memory"
        ) from None
    _tell(order, trace, outcomes, out, err)


def _tell(order: Order, trace: Trace, outcomes: Mapping[str, Outcome], out: Console, err: Console) -> None:
    told = {name: figures_of(outcome) for name, outcome in outcomes.items()}
    skipped = next(iter(told.values())).skipped
    if skipped == len(trace.requests):
        raise Refused(
            f"none of the {skipped} requests fits into a worker's {order.setting.kv_tokens} KV tokens"
        )
    out.print(_headline(order, trace), soft_wrap=True)
    _table(told).print_to(out)
    if skipped:
        err.print(f"{skipped} requests were skipped: no worker's KV cache has room for them", soft_wrap=True)
    try:
        if order.json is not None:
            order.json.write_bytes(
                msgspec.json.format(msgspec.json.encode(_document(order, trace, told))) + b"\n"
            )
        if order.report is not None:
            _write_report(order, trace, outcomes, told, err)
    except OSError as error:
        raise Refused(f"cannot write {error.filename}: {error.strerror}") from None


def _make_room(order: Order) -> None:
    """Find out before the work whether its results can be written. Raises Refused."""
    try:
        if order.report is not None:
            order.report.mkdir(parents=True, exist_ok=True)
        if order.json is not None:
            order.json.touch()
    except OSError as error:
        raise Refused(f"cannot write {error.filename}: {error.strerror}") from None


def _write_report(
    order: Order, trace: Trace, outcomes: Mapping[str, Outcome], told: Mapping[str, Figures], err: Console
) -> None:
    assert order.report is not None
    picture: Path | None = order.report / "simulation.png"
    try:
        draw(order.report / "simulation.png", outcomes, told)
    except NoPlots as error:
        err.print(str(error), soft_wrap=True)
        picture = None
    page = order.report / "simulation.html"
    write_page(page, _headline(order, trace), _document(order, trace, told), picture)
    err.print(f"report: {page}", soft_wrap=True)


def _document(order: Order, trace: Trace, told: Mapping[str, Figures]) -> dict[str, Any]:
    """All figures for a machine."""
    setting = asdict(order.setting)
    constants = setting.pop("constants")
    setting |= {
        "trace": order.trace.name,
        "requests": len(trace.requests),
        "block_tokens": trace.block_tokens,
    }
    policies = {name: asdict(figures) for name, figures in told.items()}
    return {"policies": policies, "setting": setting, "constants": constants}


def _headline(order: Order, trace: Trace) -> str:
    setting, last = order.setting, trace.requests[-1].at
    prompts = sum(request.input_tokens for request in trace.requests) / 1e6
    events = f"KV events after {setting.event_delay_s * 1e3:g} ms" if setting.events else "no KV events"
    return (
        f"{order.trace.name}: {len(trace.requests)} requests, {prompts:.1f} M prompt tokens in {last:.0f} s, "
        f"{setting.speedup:g} times as fast, {setting.workers} workers of {setting.kv_tokens} KV tokens, "
        f"{events}"
    )


def _table(told: Mapping[str, Figures]) -> FittedTable:
    figures = ("TTFT mean", "p50", "p99", "ITL mean", "hits", "expected", "imbalance", "of requests")
    table = FittedTable(Column("policy"), *(Column(name, is_number=True) for name in figures))
    for name, of in told.items():
        seconds = (of.ttft_mean_s, of.ttft_p50_s, of.ttft_p99_s)
        table.add_row(
            name,
            *(_number(value, "{:.3f} s") for value in seconds),
            _number(of.itl_mean_s, "{:.4f} s"),
            _number(of.hit_rate, "{:.1%}"),
            _number(of.expected_hit_rate, "{:.1%}"),
            _number(of.imbalance, "{:.3f}"),
            _number(of.request_imbalance, "{:.3f}"),
        )
    return table


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

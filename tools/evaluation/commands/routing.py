"""`evaluate.py routing`: what routing is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as Printed

from radixway.cli.terminal import exit_with_error, out

if TYPE_CHECKING:
    from evaluation.routing import PoolFigures, Readings, Table, TierFigures

Tables = Mapping[str, "Table"]


def routing(
    data: Annotated[
        Path | None,
        typer.Option(
            help="JSON lines {question, category, correct: {model: 0 or 1}, set}, or a folder of the "
            "published tables. Default: a sample that ships.",
            metavar="FILE",
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool of models.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep what the encoder reads here, for the next time.", metavar="FILE")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write all figures here.", metavar="FILE")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw quality over cost (.svg or .png).", metavar="FILE")
    ] = None,
) -> None:
    """Routing within a pool of models and between a weak and a strong one, on tables of correctness."""
    try:
        from evaluation.routing import SAMPLE, read_tables
        from radixway.semantics.encoders import EncoderError
    except ImportError as error:
        exit_with_error(f"routing needs radixway[semantic]: {error}")
    try:
        tables = read_tables(data or SAMPLE)
        readings = _read(tables, cache)
        pools = _evaluate_pools(tables, readings, pool)
        tiers = _evaluate_tiers(tables, readings)
        for figures in pools:
            out.print(_pool_table(figures))
        for pair in tiers:
            out.print(_tier_table(pair))
        if json is not None:
            json.write_text(dumps(_as_json(pools, tiers), indent=1), encoding="utf-8")
        if plot is not None:
            _draw(plot, pools, tiers)
    except (ValueError, OSError, EncoderError) as error:
        exit_with_error(str(error))


def _read(tables: Tables, cache: Path | None) -> dict[str, Readings]:
    from rich.progress import Progress

    from evaluation.routing import read_questions
    from radixway.core.config import EncodersConfig
    from radixway.semantics.encoders import load_encoder
    from radixway.semantics.encoders.heads import DOMAIN_HEAD, DomainHead

    encoder = load_encoder(EncodersConfig())
    head = DomainHead.load_file(DOMAIN_HEAD, encoder)
    readings = {}
    with Progress(console=out, transient=True) as bar:
        for name, table in tables.items():
            task = bar.add_task(f"reading {name}")
            readings[name] = read_questions(
                table.questions,
                encoder,
                head,
                cache,
                lambda done, of, task=task: bar.update(task, completed=done, total=of),  # type: ignore[misc]
            )
    return readings


def _evaluate_pools(tables: Tables, readings: Mapping[str, Readings], only: str | None) -> list[PoolFigures]:
    from evaluation.routing import evaluate_pool, pools_of

    found = []
    for name, table in tables.items():
        if len(table.models) < 3:
            continue
        pools = pools_of(table)
        if only is not None and only not in pools:
            raise ValueError(f"there is no pool {only!r}; there are: {', '.join(pools)}")
        found += [
            evaluate_pool(pool, models, table, readings[name])
            for pool, models in pools.items()
            if only in (None, pool)
        ]
    return found


def _evaluate_tiers(tables: Tables, readings: Mapping[str, Readings]) -> list[TierFigures]:
    """Each table that has a pair; GSM8K with what was learnt on MMLU."""
    from evaluation.routing import evaluate_tiers, tiers_of

    found = []
    for name, table in tables.items():
        pair = tiers_of(table)
        if pair is None:
            continue
        elsewhere = name == "gsm8k" and "mmlu" in tables
        learnt = (tables["mmlu"], readings["mmlu"]) if elsewhere else None
        found.append(evaluate_tiers(pair, table, readings[name], learnt))
    return found


def _pool_table(figures: PoolFigures) -> Printed:
    table = Printed(
        title=f"{figures.pool}: {figures.questions} questions, best single model {figures.best_model} "
        f"{figures.best_quality:.3f}; some model is right {figures.any_right:.3f}; "
        f"domain head right {figures.domain_accuracy:.3f}"
    )
    for column in ("chosen by", "right", "gain", "±", "95 %", "B"):
        table.add_column(column, justify="left" if column == "chosen by" else "right", no_wrap=True)
    for name, each in figures.routed.items():
        interval = f"{100 * each.low:+.1f} … {100 * each.high:+.1f}"
        gain, spread = f"{100 * each.gain:+.2f}", f"{100 * each.spread:.2f}"
        table.add_row(name, f"{each.quality:.3f}", gain, spread, interval, f"{each.cost:.1f}")
    for share, quality, cost in figures.curve:
        gain = f"{100 * (quality - figures.best_quality):+.2f}"
        table.add_row(f"cheap, from {share:g} of the best", f"{quality:.3f}", gain, "", "", f"{cost:.1f}")
    return table


def _tier_table(figures: TierFigures) -> Printed:
    table = Printed(
        title=f"{figures.table}: {figures.weak} {figures.weak_quality:.3f}, {figures.strong} "
        f"{figures.strong_quality:.3f}; learnt on {figures.trained_on}"
    )
    for column in ("who needs the strong one", "APGR", "± seeds", "CPT50 %", "CPT80 %"):
        table.add_column(column, justify="left" if column.startswith("who") else "right")
    table.add_row("random", "0.500", "", "50", "80")
    for name, each in figures.scored.items():
        calls = f"{100 * each.cpt50:.0f}", f"{100 * each.cpt80:.0f}"
        table.add_row(name, f"{each.apgr:.3f}", f"{each.spread:.3f}", *calls)
    return table


def _as_json(pools: Sequence[PoolFigures], tiers: Sequence[TierFigures]) -> dict[str, object]:
    from dataclasses import asdict

    return {"pools": [asdict(each) for each in pools], "tiers": [asdict(each) for each in tiers]}


def _draw(path: Path, pools: Sequence[PoolFigures], tiers: Sequence[TierFigures]) -> None:
    try:
        from evaluation.routing.pictures import draw

        draw(path, pools, tiers)
    except ModuleNotFoundError as error:
        exit_with_error(f"no plot, because {error.name} is not installed: pip install 'radixway[simulate]'")

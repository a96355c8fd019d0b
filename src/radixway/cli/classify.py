"""`radixway classify` and `radixway rules test`: classify a text, and test rules on cases."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from radixway.cli.config import load_semantic_sections
from radixway.cli.terminal import exit_on, exit_with_error, out
from radixway.core.config import Config, ConfigError, EncodersConfig

if TYPE_CHECKING:
    from radixway.core.config.semantic import SemanticConfig
    from radixway.semantics.classification import TextIntent
    from radixway.semantics.decisions.dry_run import CaseResult, Guards
    from radixway.semantics.decisions.rule_cases import LocatedCase

ResultT = TypeVar("ResultT")

Rules = Annotated[
    Path | None,
    Option(
        "--config",
        "-c",
        metavar="FILE",
        help="radixway.yaml or a semantic router's config.yaml. Default: ./radixway.yaml if there is one.",
    ),
]
AsJson = Annotated[bool, Option("--json", help="JSON in place of tables.")]


def classify(
    text: Annotated[str, Argument(help="The text; - reads standard input.")],
    config: Rules = None,
    json: AsJson = False,
) -> None:
    """Classify a text: domain, language, complexity.

    With rules also what matches and the chosen model.
    """
    if text == "-":
        text = sys.stdin.read()
    if not text.strip():
        exit_with_error("there is no text to classify")
    section, encoders = load_semantic_sections(config)
    intent, time_ms = _run_or_fail(_classify_intent(text, section, encoders))
    if json:
        from radixway.semantics.classification.answers import IntentOptions, intent_answer

        options = IntentOptions(return_probabilities=True, include_explanation=True)
        out.print_json(data=intent_answer(intent, options, time_ms))
    else:
        _print_intent(intent, section.is_on)


def rules_test(
    file: Annotated[Path, Argument(help="Cases, YAML or JSON lines.", metavar="FILE")],
    config: Rules = None,
    json: AsJson = False,
) -> None:
    """Run cases as real requests, without workers.

    Exit code 1 if one fails.
    """
    from radixway.semantics.decisions.rule_cases import read_cases

    with exit_on(ConfigError):
        cases = read_cases(file)
    section, encoders = load_semantic_sections(config)
    if not section.is_on:
        exit_with_error("there are no rules to test: give --config FILE with a semantic configuration")
    results = _run_or_fail(_run_cases(cases, section, encoders))
    if json:
        out.print_json(data=[result.as_dict() for result in results])
    else:
        for result in results:
            _print_case(result)
        failed = sum(not result.passed for result in results)
        out.print(f"{len(results) - failed} passed, {failed} failed", style="bold red" if failed else "bold")
    raise typer.Exit(any(not result.passed for result in results))


async def _classify_intent(
    text: str, section: SemanticConfig, encoders: EncodersConfig
) -> tuple[TextIntent, int]:
    """Return the intent of `text`, and the milliseconds it took once everything was loaded."""
    from radixway.semantics.classification import ClassificationService
    from radixway.semantics.decisions.dry_run import every_model_is_ready, open_offline

    guards = _load_guards(section, encoders)
    async with open_offline(section, encoders, guards) as setup:
        service = ClassificationService(
            setup.encoders, setup.room, every_model_is_ready, *guards(setup.encoders)
        )
        began = perf_counter()
        intent = await service.read_intent(text)
        return intent, round((perf_counter() - began) * 1e3)


async def _run_cases(
    cases: Sequence[LocatedCase], section: SemanticConfig, encoders: EncodersConfig
) -> list[CaseResult]:
    from radixway.semantics.decisions.dry_run import open_offline, run_case

    async with open_offline(section, encoders, _load_guards(section, encoders)) as setup:
        return [await run_case(setup, case) for case in cases]


def _load_guards(section: SemanticConfig, encoders: EncodersConfig) -> Guards:
    """Return the guard's finder and judge for a service, as a gateway with `section` has them."""
    from radixway.core.config.semantic import merge_semantic_file
    from radixway.semantics.guard.detector_factory import build_finder, build_judge

    config, merged = Config(encoders=encoders), merge_semantic_file(section)
    return lambda service: (build_finder(config, merged, service), build_judge(config, merged, service))


def _run_or_fail(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` and return its result; a missing extra or a mistake ends the command."""
    try:
        from radixway.semantics.classification import ClassifierUnavailableError

        with exit_on(ConfigError, ClassifierUnavailableError):
            return asyncio.run(work)
    except ImportError as error:
        exit_with_error(f"this needs radixway[semantic]: {error}")


def _print_intent(intent: TextIntent, decides: bool) -> None:
    from rich.table import Table

    domain = intent.domain
    assert domain is not None
    table = Table("domain", "probability", "", box=None)
    for name, share in sorted(domain.distribution.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{share:.3f}", "█" * round(share * 40))
    out.print(table, soft_wrap=False)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("entropy", f"{domain.entropy:.3f}")
    for kind in ("language", "complexity", "context"):
        signal = intent.signals.find_signal(kind)
        if signal is not None:
            facts.add_row(kind, _format_figure(signal.value))
    if decides:
        matched = ", ".join(
            f"{kind} {name}" for kind, names in intent.matched_signals().items() for name in names
        )
        facts.add_row("matched", matched or "nothing")
        for name, value in intent.decision_summary().items():
            facts.add_row(name, _format_figure(value))
    out.print(facts, soft_wrap=False)


def _print_case(each: CaseResult) -> None:
    style = "green" if each.passed else "bold red"
    verdict = "passed" if each.passed else "FAILED"
    out.print(f"{verdict}  {each.placed.where}  {each.placed.case.display_name()}", style=style)
    for failure in each.failures:
        out.print(f"        {failure}", style="red")
    outcome = ", ".join(f"{name} {_format_figure(value)}" for name, value in each.outcome.items())
    out.print(f"        {outcome}")
    out.print(f"        why: {each.why}", style="dim")
    for signal in each.signals:
        name = f"{signal['kind']}:{signal['name']}" if signal["name"] else signal["kind"]
        sure = "" if signal["matched"] else ", does not match"
        out.print(
            f"        {name} = {_format_figure(signal['value'])}"
            f" (confidence {signal['confidence']:.2f}{sure})",
            style="dim",
        )


def _format_figure(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)

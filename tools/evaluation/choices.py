"""Which models realistic prompts get, bare and wrapped, under configurations that a newcomer would write.

The configurations, and prompts with the models that a sensible person would let answer, are in data/choices.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.wrapped import BARE, Share, language_of, passages, shapes
from radixway.core.config import EncodersConfig
from radixway.core.config.semantic import SemanticConfig, load_semantic
from radixway.semantics.decisions.dry_run import OfflineLayer, open_offline, run_case
from radixway.semantics.decisions.rule_cases import ExpectedDecision, LocatedCase, SemanticCase

CHOICES = Path(__file__).parent / "data" / "choices"
PROMPTS = CHOICES / "prompts.toml"
CONFIGURATIONS = ("tiers", "subjects")
IN_SHAPES = (BARE, "json instructed", "rag, langchain", "reminder")
_PROMPT_TOKENS, _COMPLETION_TOKENS = 200, 300
"""Of a request, where costs are compared."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How one configuration chose in one shape."""

    sensible: Share
    cost: float
    """Beside what the dearest model would have cost for all prompts."""
    wrong: tuple[tuple[str, str], ...]
    """Prompts, each with the model that it got."""


async def evaluate_choices(configuration: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Choices]:
    """Return how `configuration` chooses for `rows`, as `read_prompts` gives them, by shape."""
    file = CHOICES / f"{configuration}.yaml"
    section = load_semantic(file)
    by_name = {shape.name: shape for shape in shapes()}
    found = {}
    async with open_offline(section, EncodersConfig()) as layer:
        for name in IN_SHAPES:
            models = []
            for number, row in enumerate(rows):
                beside = passages(language_of(row["text"]))
                body = by_name[name].wrap_question(row["text"], beside[number % len(beside)])
                models.append(await _chosen_model(layer, body))
            wrong = tuple(
                (row["text"], model)
                for row, model in zip(rows, models, strict=True)
                if model not in row[configuration]
            )
            share = Share(len(rows) - len(wrong), len(rows))
            found[name] = Choices(share, _relative_cost(section, models), wrong)
    return found


def read_prompts(file: Path = PROMPTS) -> list[dict[str, Any]]:
    """Return the prompts in `file`: `text`, and under each configuration's name the sensible models."""
    rows: list[dict[str, Any]] = tomllib.loads(file.read_text("utf-8"))["prompt"]
    return rows


async def _chosen_model(layer: OfflineLayer, body: Mapping[str, Any]) -> str:
    case = SemanticCase(messages=tuple(body["messages"]), expect=ExpectedDecision(blocked=False))
    result = await run_case(layer, LocatedCase(case, ""))
    return str(result.outcome.get("model"))


def _relative_cost(section: SemanticConfig, models: list[str]) -> float:
    prices = {
        name: params.pricing.cost(_PROMPT_TOKENS, _COMPLETION_TOKENS)
        for name, params in section.models.items()
        if params.pricing is not None
    }
    return sum(prices[model] for model in models) / (max(prices.values()) * len(models))

"""Which tools a query gets: the best by score, as far as they are good enough.

What became of a request's tools, in words for the journal.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from radixway.core.config.semantic import ClassicTools
from radixway.semantics.tools.tool_index import ToolIndex, ToolScores

MIN_SCORE = 0.1
"""Below it a tool is not offered; docs/evaluations/semantic.md says what that costs."""


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Limits on the number of tools and their scores."""

    top_k: int
    min_score: float = MIN_SCORE
    min_cosine: float | None = None
    """The published `similarity_threshold`: of the query with the description, or with the examples."""
    categories: frozenset[str] = frozenset()
    """Only tools of these; empty: of all."""


@dataclass(frozen=True, slots=True)
class ChosenTool:
    """A tool that is offered, and why."""

    number: int
    """Its place in the index."""
    name: str
    score: float
    description: float
    examples: float | None
    words: float

    def explain(self) -> dict[str, Any]:
        """Return the fields for the journal."""
        entry = {"name": self.name, "score": self.score, "description": self.description, "words": self.words}
        if self.examples is not None:
            entry["examples"] = self.examples
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in entry.items()}


@dataclass(frozen=True, slots=True)
class ToolSelectionResult:
    """The tools for a query."""

    chosen: tuple[ChosenTool, ...]
    """The best first."""
    called: tuple[int, ...]
    """Places of tools that are offered because the conversation has called them, beyond `chosen`."""
    best: float
    """The highest score of all, whether or not it was enough."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Places of all that is offered, in the index's order: the same tools make the same prompt."""
        return tuple(sorted((*(ranked.number for ranked in self.chosen), *self.called)))


def tool_limits(section: ClassicTools, top_k: int | None = None) -> ToolLimits:
    """Read the configured limits. Beside the published threshold ours holds only where it is given too."""
    ours = MIN_SCORE if section.similarity_threshold is None else -1.0
    return ToolLimits(
        top_k=top_k or section.top_k,
        min_score=ours if section.least_score is None else section.least_score,
        min_cosine=section.similarity_threshold,
        categories=frozenset(section.categories),
    )


def select_tools(
    index: ToolIndex, scores: ToolScores, limits: ToolLimits, called: Collection[str] = ()
) -> ToolSelectionResult:
    """Return the tools to offer. Those that were `called` are, whatever their scores."""
    enough = scores.total >= limits.min_score
    if limits.min_cosine is not None:
        enough &= scores.cosine >= limits.min_cosine
    if limits.categories:
        enough &= np.array([tool.category in limits.categories for tool in index.tools], bool)
    order = np.argsort(-scores.total, kind="stable")
    chosen = tuple(
        _chosen_tool(index, scores, int(number)) for number in order[enough[order]][: limits.top_k]
    )
    taken = {ranked.number for ranked in chosen}
    places = sorted({index.place[name] for name in called if name in index.place} - taken)
    return ToolSelectionResult(chosen, tuple(places), float(scores.total.max(initial=0.0)))


def _chosen_tool(index: ToolIndex, scores: ToolScores, number: int) -> ChosenTool:
    examples = float(scores.examples[number])
    return ChosenTool(
        number=number,
        name=index.tools[number].name,
        score=float(scores.total[number]),
        description=float(scores.description[number]),
        examples=None if np.isnan(examples) else examples,
        words=float(scores.words[number]),
    )


_BYTES_PER_TOKEN = 4


@dataclass(slots=True)
class ToolOffer:
    """Filled while tools are selected."""

    source: Literal["database", "client"]
    of: int
    """How many there were to choose from."""
    bytes_before: int
    """Bytes of all definitions."""
    bytes_after: int = 0
    """Bytes of offered definitions."""
    outcome: str = "selected"
    """Or `none_good_enough`, `no_text`, `failed`, `unread`: the list is being read for the first time."""
    names: Sequence[str] = ()
    selection: ToolSelectionResult | None = None
    took_s: float = 0.0

    def explain(self) -> dict[str, Any]:
        """Names of tools and figures, no text. Tokens are estimated as four bytes each."""
        before, after = self.bytes_before // _BYTES_PER_TOKEN, self.bytes_after // _BYTES_PER_TOKEN
        entry: dict[str, Any] = {
            "source": self.source,
            "outcome": self.outcome,
            "of": self.of,
            "offered": list(self.names),
            "tokens_before": before,
            "tokens_after": after,
            "tokens_saved": before - after,
            "took_ms": round(self.took_s * 1e3, 3),
        }
        if self.selection is not None:
            entry["called_before"] = len(self.selection.called)
            entry["best_score"] = round(self.selection.best, 4)
            entry["scores"] = [ranked.explain() for ranked in self.selection.chosen]
        return entry

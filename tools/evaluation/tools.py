"""How often the right tool is among those that a query is offered: `python tools/evaluate.py tools`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.tool_queries import Query, part
from radixway.semantics.encoders import TextEncoder
from radixway.semantics.encoders.base import Floats
from radixway.semantics.tools import ToolDefinition, ToolIndex, ToolScores, build_profile, tool_texts
from radixway.semantics.tools.tool_index import WORDS

_DATA = Path(__file__).parent / "data"
TOOLS = _DATA / "tools.jsonl.gz"
QUERIES = (_DATA / "tools_queries.jsonl.gz", _DATA / "tools_lists.jsonl.gz")
"""A sample of MetaTool's queries, and of the Berkeley Function-Calling Leaderboard's."""

DEPTHS = (1, 3, 5, 10)
OFFERED = 5
"""How many tools a query is offered where thresholds and tokens are counted."""
THRESHOLDS = (0.0, 0.08, 0.10, 0.12, 0.14, 0.16, 0.20, 0.25)


@dataclass(frozen=True, slots=True)
class Recalls:
    """Of some queries, by approach and by how many tools are offered: shares that got all they want."""

    queries: int
    at: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """What a least score does, with at most five tools offered."""

    least_score: float
    right_without: float | None
    """Share of queries that get the right tool, without examples; with them: `right_with`."""
    right_with: float | None
    offered_with: float | None
    """Tools that a query is offered on average."""
    right_in_lists: float | None
    """The same for queries that come with a list of their own."""
    false_offers: float | None
    """Share of queries that none of their own list will do for, and that are offered one."""


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """What was measured."""

    tools: int
    examples: float
    """Example queries per tool, on average."""
    one: Recalls
    """Queries that want one tool of the database."""
    several: Recalls
    """Queries that want several."""
    lists: Recalls
    """Queries that want one tool of the list that they come with."""
    tokens: Mapping[int, float]
    """By how many tools are offered: their share of the word pieces of all names and descriptions."""
    thresholds: tuple[AtThreshold, ...]


def evaluate_tools(
    encoder: TextEncoder,
    tools: Sequence[ToolDefinition],
    queries: Sequence[Query],
    *,
    examples: int = 30,
    seed: int = 7,
) -> ToolFigures:
    """Figures for the code that serves requests, beside the description's cosine alone.

    Queries that want one tool are parted: from 3 in 5 of every tool's at most `examples` are taken, the
    others are the test, with and without examples. Near-duplicates stay on one side.
    Raises ValueError where queries want a tool that is not among `tools`.
    """
    names = {tool.name for tool in tools}
    if unknown := {name for query in queries if not query.own for name in query.wanted} - names:
        raise ValueError(f"no tool is named {sorted(unknown)[0]!r}")
    vectors = _Vectors(encoder)
    single = [query for query in queries if not query.own and len(query.wanted) == 1]
    taught, test = part(single, vectors, random.Random(seed))
    without = _index(tools, vectors)
    told = [replace(tool, examples=tuple(taught[tool.name][:examples])) for tool in tools]
    with_examples = _index(told, vectors)
    several = [query for query in queries if not query.own and len(query.wanted) > 1]
    lists = [query for query in queries if query.own]
    own = [(query, _index(query.own, vectors)) for query in lists]

    def in_database(some: Sequence[Query], index: ToolIndex) -> list[_Compared]:
        return [_compare(query, index, vectors) for query in some]

    found = in_database(test, without), in_database(test, with_examples)
    in_lists = [_compare(query, index, vectors) for query, index in own]
    return ToolFigures(
        tools=len(tools),
        examples=float(np.mean([len(tool.examples) for tool in told])) if told else 0.0,
        one=Recalls(len(test), _recalls(*found)),
        several=Recalls(
            len(several), _recalls(in_database(several, without), in_database(several, with_examples))
        ),
        lists=Recalls(
            sum(bool(query.wanted) for query in lists), _recalls([each for each in in_lists if each.wanted])
        ),
        tokens=_token_shares(tools, found[1], vectors),
        thresholds=tuple(_at_threshold(least, *found, in_lists) for least in THRESHOLDS),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """A query's scores, and the places of what it wants."""

    scores: ToolScores
    wanted: tuple[int, ...]


class _Vectors(dict[str, Floats]):
    """Text → vector, each read once."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self._encoder = encoder
        self.tokens: dict[str, int] = {}
        """Word pieces of each text."""

    def __missing__(self, text: str) -> Floats:
        encoding = self._encoder.encode([text])[0]
        self.tokens[text] = encoding.tokens
        self[text] = encoding.vector
        return encoding.vector


def _index(tools: Sequence[ToolDefinition], vectors: _Vectors) -> ToolIndex:
    return ToolIndex(tools, [build_profile(tool_texts(tool), vectors) for tool in tools])


def _compare(query: Query, index: ToolIndex, vectors: _Vectors) -> _Compared:
    scores = index.score_tools(vectors[query.text], query.text)
    return _Compared(scores, tuple(index.place[name] for name in query.wanted))


def _recalls(
    without: Sequence[_Compared], with_examples: Sequence[_Compared] = ()
) -> dict[str, dict[int, float]]:
    approaches: list[tuple[str, Sequence[_Compared], Callable[[ToolScores], Any]]] = [
        ("the description's cosine", without, lambda scores: scores.description),
        ("vectors", without, _vectors_alone),
        ("vectors and words", without, lambda scores: scores.total),
        ("vectors, examples", with_examples, _vectors_alone),
        ("vectors and words, examples", with_examples, lambda scores: scores.total),
    ]
    return {
        name: {depth: _recall(found, by, depth) for depth in DEPTHS}
        for name, found, by in approaches
        if found
    }


def _vectors_alone(scores: ToolScores) -> Any:
    return scores.total - WORDS * scores.words


def _recall(found: Sequence[_Compared], by: Callable[[ToolScores], Any], depth: int) -> float:
    hits = 0
    for each in found:
        offered = np.argsort(-by(each.scores), kind="stable")[:depth]
        hits += set(each.wanted) <= set(offered.tolist())
    return hits / len(found)


def _token_shares(
    tools: Sequence[ToolDefinition], found: Sequence[_Compared], vectors: _Vectors
) -> dict[int, float]:
    texts = [tool_texts(tool) for tool in tools]
    tokens = np.array([vectors.tokens[each.description] + vectors.tokens[each.name] for each in texts])
    shares = {}
    for depth in DEPTHS:
        offered = [tokens[np.argsort(-each.scores.total)[:depth]].sum() for each in found]
        shares[depth] = float(np.mean(offered) / tokens.sum()) if offered else 0.0
    return shares


def _at_threshold(
    least: float,
    without: Sequence[_Compared],
    with_examples: Sequence[_Compared],
    in_lists: Sequence[_Compared],
) -> AtThreshold:
    wanted = [each for each in in_lists if each.wanted]
    unwanted = [each for each in in_lists if not each.wanted]
    return AtThreshold(
        least,
        _share(_is_offered(each, least) for each in without),
        _share(_is_offered(each, least) for each in with_examples),
        _share(min(int((each.scores.total >= least).sum()), OFFERED) for each in with_examples),
        _share(_is_offered(each, least) for each in wanted),
        _share(bool((each.scores.total >= least).any()) for each in unwanted),
    )


def _is_offered(each: _Compared, least: float) -> bool:
    best = np.argsort(-each.scores.total, kind="stable")[:OFFERED].tolist()
    return all(place in best and each.scores.total[place] >= least for place in each.wanted)


def _share(figures: Iterable[float]) -> float | None:
    given = list(figures)
    return float(np.mean(given)) if given else None

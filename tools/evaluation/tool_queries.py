"""Labelled queries for tools, read from files, and parted into examples and a test."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Raw

from radixway.semantics.encoders.base import Floats
from radixway.semantics.tools import ToolDefinition
from radixway.semantics.tools.lexical_index import count_words

ALIKE_COSINE, ALIKE_WORDS = 0.9, 0.7
"""From either on (the words' by Jaccard) two queries for one tool are near-duplicates."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the tools that it wants: all of them; none where no tool will do."""

    text: str
    wanted: tuple[str, ...]
    own: tuple[ToolDefinition, ...] = ()
    """The list that it comes with; empty where it chooses from the database."""


def read_tools(path: Path) -> list[ToolDefinition]:
    """Rows `{tool, description}`. Raises ValueError that names the line."""
    return [_tool(row, "tool", where) for where, row in _rows(path)]


def read_queries(path: Path) -> list[Query]:
    """Rows `{query, tool}`, one or several, or `{messages, tools, expected}`. Raises ValueError likewise."""
    return [_query(row, where) for where, row in _rows(path)]


def part(
    queries: Sequence[Query], vectors: Mapping[str, Floats], order: random.Random
) -> tuple[Mapping[str, list[str]], list[Query]]:
    """Examples by tool, one of each group of near-duplicates, and the queries of the other groups."""
    by_tool: dict[str, dict[str, None]] = defaultdict(dict)
    for query in queries:
        by_tool[query.wanted[0]][query.text] = None
    taught: dict[str, list[str]] = defaultdict(list)
    test: list[Query] = []
    for name in sorted(by_tool):
        groups = near_duplicates(list(by_tool[name]), vectors)
        order.shuffle(groups)
        left = held = 0
        for group in groups:
            if 2 * left <= 3 * held:
                left += len(group)
                taught[name].append(group[0])
            else:
                held += len(group)
                test += [Query(text, (name,)) for text in group]
    return taught, test


def near_duplicates(texts: Sequence[str], vectors: Mapping[str, Floats]) -> list[list[str]]:
    """The texts in groups: whoever is alike another, in vector or in words, is in its group."""
    matrix = np.stack([vectors[text] for text in texts])
    alike = matrix @ matrix.T >= ALIKE_COSINE
    words = [frozenset(count_words(text)) for text in texts]
    groups: list[list[int]] = []
    for number in range(len(texts)):
        near = [
            group
            for group in groups
            if any(
                alike[number, other] or _jaccard(words[number], words[other]) >= ALIKE_WORDS
                for other in group
            )
        ]
        groups = [group for group in groups if group not in near] + [[*chain.from_iterable(near), number]]
    return [[texts[number] for number in sorted(group)] for group in sorted(groups)]


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(len(one | other), 1)


def _query(row: Mapping[str, Any], where: str) -> Query:
    try:
        if "query" in row:
            wanted = row["tool"]
            return Query(row["query"], (wanted,) if isinstance(wanted, str) else tuple(wanted))
        own = tuple(_tool(tool, "name", where) for tool in row["tools"])
        return Query(row["messages"][-1]["content"], tuple(row["expected"]), own)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"{where}: needs query and tool, or messages, tools and expected: {error!r}"
        ) from None


def _tool(row: Mapping[str, Any], key: str, where: str) -> ToolDefinition:
    name, description = row.get(key), row.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        raise ValueError(f"{where}: needs strings in {key} and description")
    return ToolDefinition(name, Raw(b"{}"), description)


def _rows(path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for number, line in enumerate(content.decode("utf-8").split("\n"), start=1):
        if not line:
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{where}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{where}: not an object")
        yield where, row

"""Tools ready to be compared with a query: their vectors and their words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from radixway.semantics.tools.lexical_index import Bm25Index, Floats64, count_words, split_name
from radixway.semantics.tools.tool_definition import ToolDefinition, definitions_size_bytes

if TYPE_CHECKING:
    from radixway.semantics.encoders.base import Floats

_CLAUSE_ENDS = re.compile(r"[.!?;,:\n]+\s+|[。！？；，：\n]+| and | or ")
_MAX_CLAUSES = 6
_MIN_CLAUSE_CHARS = 5

NAME, CLAUSE = 0.4, 0.6
"""Weights beside the description's 1."""
EXAMPLES = 0.7
"""Weight of the examples against the tool's own text, where there are any."""
WORDS = 0.4
"""Weight of the words against the vectors."""


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """A tool's vectors, each of unit length."""

    description: Floats
    name: Floats
    clauses: Floats
    """[clauses, size], at least one."""
    examples: Floats | None
    """The direction of their sum."""


@dataclass(frozen=True, slots=True)
class ToolScores:
    """How well each tool of an index fits a query. Arrays of [tools]."""

    total: Floats64
    cosine: Floats64
    """Cosine with the description or the examples, whichever is nearer: the published threshold's score."""
    description: Floats64
    examples: Floats64
    """NaN for a tool without."""
    words: Floats64


class ToolIndex:
    """Immutable; used from one thread or many."""

    def __init__(self, tools: Sequence[ToolDefinition], profiles: Sequence[ToolProfile]) -> None:
        """`profiles` are those of `tools`, one each, all made by one encoder."""
        self.tools = tuple(tools)
        self.place = {tool.name: number for number, tool in enumerate(self.tools)}
        self.size_bytes = definitions_size_bytes(tool.definition for tool in self.tools)
        """Bytes of all definitions."""
        self._lexical = Bm25Index([tool_words(tool) for tool in tools])
        if not profiles:
            return
        self._descriptions = np.stack([profile.description for profile in profiles])
        self._names = np.stack([profile.name for profile in profiles])
        self._clauses = np.concatenate([profile.clauses for profile in profiles])
        counts = [len(profile.clauses) for profile in profiles]
        self._first_clause = np.cumsum([0, *counts[:-1]])
        self._without = np.array([profile.examples is None for profile in profiles])
        nothing = np.zeros_like(profiles[0].description)
        self._examples = np.stack(
            [nothing if profile.examples is None else profile.examples for profile in profiles]
        )

    def __len__(self) -> int:
        return len(self.tools)

    def score_tools(self, vector: Floats, text: str) -> ToolScores:
        """Return every tool's score for a query, given as its vector of unit length and its text.

        own   = (description + 0.4 name + 0.6 best clause) / 2            cosines
        dense = own, or 0.3 own + 0.7 examples where there are any
        score = 0.6 dense + 0.4 words                                     words: BM25, 0 to 1

        The weights were chosen on half of MetaTool (`tools/evaluate.py tools`); around them figures are flat.
        """
        if not self.tools:
            nothing = np.zeros(0)
            return ToolScores(nothing, nothing, nothing, nothing, nothing)
        description = (self._descriptions @ vector).astype(np.float64)
        clause = np.maximum.reduceat(self._clauses @ vector, self._first_clause)
        own = (description + NAME * (self._names @ vector) + CLAUSE * clause) / (1 + NAME + CLAUSE)
        examples = np.where(self._without, np.nan, self._examples @ vector)
        dense = np.where(self._without, own, (1 - EXAMPLES) * own + EXAMPLES * examples)
        words = self._lexical.score_query(count_words(text))
        return ToolScores(
            total=(1 - WORDS) * dense + WORDS * words,
            cosine=np.fmax(description, examples),
            description=description,
            examples=examples,
            words=words,
        )


@dataclass(frozen=True, slots=True)
class ToolTexts:
    """The texts of a tool that are encoded."""

    description: str
    name: str
    clauses: tuple[str, ...]
    examples: tuple[str, ...]

    def __iter__(self) -> Iterator[str]:
        yield from (self.description, self.name, *self.clauses, *self.examples)


def tool_texts(tool: ToolDefinition) -> ToolTexts:
    """Return what of `tool` is encoded; without a description it is described by its name."""
    name = split_name(tool.name)
    description = tool.description.strip() or name
    parts = (part.strip() for part in _CLAUSE_ENDS.split(description))
    clauses = tuple(part for part in parts if len(part) >= _MIN_CLAUSE_CHARS)[:_MAX_CLAUSES]
    return ToolTexts(description, name, clauses or (description,), tool.examples)


def build_profile(texts: ToolTexts, vectors: Mapping[str, Floats]) -> ToolProfile:
    """Return the profile, given the vector of each of the texts."""
    examples = [vectors[text] for text in texts.examples]
    return ToolProfile(
        description=vectors[texts.description],
        name=vectors[texts.name],
        clauses=np.stack([vectors[text] for text in texts.clauses]),
        examples=_mean_direction(examples) if examples else None,
    )


def _mean_direction(vectors: Sequence[Floats]) -> Floats:
    total: Floats = np.sum(vectors, axis=0)
    return total / np.float32(max(float(np.linalg.norm(total)), 1e-12))


def tool_words(tool: ToolDefinition) -> Counter[str]:
    """Count the words of its name, description, tags and examples."""
    return count_words(" ".join([split_name(tool.name), tool.description, *tool.tags, *tool.examples]))

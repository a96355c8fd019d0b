"""Labelled texts in the shapes in which applications send them, and how well they are then read.

The shapes and their sources are in data/shapes.toml, the passages around questions in data/passages.jsonl.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
SHAPES = DATA / "shapes.toml"
BARE = "bare"


@dataclass(frozen=True, slots=True)
class Shape:
    """A form of request around a question."""

    name: str
    source: str
    messages: tuple[Mapping[str, str], ...]
    languages: frozenset[str]
    """Of the questions it is used with."""

    def wrap_question(self, question: str, context: str) -> dict[str, Any]:
        """Return the body of a chat completion that asks `question`, where need be beside `context`."""
        parts = {
            "question": question,
            "context": context,
            "json": json.dumps(question, ensure_ascii=False),
            "commented": "\n".join(f"# {line}" for line in question.splitlines()),
        }
        messages = [
            {"role": each["role"], "content": _fill_template(each["content"], parts)}
            for each in self.messages
        ]
        return {"model": "auto", "messages": messages}


@dataclass(frozen=True, slots=True)
class Share:
    """A share of rows that were right, with its 95 % interval (Wilson 1927)."""

    right: int
    rows: int

    @property
    def value(self) -> float:
        """The share itself; 0 of no rows."""
        return self.right / self.rows if self.rows else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The interval's ends."""
        if not self.rows:
            return 0.0, 1.0
        z2, share = 1.96**2, self.value
        middle = (share + z2 / (2 * self.rows)) / (1 + z2 / self.rows)
        half = 1.96 / (1 + z2 / self.rows)
        half *= math.sqrt(share * (1 - share) / self.rows + z2 / (4 * self.rows**2))
        return middle - half, middle + half


@cache
def shapes(file: Path = SHAPES) -> tuple[Shape, ...]:
    """Return the shapes in `file`, the bare question first."""
    table = tomllib.loads(file.read_text("utf-8"))["shape"]
    bare = Shape(BARE, "", ({"role": "user", "content": "{question}"},), frozenset({"en", "zh"}))
    return (
        bare,
        *(
            Shape(
                row["name"],
                row["source"],
                tuple(row["messages"]),
                frozenset(row.get("for", ["en", "zh"])),
            )
            for row in table
        ),
    )


@cache
def passages(language: str) -> tuple[str, ...]:
    """Return texts to stand beside a question in `language`."""
    rows = map(json.loads, (DATA / "passages.jsonl").read_text("utf-8").splitlines())
    return tuple(row["text"] for row in rows if row["language"] == language)


def language_of(text: str) -> str:
    """Return `zh` where a tenth of the characters are Chinese, else `en`."""
    return "zh" if sum("\u4e00" <= char <= "\u9fff" for char in text) * 10 >= len(text) else "en"


def evaluate_wrapped(
    rows: Sequence[tuple[str, str]], is_right: Callable[[Mapping[str, Any], str], bool], file: Path = SHAPES
) -> dict[str, Share]:
    """Return how many of `rows` (question, label) are read rightly in each shape of `file`; `is_right` tells.

    Passages follow one another, so that a row has the same one in every shape.
    """
    found = {}
    for shape in shapes(file):
        asked = [
            (number, text, label)
            for number, (text, label) in enumerate(rows)
            if language_of(text) in shape.languages
        ]
        right = 0
        for number, text, label in asked:
            beside = passages(language_of(text))
            right += is_right(shape.wrap_question(text, beside[number % len(beside)]), label)
        found[shape.name] = Share(right, len(asked))
    return found


def _fill_template(template: str, parts: Mapping[str, str]) -> str:
    """Put each part in its place, once: parts may hold braces themselves."""
    pieces = template.split("{")
    filled = pieces[0]
    for piece in pieces[1:]:
        name, closed, rest = piece.partition("}")
        filled += parts[name] + rest if closed and name in parts else "{" + piece
    return filled

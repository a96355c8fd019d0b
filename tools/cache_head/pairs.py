"""Labelled pairs to train on: written for this project, multiplied by templates, and from permitted sets."""

import gzip
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WRITTEN = Path(__file__).parents[1] / "cache_data"
HELD_OUT_EVERY = 5
"""One group in so many is never trained on; it ships as what `python tools/evaluate.py cache` measures on."""
LONGEST = 400
"""Characters of a row of the permitted sets."""

_FRAMES = (
    "How do I {}?", "How can I {}?", "How do you {}?", "How should I {}?", "What is the best way to {}?",
    "What are the steps to {}?", "How to {}?", "What is the easiest way to {}?", "What can I do to {}?",
    "What should I do to {}?", "How does one {}?", "What are some ways to {}?", "How can you {}?",
    "Is there a way to {}?", "What are good ways to {}?",
)  # fmt: skip
_FRAMED = re.compile(
    r"^(?:How (?:do|can|should) (?:I|you|we)|What is the (?:best|easiest|right|fastest) way to|"
    r"What are (?:some |the |good |effective )?(?:ways|steps|tips) to|How to|"
    r"What (?:can|should) I do to) (.+?)\?$"
)
_NO_TASK = frozenset(("if", "when", "after", "so"))
_SCOPES = (
    "in Germany", "in Japan", "in New York", "for children", "for beginners", "in winter", "without money",
    "at work", "for a company", "at school", "in the 19th century", "before surgery", "on a Mac",
    "with one hand", "in French", "as a student", "under 18", "while driving", "after a divorce",
    "with Python",
)  # fmt: skip


@dataclass(slots=True, frozen=True)
class Group:
    """Questions that one answer serves, and near ones that it does not."""

    number: int
    same: tuple[str, ...]
    near: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Row:
    """A pair to learn from."""

    one: str
    other: str
    same: bool
    source: str
    group: int
    """Pairs of one group stay on one side of a split; -1 without."""
    weight: float = 1.0


def read_groups(language: str) -> list[Group]:
    """`en` or `zh`."""
    groups: list[Group] = []
    for line in (WRITTEN / f"groups_{language}.txt").read_text(encoding="utf-8").splitlines():
        texts = tuple(line[2:].split(" | "))
        if line.startswith("="):
            groups.append(Group(len(groups), texts, ()))
        elif line.startswith("!"):
            last = groups.pop()
            groups.append(Group(last.number, last.same, last.near + texts))
    return groups


def is_held_out(group: Group) -> bool:
    """Whether it is for evaluation alone."""
    return group.number % HELD_OUT_EVERY == 0


def written_pairs(groups: list[Group]) -> list[Row]:
    """All pairs within groups: of `same` with each other, and with each of `near`."""
    rows = []
    for group in groups:
        for at, one in enumerate(group.same):
            rows += [Row(one, other, True, "same", group.number) for other in group.same[at + 1 :]]
            rows += [Row(one, other, False, "near", group.number) for other in group.near]
    return rows


def reframed_pairs(groups: list[Group]) -> list[Row]:
    """Pairs asked in other frames (`How do I …`, `What is the best way to …`), or with a scope added."""
    draw, rows = random.Random(5), []
    for group in groups:
        number = group.number
        for text in group.same:
            if (asked := _reframe(text, draw)) is not None:
                other = draw.choice(group.same)
                if asked not in (text, other):
                    rows.append(Row(asked, other, True, "same, reframed", number, 0.5))
                rows.append(Row(asked, draw.choice(group.near), False, "near, reframed", number, 0.5))
        for text in group.near:
            if (asked := _reframe(text, draw)) is not None:
                rows.append(Row(draw.choice(group.same), asked, False, "near, reframed", number, 0.5))
                if asked != text:
                    rows.append(Row(text, asked, True, "same, only reframed", number, 0.25))
        scoped = f"{draw.choice(group.same).rstrip('?.')} {draw.choice(_SCOPES)}?"
        rows.append(Row(draw.choice(group.same), scoped, False, "scope added", number, 0.5))
    return rows


def swapped_pairs(groups: list[Group], related: Callable[[str], list[str]]) -> list[Row]:
    """Pairs with one word exchanged; `related`: words that mean something near a word, not the same."""
    draw, rows = random.Random(9), []
    for group in groups:
        for _ in range(5):
            one, other = draw.choice(group.same), draw.choice(group.same)
            word = draw.choice(re.findall(r"\b[a-z]{4,}\b", other) or [""])
            if word and (instead := related(word)):
                swapped = re.sub(rf"\b{word}\b", draw.choice(instead), other)
                rows.append(Row(one, swapped, False, "word swapped", group.number, 0.3))
    return rows


def mock_pairs(data: Path, vector: Callable[[str], NDArray[np.float32]]) -> list[Row]:
    """GPTCache's mock data: each sentence with its paraphrase, and with the nearest paraphrase of another."""
    given = read_rows(data / "paraphrase" / "gptcache_mock_data.jsonl.gz")
    pairs = [(row["origin"], row["similar"]) for row in given]
    cosines = np.stack([vector(one) for one, _ in pairs]) @ np.stack([vector(other) for _, other in pairs]).T
    np.fill_diagonal(cosines, -1)
    rows = [Row(one, other, True, "mock data", -1, 0.3) for one, other in pairs]
    near = cosines.argmax(axis=1)
    return rows + [
        Row(one, pairs[at][1], False, "mock data", -1, 0.3) for (one, _), at in zip(pairs, near, strict=True)
    ]


def nearest_pairs(
    data: Path, vector: Callable[[str], NDArray[np.float32]], *, sample: int = 6000, most: int = 600
) -> list[Row]:
    """Nearest neighbours of another intent or tool. Intents overlap, so they weigh little."""
    rows: list[Row] = []
    for name, text, label in (
        ("routing/banking77", "text", "intent"),
        ("routing/clinc150", "text", "intent"),
        ("tools/metatool_single", "query", "tool"),
    ):
        given = [(row[text][:LONGEST], row[label]) for row in read_rows(data / f"{name}.jsonl.gz")]
        given = [given[at] for at in np.random.default_rng(3).permutation(len(given))[:sample]]
        vectors, labels = (
            np.stack([vector(text) for text, _ in given]),
            np.array([label for _, label in given]),
        )
        cosines = vectors @ vectors.T
        cosines[labels[:, None] == labels[None, :]] = -1
        near = cosines.argmax(axis=1)
        found = [(at, other) for at, other in enumerate(near) if at < other and cosines[at, other] >= 0.7]
        rows += [Row(given[at][0], given[other][0], False, name, -1, 0.25) for at, other in found[:most]]
    return rows


def read_rows(path: Path) -> list[dict[str, str]]:
    """Gzipped JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _reframe(text: str, draw: random.Random) -> str | None:
    found = _FRAMED.match(text)
    if found is None or found[1].split()[0] in _NO_TASK:
        return None
    return draw.choice(_FRAMES).format(found[1])

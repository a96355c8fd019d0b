"""How often the semantic cache is right, on labelled pairs of questions: `python tools/evaluate.py cache`.

A pair is served where the cosine reaches the threshold and the verifier agrees. Recall is the share of pairs
with one answer that are served, false hits the share of pairs with two.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radixway.core.config import SemanticCacheConfig
from radixway.semantics.cache import Verify, min_similarity
from radixway.semantics.cache.ngram_vectors import ngram_vector
from radixway.semantics.cache.verifier.language import is_latin
from radixway.semantics.encoders import TextEncoder

_DATA = Path(__file__).parent / "data"
PAIRS, MUST_HIT, MUST_MISS = (
    _DATA / f"cache_{name}" for name in ("pairs.jsonl", "must_hit.txt", "must_miss.txt")
)
THRESHOLDS = (0.80, 0.85, 0.90, 0.95)

_LAYOUTS = (
    ("one", "other", "same"),
    ("a", "b", "label"),
    ("question1", "question2", "is_duplicate"),
    ("origin", "similar", None),
)
"""Names of the two texts and of the label; without one every pair has one answer."""


class NotPairs(Exception):
    """A file that holds no labelled pairs; the text names it and the line."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions, and whether one answer does for both."""

    one: str
    other: str
    same: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair as the cache sees it."""

    pair: Pair
    cosine: float
    reason: str
    """`same`, or why the verifier told them apart."""
    likelihood: float
    """That one answer does, as the verifier has it; 0 where a rule spoke."""

    def is_near(self, threshold: float) -> bool:
        """Whether the cosine reaches the threshold; texts compared by characters have one of their own."""
        return self.cosine >= min_similarity(SemanticCacheConfig(), self.pair.one, threshold)

    def is_served(self, threshold: float) -> bool:
        """Whether the answer to the one would be given for the other."""
        return self.reason == "same" and self.is_near(threshold)


@dataclass(frozen=True, slots=True)
class Point:
    """What a threshold does. None where there are no pairs to say it of."""

    threshold: float
    recall: float | None
    false_hits: float | None
    precision: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """One way of deciding, over thresholds of the cosine."""

    name: str
    points: tuple[Point, ...]
    auc: float | None
    """Area under the curve of its own score over all pairs; None without pairs of both kinds."""


@dataclass(frozen=True, slots=True)
class ListFigures:
    """A list of pairs that must all be hit, or all be missed."""

    name: str
    pairs: int
    hits: int
    hits_by_cosine: int


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """All that is measured of one file."""

    same: int
    different: int
    curves: tuple[Curve, ...]
    refused_same: dict[str, int]
    """Pairs with one answer near enough at the default threshold, by the reason that lost them."""
    refused_different: dict[str, int]


def read_pairs(path: Path) -> list[Pair]:
    """JSON lines, gzipped or not, in any of `_LAYOUTS`. Raises NotPairs."""
    opened: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    pairs = []
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    pairs.append(_pair(line, f"{path}, line {number}"))
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise NotPairs(f"{path} cannot be read: {error}") from None
    if not pairs:
        raise NotPairs(f"{path} holds no pairs")
    return pairs


def read_list(path: Path, *, same: bool) -> list[Pair]:
    """Lines `one | other`; those that begin with # are remarks."""
    lines = path.read_text(encoding="utf-8").splitlines()
    split = (line.split(" | ") for line in lines if line and not line.startswith("#"))
    return [Pair(one, other, same) for one, other in split]


def judge(pairs: Iterable[Pair], encoder: TextEncoder, verify: Verify) -> list[Judged]:
    """Each pair by the code that runs in the gateway; every text is read once."""
    known: dict[str, NDArray[np.float32]] = {}

    def vector(text: str) -> NDArray[np.float32]:
        if text not in known:
            known[text] = encoder.encode([text])[0].vector if is_latin(text) else ngram_vector(text)
        return known[text]

    judged = []
    for pair in pairs:
        alike = is_latin(pair.one) == is_latin(pair.other)
        cosine = min(float(vector(pair.one) @ vector(pair.other)), 1.0) if alike else 0.0
        verdict = verify(pair.one, pair.other, cosine)
        judged.append(Judged(pair, cosine, verdict.reason, verdict.likelihood))
    return judged


def figures(judged: Sequence[Judged], thresholds: Sequence[float] = THRESHOLDS) -> CacheFigures:
    """Cosine alone, and with the verifier."""
    near = [each for each in judged if each.is_near(0.85) and each.reason != "same"]
    return CacheFigures(
        same=sum(each.pair.same for each in judged),
        different=sum(not each.pair.same for each in judged),
        curves=(
            _curve("cosine alone", judged, thresholds, Judged.is_near, lambda each: each.cosine),
            _curve("with the verifier", judged, thresholds, Judged.is_served, lambda each: each.likelihood),
        ),
        refused_same=dict(Counter(each.reason for each in near if each.pair.same).most_common()),
        refused_different=dict(Counter(each.reason for each in near if not each.pair.same).most_common()),
    )


def list_figures(name: str, judged: Sequence[Judged], threshold: float = 0.85) -> ListFigures:
    """How many of a list's pairs are served."""
    return ListFigures(
        name,
        len(judged),
        sum(each.is_served(threshold) for each in judged),
        sum(each.is_near(threshold) for each in judged),
    )


def trails(judged: Sequence[Judged]) -> list[tuple[str, list[float], list[float]]]:
    """For a plot: names, shares of false hits and recalls along ever lower demands. Raises NotPairs."""
    ways: tuple[tuple[str, Callable[[Judged], float]], ...] = (
        ("cosine alone", lambda each: each.cosine),
        ("verifier, along the cosine", lambda each: each.cosine if each.reason == "same" else -1.0),
        ("verifier, along its likelihood", lambda each: each.likelihood or -1.0),
    )
    same = np.array([each.pair.same for each in judged], dtype=bool)
    if same.all() or not same.any():
        raise NotPairs("a curve needs pairs with one answer and pairs with two")
    drawn = []
    for name, score in ways:
        scores = np.array([score(each) for each in judged])
        order = np.argsort(-scores)[: int((scores >= 0).sum())]
        false_hits, recall = np.cumsum(~same[order]) / (~same).sum(), np.cumsum(same[order]) / same.sum()
        drawn.append((name, false_hits.tolist(), recall.tolist()))
    return drawn


def _curve(
    name: str,
    judged: Sequence[Judged],
    thresholds: Sequence[float],
    hit: Callable[[Judged, float], bool],
    score: Callable[[Judged], float],
) -> Curve:
    points = []
    for threshold in thresholds:
        hits = Counter(each.pair.same for each in judged if hit(each, threshold))
        same = sum(each.pair.same for each in judged)
        points.append(
            Point(
                threshold,
                _share(hits[True], same),
                _share(hits[False], len(judged) - same),
                _share(hits[True], hits.total()),
            )
        )
    return Curve(name, tuple(points), _area([(score(each), each.pair.same) for each in judged]))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _area(scored: list[tuple[float, bool]]) -> float | None:
    """Chance that a pair with one answer scores above one with two; ties count half (Mann-Whitney)."""
    values = np.array([value for value, _ in scored])
    same = np.array([kind for _, kind in scored], dtype=bool)
    if same.all() or not same.any():
        return None
    others = np.sort(values[~same])
    below = np.searchsorted(others, values[same], "left") + np.searchsorted(others, values[same], "right")
    return float(below.mean() / 2 / len(others))


def _pair(line: str, where: str) -> Pair:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise NotPairs(f"{where}: no JSON: {error}") from None
    for one, other, label in _LAYOUTS:
        if not (isinstance(row, dict) and isinstance(row.get(one), str) and isinstance(row.get(other), str)):
            continue
        same = True if label is None else row.get(label)
        if not isinstance(same, int) or same not in (0, 1):
            raise NotPairs(f"{where}: {label} is {same!r}, not true or false")
        return Pair(row[one], row[other], bool(same))
    raise NotPairs(
        f"{where}: neither one and other, a and b, question1 and question2, nor origin and similar"
    )

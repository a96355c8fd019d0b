"""Tables of correctness: questions, and which models answered them rightly."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.grouping import DisjointSets
from evaluation.lines import numbered_lines
from radixway.semantics.encoders.base import Floats

SAMPLE = Path(__file__).parents[1] / "data" / "routing.jsonl.gz"
"""What ships: of MMLU-Pro the questions that no shipped head was trained on, samples of MMLU and GSM8K."""

ALIKE = 0.9
"""Cosine of two questions' vectors above which they stand on one side of every split."""
_ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Table:
    """One set of questions."""

    name: str
    questions: tuple[str, ...]
    categories: tuple[str, ...]
    """The true ones; empty where they are not known."""
    models: tuple[str, ...]
    right: Floats
    """[questions, models]: 1 right, 0 wrong, NaN where the model was not asked."""

    def of(self, models: tuple[str, ...]) -> Floats:
        """[questions, models] of these models. Raises ValueError for one that there is not."""
        return self.right[:, [self.models.index(model) for model in models]]


def read_tables(path: Path) -> dict[str, Table]:
    """By name, from a JSONL file (gzipped or not), or from a folder laid out as the data's is.

    A row of a file: `question`, `correct` {model: 0 or 1}, perhaps `category` and `set`, the table's name.
    Raises ValueError that names file and line, OSError.
    """
    rows = _folder(path) if path.is_dir() else _file(path)
    sets: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        sets.setdefault(row["set"], []).append(row)
    if not sets:
        raise ValueError(f"{path} has no rows")
    return {name: _table(name, rows) for name, rows in sets.items()}


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    models = tuple(dict.fromkeys(model for row in rows for model in row["correct"]))
    right = [[row["correct"].get(model, np.nan) for model in models] for row in rows]
    return Table(
        name=name,
        questions=tuple(row["question"] for row in rows),
        categories=tuple(row.get("category", "") for row in rows),
        models=models,
        right=np.array(right, np.float32),
    )


def _file(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not JSON: {error}") from None
        problem = _problem(row)
        if problem:
            raise ValueError(f"{path}, line {number}: {problem}")
        yield {"set": path.name.split(".")[0], **row}


def _problem(row: Any) -> str | None:
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        return "needs a string in `question`"
    correct = row.get("correct")
    if not isinstance(correct, dict) or not all(value in (0, 1) for value in correct.values()):
        return "needs `correct`, an object of models with 0 or 1"
    if not all(isinstance(row.get(key, ""), str) for key in ("category", "set")):
        return "`category` and `set` are strings"
    return None


def _folder(path: Path) -> Iterator[dict[str, Any]]:
    """MMLU-Pro's questions joined with their models' correctness, MMLU and GSM8K as RouteLLM has them."""
    correct = dict(_by_question(path / "routing" / "mmlu_pro_model_correctness.csv.gz"))
    for row in map(json.loads, _lines(path / "domain" / "mmlu_pro_test.jsonl.gz")):
        given = correct.get(str(row["question_id"]))
        if given is not None:
            question, category = row["question"], row["category"]
            yield {"set": "mmlu_pro", "question": question, "category": category, "correct": given}
    for name in ("mmlu", "gsm8k"):
        for row in map(json.loads, _lines(path / "routing" / f"routellm_{name}_correctness.jsonl.gz")):
            question = row.get("question") or row["prompt"]
            both = {model: row[model] for model in ("mixtral_8x7b", "gpt4")}
            yield {
                "set": name,
                "question": question,
                "category": row.get("category", "math"),
                "correct": both,
            }


def _by_question(path: Path) -> Iterator[tuple[str, Mapping[str, int]]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row.pop("question_id")
            row.pop("category")
            yield name, {model: int(float(said)) for model, said in row.items() if said}


def _lines(path: Path) -> Iterator[str]:
    return (line for _, line in numbered_lines(path))


def near_duplicates(vectors: Floats) -> NDArray[np.int64]:
    """[rows]: the number of each row's group; rows nearer than `ALIKE` share one. `vectors`: unit length."""
    sets = DisjointSets(len(vectors))
    for begin in range(0, len(vectors), _ROWS_AT_ONCE):
        near = np.argwhere(vectors[begin : begin + _ROWS_AT_ONCE] @ vectors.T > ALIKE)
        for one, other in near:
            sets.join(int(one) + begin, int(other))
    _, groups = np.unique([sets.root(at) for at in range(len(vectors))], return_inverse=True)
    return groups.astype(np.int64)


def split(groups: NDArray[np.int64], seed: int, train_share: float) -> NDArray[np.bool_]:
    """[rows]: whether each is trained on; whole groups, about `train_share` of them."""
    count = int(groups.max()) + 1
    order = np.random.default_rng(seed).permutation(count)
    chosen: NDArray[np.bool_] = (order < int(train_share * count))[groups]
    return chosen

"""How well a domain head tells the fourteen domains apart, set by set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.lines import numbered_lines
from evaluation.scores import Scores, score
from radixway.semantics.encoders import TextEncoder
from radixway.semantics.encoders.heads.domain_head import DomainHead, DomainReading

ROWS = Path(__file__).parent / "data" / "domain.jsonl"
"""Everyday prompts in English and Chinese that nothing was trained on, written for this project:
tools/domain_data/fresh_*.txt."""


@dataclass(slots=True, frozen=True)
class LabelledText:
    """A text whose domain is known."""

    text: str
    label: str
    set: str
    """Figures are told for each set apart."""


@dataclass(slots=True, frozen=True)
class SetFigures:
    """One set, read."""

    scores: Scores
    readings: tuple[tuple[str, DomainReading], ...]
    """True label and reading of each row, in the file's order."""


def read_rows(path: Path) -> list[LabelledText]:
    """Rows of a JSONL file, gzipped or not: `question` (or `text`), `category` (or `label`), perhaps `set`.

    Rows without `set` make one that is named after the file. Raises ValueError that names the line.
    """
    rows = []
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
            text, label = row.get("question", row.get("text")), row.get("category", row.get("label"))
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{path}, line {number}: not a JSON object: {error}") from None
        if not isinstance(text, str) or not isinstance(label, str):
            raise ValueError(f"{path}, line {number}: needs strings in `question` and `category`")
        rows.append(LabelledText(text, label, str(row.get("set", path.name.split(".")[0]))))
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


def evaluate_domain(
    head: DomainHead, encoder: TextEncoder, rows: Sequence[LabelledText]
) -> dict[str, SetFigures]:
    """Figures by set, in the order in which sets first occur.

    Raises ValueError for a label that the head does not know.
    """
    if unknown := sorted({row.label for row in rows} - set(head.labels)):
        raise ValueError(f"the head knows no {', '.join(unknown)}; its labels are {', '.join(head.labels)}")
    read: dict[str, list[tuple[str, DomainReading]]] = {}
    for row in rows:
        encoding = encoder.encode([row.text])[0]
        read.setdefault(row.set, []).append((row.label, head.classify_domain(row.text, encoding)))
    return {
        name: SetFigures(score([label for label, _ in pairs], [each for _, each in pairs]), tuple(pairs))
        for name, pairs in read.items()
    }

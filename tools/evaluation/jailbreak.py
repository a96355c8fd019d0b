"""How well the guard tells attacks on the prompt from other texts, family by family."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from evaluation.lines import numbered_lines
from radixway.semantics.guard.jailbreak import DefaultAttackJudge
from radixway.semantics.guard.passages import TextPassage

ROWS = Path(__file__).parent / "data" / "jailbreak.jsonl"
"""The red team's texts (tests/data/guard): every disguise, with harmless twins. No head was trained on them,
but wordings were made to know some."""

Judged = Literal["user", "tool", "document"]
_ATTACKS = frozenset({"1", "true", "attack", "jailbreak", "injection", "indirect_injection", "unsafe"})
_HARMLESS = frozenset({"0", "false", "benign", "harmless", "safe"})


@dataclass(slots=True, frozen=True)
class LabelledText:
    """A text of which it is known whether it attacks."""

    text: str
    is_attack: bool
    family: str
    """Figures are told for each family apart."""
    speaker: Judged = "user"


@dataclass(slots=True, frozen=True)
class FamilyFigures:
    """One family, judged."""

    is_attack: bool
    risks: tuple[float, ...]
    """In the file's order."""

    def flagged(self, threshold: float) -> float:
        """Share of rows taken for attacks: recall of an attacks' family, false positives of another."""
        return sum(risk >= threshold for risk in self.risks) / len(self.risks)


@dataclass(slots=True, frozen=True)
class Figures:
    """All families."""

    families: dict[str, FamilyFigures]
    """By name, in the order in which they first occur; a name of both kinds is two of them."""
    threshold: float

    @property
    def recall(self) -> float | None:
        """Share of attacks that were found; None where there are none."""
        return self._flagged(attacks=True, threshold=self.threshold)

    @property
    def false_positives(self) -> float | None:
        """Share of harmless rows that were taken for attacks; None where there are none."""
        return self._flagged(attacks=False, threshold=self.threshold)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; None unless there are rows of both kinds."""
        if self.recall is None or self.false_positives is None:
            return None
        attacks, harmless = self._risks(attacks=True), self._risks(attacks=False)
        right = sum(risk >= self.threshold for risk in attacks)
        wrong = sum(risk >= self.threshold for risk in harmless)
        return 2 * right / (len(attacks) + right + wrong)

    def curve(self, steps: int = 50) -> list[tuple[float, float | None, float | None]]:
        """Threshold, recall and false positives, for thresholds from 0 to 1."""
        thresholds = [step / steps for step in range(steps + 1)]
        return [
            (each, self._flagged(attacks=True, threshold=each), self._flagged(attacks=False, threshold=each))
            for each in thresholds
        ]

    def _risks(self, *, attacks: bool) -> list[float]:
        return [risk for each in self.families.values() if each.is_attack == attacks for risk in each.risks]

    def _flagged(self, *, attacks: bool, threshold: float) -> float | None:
        risks = self._risks(attacks=attacks)
        return sum(risk >= threshold for risk in risks) / len(risks) if risks else None


def read_rows(path: Path) -> list[LabelledText]:
    """Rows of a JSONL file, gzipped or not: `text`, `label` (1 or `attack`, 0 or `benign`), perhaps `family`
    and `speaker`.

    Rows without `family` make one that is named after the file. Raises ValueError that names the line.
    """
    rows = []
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
            text, label = row["text"], str(row["label"]).lower()
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{where}: needs an object with `text` and `label`: {error}") from None
        if not isinstance(text, str) or label not in _ATTACKS | _HARMLESS:
            raise ValueError(f"{where}: `text` must be a string, `label` 1 or 0")
        speaker = row.get("speaker", "user")
        if speaker not in get_args(Judged):
            raise ValueError(f"{where}: `speaker` must be one of {', '.join(get_args(Judged))}")
        family = str(row.get("family") or path.name.split(".")[0])
        rows.append(LabelledText(text, label in _ATTACKS, family, speaker))
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


async def evaluate_jailbreak(judge: DefaultAttackJudge, rows: Sequence[LabelledText]) -> Figures:
    """Judge every row alone, as its speaker said it. Raises GuardUnavailable."""
    risks: dict[str, list[float]] = {}
    kinds: dict[str, bool] = {}
    for row in rows:
        name = row.family if kinds.get(row.family, row.is_attack) == row.is_attack else _other(row)
        kinds[name] = row.is_attack
        (attack,) = await judge.judge_passages(
            [TextPassage(row.text, row.speaker, ("messages", 0, "content"))]
        )
        risks.setdefault(name, []).append(attack.risk)
    families = {name: FamilyFigures(kinds[name], tuple(each)) for name, each in risks.items()}
    return Figures(families, judge.threshold)


def _other(row: LabelledText) -> str:
    return f"{row.family} ({'attacks' if row.is_attack else 'harmless'})"

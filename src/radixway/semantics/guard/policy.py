"""Decides what is done, from findings and rules. Pure and synchronous."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from radixway.core.pipeline import AttackAssessment, PersonalDataSpan
from radixway.semantics.guard.incident import GuardFinding
from radixway.semantics.guard.passages import TextPassage, format_place
from radixway.semantics.guard.rulebook import JailbreakRules, PiiRules

if TYPE_CHECKING:
    from radixway.core.config.guard import PiiAction

_STRICTEST: tuple[PiiAction, ...] = ("block", "route", "redact", "mask", "report")
_EDITS = frozenset({"mask", "redact"})


@dataclass(frozen=True, slots=True)
class LocatedPersonalData:
    """Personal data, and the passage that it stands in."""

    passage: TextPassage
    found: PersonalDataSpan

    def as_finding(self) -> GuardFinding:
        """Return its type and place, without the text."""
        found, where = self.found, format_place(self.passage.place)
        return GuardFinding(found.type, where, found.begin, found.end, found.confidence)


@dataclass(frozen=True, slots=True)
class PiiVerdict:
    """The action on a request if a model is to answer it."""

    action: PiiAction | None
    """The strictest of what its types call for; None where the model may be shown all of it."""
    denied: frozenset[str] = frozenset()
    """Types that the model may not be shown."""
    masked: frozenset[str] = frozenset()
    """Those that are replaced by stars."""
    redacted: frozenset[str] = frozenset()
    """Those that are replaced by placeholders."""

    @property
    def edits(self) -> frozenset[str]:
        """Types that the model is not shown, though the request passes."""
        return self.masked | self.redacted


ALLOWED = PiiVerdict(None)


def filter_findings(found: Iterable[LocatedPersonalData], rules: PiiRules) -> list[LocatedPersonalData]:
    """Return those of `found` that `rules` look for and whose confidence suffices."""
    config = rules.config
    return [
        located
        for located in found
        if located.found.confidence >= config.thresholds.get(located.found.type, rules.threshold)
        and (not config.types or located.found.type in config.types)
    ]


def finding_types(found: Iterable[LocatedPersonalData]) -> frozenset[str]:
    """Return the types in `found`."""
    return frozenset(located.found.type for located in found)


def judge_pii(rules: PiiRules, model: str | None, types: frozenset[str]) -> PiiVerdict:
    """Judge a request that holds `types` if `model` is to answer it; None: not known yet which."""
    allowance = rules.allowance(model)
    denied = allowance.denied_types(types)
    if not denied:
        return ALLOWED
    wanted = {name: rules.action_on(name, allowance) for name in denied}
    action = next(action for action in _STRICTEST if action in wanted.values())
    if action not in _EDITS:
        return PiiVerdict(action, denied)
    return PiiVerdict(
        action,
        denied,
        frozenset(name for name, action in wanted.items() if action == "mask"),
        frozenset(name for name, action in wanted.items() if action == "redact"),
    )


@dataclass(frozen=True, slots=True)
class LocatedAttack:
    """An attack, and the passage that it stands in."""

    passage: TextPassage
    attack: AttackAssessment

    @property
    def kind(self) -> str:
        """The likeliest kind of attack, under its published name."""
        kinds = self.attack.kinds
        likeliest = max(kinds, key=kinds.__getitem__, default="jailbreak")
        return likeliest.strip().lower().replace(" ", "_").replace("-", "_")

    def as_finding(self) -> GuardFinding:
        """Return its type and place, without the text."""
        passage = self.passage
        return GuardFinding(self.kind, format_place(passage.place), 0, len(passage.text), self.attack.risk)


def worst_attack(judged: Sequence[LocatedAttack], rules: JailbreakRules) -> LocatedAttack | None:
    """Return the one of `judged` that is likeliest an attack, if `rules` count it as one."""
    worst = max(judged, key=lambda located: located.attack.risk, default=None)
    return worst if worst is not None and worst.attack.risk >= rules.threshold else None

"""Where the guard's findings come in as signals: attacks on the prompt, personal data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from radixway.config.semantic import SignalsSection
from radixway.pipeline import (
    Attack,
    AttackJudge,
    GuardFindings,
    GuardUnavailable,
    PersonalData,
    PersonalDataFinder,
)
from radixway.semantic.question import Question
from radixway.semantic.signals.base import Signal

GUARD_KINDS = ("jailbreak", "pii")


class GuardHook(Protocol):
    """Asks the guard. Without one, conditions on the kinds of `GUARD_KINDS` do not hold."""

    async def __call__(self, question: Question) -> GuardFindings:
        """What it found in the request of that question."""
        ...


class OfOneText:
    """A `GuardHook` where no request is on its way: for a text that is only asked about."""

    def __init__(self, finder: PersonalDataFinder, judge: AttackJudge) -> None:
        self._finder = finder
        self._judge = judge

    async def __call__(self, question: Question) -> GuardFindings:
        """Raises EncoderBusy."""
        text = question.whole or question.text
        found: Sequence[PersonalData] | None = None
        attacks: Sequence[Attack] | None = None
        with suppress(GuardUnavailable):
            found = await self._finder.find(text)
        with suppress(GuardUnavailable):
            attacks = [await self._judge.judge(text)]
        return GuardFindings(found, attacks, self._finder.threshold, self._judge.threshold)


def read_guard(found: GuardFindings, section: SignalsSection) -> Mapping[str, Sequence[Signal]]:
    """Signals by kind. Rules name them by what is found (`prompt_injection`, `EMAIL_ADDRESS`), or by the name
    of a signal of `section`, which has a threshold and types of its own.
    """
    return {
        "jailbreak": tuple(_attacks(found.attacks or (), found.jailbreak_threshold, section)),
        "pii": tuple(_personal_data(found.personal_data or (), found.pii_threshold, section)),
    }


def _personal_data(
    found: Iterable[PersonalData], threshold: float, section: SignalsSection
) -> Iterator[Signal]:
    surest: dict[str, float] = {}
    for each in found:
        surest[each.type] = max(surest.get(each.type, 0.0), each.confidence)
    for name, confidence in surest.items():
        yield Signal("pii", name, confidence, confidence >= threshold, confidence)
    for rule in section.pii:
        most = max((surest[each] for each in surest if each not in rule.pii_types_allowed), default=0.0)
        yield Signal("pii", rule.name, most, most >= rule.threshold, most)


def _attacks(attacks: Iterable[Attack], threshold: float, section: SignalsSection) -> Iterator[Signal]:
    surest: dict[str, float] = {}
    risk = 0.0
    for attack in attacks:
        risk = max(risk, attack.risk)
        for kind, share in attack.kinds.items():
            name = kind.lower().replace(" ", "_").replace("-", "_")
            surest[name] = max(surest.get(name, 0.0), share)
    for name, share in surest.items():
        yield Signal("jailbreak", name, share, share >= threshold, share)
    for rule in section.jailbreak:
        yield Signal("jailbreak", rule.name, risk, risk >= rule.threshold, risk)

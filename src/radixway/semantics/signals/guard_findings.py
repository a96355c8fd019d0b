"""Where the guard's findings come in as signals: attacks on the prompt, personal data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from radixway.core.config.semantic import SignalsConfig
from radixway.core.pipeline import (
    AttackAssessment,
    AttackJudge,
    GuardFindings,
    GuardUnavailableError,
    PersonalDataFinder,
    PersonalDataSpan,
)
from radixway.semantics.signals.base import SignalValue
from radixway.semantics.signals.question import RequestQuestion

GUARD_KINDS = ("jailbreak", "pii")


class GuardHook(Protocol):
    """Asks the guard. Without one, conditions on the kinds of `GUARD_KINDS` do not hold."""

    async def __call__(self, question: RequestQuestion) -> GuardFindings:
        """Return the findings in the request of that question."""
        ...


class SingleTextGuardHook:
    """A `GuardHook` where no request is on its way: for a text that is only asked about."""

    def __init__(self, finder: PersonalDataFinder, judge: AttackJudge) -> None:
        self._finder = finder
        self._judge = judge

    async def __call__(self, question: RequestQuestion) -> GuardFindings:
        """Raises EncoderBusyError."""
        text = question.whole or question.text
        found: Sequence[PersonalDataSpan] | None = None
        attacks: Sequence[AttackAssessment] | None = None
        with suppress(GuardUnavailableError):
            found = await self._finder.find(text)
        with suppress(GuardUnavailableError):
            attacks = [await self._judge.judge(text)]
        return GuardFindings(found, attacks, self._finder.threshold, self._judge.threshold)


def guard_signals(found: GuardFindings, section: SignalsConfig) -> Mapping[str, Sequence[SignalValue]]:
    """Signals by kind. Rules name them by what is found (`prompt_injection`, `EMAIL_ADDRESS`), or by the name
    of a signal of `section`, which has a threshold and types of its own.
    """
    return {
        "jailbreak": tuple(_attack_signals(found.attacks or (), found.jailbreak_threshold, section)),
        "pii": tuple(_personal_data_signals(found.personal_data or (), found.pii_threshold, section)),
    }


def _personal_data_signals(
    found: Iterable[PersonalDataSpan], threshold: float, section: SignalsConfig
) -> Iterator[SignalValue]:
    surest: dict[str, float] = {}
    for each in found:
        surest[each.type] = max(surest.get(each.type, 0.0), each.confidence)
    for name, confidence in surest.items():
        yield SignalValue("pii", name, confidence, confidence >= threshold, confidence)
    for rule in section.pii:
        highest = max((surest[each] for each in surest if each not in rule.pii_types_allowed), default=0.0)
        yield SignalValue("pii", rule.name, highest, highest >= rule.threshold, highest)


def _attack_signals(
    attacks: Iterable[AttackAssessment], threshold: float, section: SignalsConfig
) -> Iterator[SignalValue]:
    surest: dict[str, float] = {}
    risk = 0.0
    for attack in attacks:
        risk = max(risk, attack.risk)
        for kind, share in attack.kinds.items():
            name = kind.lower().replace(" ", "_").replace("-", "_")
            surest[name] = max(surest.get(name, 0.0), share)
    for name, share in surest.items():
        yield SignalValue("jailbreak", name, share, share >= threshold, share)
    for rule in section.jailbreak:
        yield SignalValue("jailbreak", rule.name, risk, risk >= rule.threshold, risk)

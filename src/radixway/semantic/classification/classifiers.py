"""Hugging Face classifiers as the guard's two questions, until a guard answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from radixway.pipeline import Attack, GuardUnavailable, PersonalData

if TYPE_CHECKING:
    from radixway.encoders.classifiers import SequenceReading, TokenReading
    from radixway.encoders.classifiers.on_use import ClassifierOnUse

_HARMLESS = frozenset({"benign", "safe", "normal", "legitimate", "no_jailbreak", "not_jailbreak", "none"})
"""What classifiers call a text that attacks nothing."""


class TokenClassifierFinder:
    """A `pipeline.PersonalDataFinder` over a token classifier."""

    def __init__(self, classifier: ClassifierOnUse[TokenReading], threshold: float) -> None:
        self.classifier = classifier
        self.threshold = threshold

    @property
    def types(self) -> tuple[str, ...]:
        """See `PersonalDataFinder`."""
        loaded = self.classifier.loaded
        return () if loaded is None else _types(loaded.labels)

    async def find(self, text: str) -> Sequence[PersonalData]:
        """See `PersonalDataFinder`."""
        from radixway.encoders import EncoderBusy, EncoderError

        try:
            reading = await self.classifier.read(text)
        except EncoderBusy:
            raise
        except EncoderError as error:
            raise GuardUnavailable(str(error)) from error
        return [
            PersonalData(span.label, span.begin, span.end, span.confidence) for span in reading.spans(0.0)
        ]


class SequenceClassifierJudge:
    """A `pipeline.AttackJudge` over a sequence classifier: the worst of a text's windows counts."""

    def __init__(self, classifier: ClassifierOnUse[SequenceReading], threshold: float) -> None:
        self.classifier = classifier
        self.threshold = threshold

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `AttackJudge`."""
        loaded = self.classifier.loaded
        return () if loaded is None else tuple(label for label in loaded.labels if not _is_harmless(label))

    async def judge(self, text: str) -> Attack:
        """See `AttackJudge`."""
        from radixway.encoders import EncoderBusy, EncoderError

        try:
            reading = await self.classifier.read(text)
        except EncoderBusy:
            raise
        except EncoderError as error:
            raise GuardUnavailable(str(error)) from error
        harmful = [index for index, label in enumerate(reading.labels) if not _is_harmless(label)]
        if len(harmful) in (0, len(reading.labels)):
            raise GuardUnavailable(
                f"{self.classifier.path}: of the labels {', '.join(reading.labels)} one must mean harmless "
                f"({', '.join(sorted(_HARMLESS))}), and another not"
            )
        risk = float(reading.windows[:, harmful].sum(axis=1).max())
        most = reading.most
        kinds = {reading.labels[index]: float(most[index]) for index in harmful}
        return Attack(min(risk, 1.0), kinds, parts=len(reading.windows))


def _is_harmless(label: str) -> bool:
    return label.lower().replace("-", "_").replace(" ", "_") in _HARMLESS


def _types(labels: Sequence[str]) -> tuple[str, ...]:
    """`B-PERSON`, `I-PERSON`, `O` → `PERSON`."""
    named = (label.removeprefix("B-").removeprefix("I-") for label in labels if label not in ("O", "NO_PII"))
    return tuple(dict.fromkeys(named))

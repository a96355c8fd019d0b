"""Classifiers of attacks by path, in the published order; one that is broken is passed over and logged."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from radixway.semantics.encoders import EncoderBusyError, EncoderError, EncoderService
from radixway.semantics.encoders.classifiers import (
    SequenceReading,
    discover_classifiers,
    load_sequence_classifier,
)
from radixway.semantics.encoders.classifiers.lazy_classifier import LazyClassifier
from radixway.semantics.guard.jailbreak.attack_reader import AttackReader, AttackReading

log = logging.getLogger(__name__)

PUBLISHED = (
    "lora_jailbreak_classifier_bert_model",
    "lora_jailbreak_classifier_roberta_model",
    "lora_jailbreak_classifier_modernbert_model",
    "jailbreak_classifier_modernbert-base_model",
)
"""Names of directories, the preferred first (published proposal, 4.1.4)."""

_HARMLESS_LABELS = "benign safe normal legitimate no_jailbreak not_jailbreak none harmless negative"
_HARMLESS = frozenset(_HARMLESS_LABELS.split())


def published_models(models: Path) -> list[Path]:
    """Directories in `models` that judge attacks: published names first, then others that look like it."""
    found = [models / name for name in PUBLISHED if (models / name).is_dir()]
    other = discover_classifiers(models).get("jailbreak")
    if other is not None and other.path not in found:
        found.append(other.path)
    return found


class UnusableLabelsError(EncoderError):
    """A classifier's labels do not say which of them mean an attack."""


class ClassifierReader(AttackReader):
    """Reads with the first of several classifiers that can be loaded, else another reader. Belongs to one
    event loop.
    """

    def __init__(
        self,
        encoders: EncoderService,
        paths: Sequence[Path],
        otherwise: AttackReader,
        mapping: Path | None = None,
    ) -> None:
        """`paths`: the classifiers. `mapping`: the labels of the first, where they do not lie beside it."""
        self._models: list[LazyClassifier[SequenceReading]] = [
            LazyClassifier(encoders, path, load_sequence_classifier, mapping if at == 0 else None)
            for at, path in enumerate(paths)
        ]
        self._otherwise = otherwise
        self._failures: dict[Path, str] = {}

    @property
    def attack_kinds(self) -> tuple[str, ...]:
        for model in self._models:
            if model.loaded is not None and model.path not in self._failures:
                return tuple(label for label in model.loaded.labels if not _is_harmless(label))
        return self._otherwise.attack_kinds

    async def read_attack(self, text: str, hits: Mapping[str, float]) -> AttackReading:
        for model in self._models:
            if model.path in self._failures:
                continue
            try:
                return _reading_from_labels(model.path, await model.classify_text(text))
            except EncoderBusyError:
                raise
            except EncoderError as error:
                if model.loaded is not None and not isinstance(error, UnusableLabelsError):
                    raise
                self._failures[model.path] = str(error)
                log.error("%s cannot judge attacks, using the next model: %s", model.path, error)
        return await self._otherwise.read_attack(text, hits)

    def describe(self) -> dict[str, object]:
        usable = [str(model.path) for model in self._models if model.path not in self._failures]
        failed = {str(path): why for path, why in self._failures.items()}
        state: dict[str, object] = {"reads": usable[0]} if usable else dict(self._otherwise.describe())
        return state | ({"skipped": failed} if failed else {})


def _reading_from_labels(path: Path, reading: SequenceReading) -> AttackReading:
    harmful = [index for index, label in enumerate(reading.labels) if not _is_harmless(label)]
    if len(harmful) in (0, len(reading.labels)):
        raise UnusableLabelsError(
            f"{path}: of the labels {', '.join(reading.labels)} one must mean harmless "
            f"({', '.join(sorted(_HARMLESS))}), and another not"
        )
    risk = float(reading.windows[:, harmful].sum(axis=1).max())
    highest = reading.max_probabilities
    kinds = {reading.labels[index]: float(highest[index]) for index in harmful}
    return AttackReading(min(risk, 1.0), kinds, len(reading.windows))


def _is_harmless(label: str) -> bool:
    return label.lower().replace("-", "_").replace(" ", "_") in _HARMLESS

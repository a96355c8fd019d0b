"""Classifiers of attacks by path, in the published order; one that is broken is passed over, and told."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from radixway.encoders import EncoderBusy, EncoderError, EncoderService
from radixway.encoders.classifiers import SequenceReading, discover, load_sequence_classifier
from radixway.encoders.classifiers.on_use import ClassifierOnUse
from radixway.guard.jailbreak.reading import Reader, Reading

log = logging.getLogger(__name__)

PUBLISHED = (
    "lora_jailbreak_classifier_bert_model",
    "lora_jailbreak_classifier_roberta_model",
    "lora_jailbreak_classifier_modernbert_model",
    "jailbreak_classifier_modernbert-base_model",
)
"""Names of directories, the preferred first (published proposal, 4.1.4)."""

_HARMLESS = frozenset(
    {
        "benign",
        "safe",
        "normal",
        "legitimate",
        "no_jailbreak",
        "not_jailbreak",
        "none",
        "harmless",
        "negative",
    }
)


def published_models(models: Path) -> list[Path]:
    """Directories in `models` that judge attacks: published names first, then others that look like it."""
    found = [models / name for name in PUBLISHED if (models / name).is_dir()]
    other = discover(models).get("jailbreak")
    if other is not None and other.path not in found:
        found.append(other.path)
    return found


class UnusableLabels(EncoderError):
    """A classifier of which nobody can say which labels mean an attack."""


class ModelsReader:
    """The first of several classifiers that can be loaded, else another reader. Belongs to one event loop."""

    def __init__(
        self,
        encoders: EncoderService,
        paths: Sequence[Path],
        otherwise: Reader,
        mapping: Path | None = None,
    ) -> None:
        """`mapping`: the labels of the first, where they do not lie beside it."""
        self._models: list[ClassifierOnUse[SequenceReading]] = [
            ClassifierOnUse(encoders, path, load_sequence_classifier, mapping if at == 0 else None)
            for at, path in enumerate(paths)
        ]
        self._otherwise = otherwise
        self._failures: dict[Path, str] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `Reader`."""
        for model in self._models:
            if model.loaded is not None and model.path not in self._failures:
                return tuple(label for label in model.loaded.labels if not _is_harmless(label))
        return self._otherwise.kinds

    async def read(self, text: str, hits: Mapping[str, float]) -> Reading:
        """See `Reader`."""
        for model in self._models:
            if model.path in self._failures:
                continue
            try:
                return _reading(model.path, await model.read(text))
            except EncoderBusy:
                raise
            except EncoderError as error:
                if model.loaded is not None and not isinstance(error, UnusableLabels):
                    raise
                self._failures[model.path] = str(error)
                log.error("%s judges no attacks, the next in line does: %s", model.path, error)
        return await self._otherwise.read(text, hits)

    def describe(self) -> dict[str, object]:
        """See `Reader`."""
        usable = [str(model.path) for model in self._models if model.path not in self._failures]
        failed = {str(path): why for path, why in self._failures.items()}
        told: dict[str, object] = {"reads": usable[0]} if usable else dict(self._otherwise.describe())
        return told | ({"skipped": failed} if failed else {})


def _reading(path: Path, reading: SequenceReading) -> Reading:
    harmful = [index for index, label in enumerate(reading.labels) if not _is_harmless(label)]
    if len(harmful) in (0, len(reading.labels)):
        raise UnusableLabels(
            f"{path}: of the labels {', '.join(reading.labels)} one must mean harmless "
            f"({', '.join(sorted(_HARMLESS))}), and another not"
        )
    risk = float(reading.windows[:, harmful].sum(axis=1).max())
    most = reading.most
    kinds = {reading.labels[index]: float(most[index]) for index in harmful}
    return Reading(min(risk, 1.0), kinds, len(reading.windows))


def _is_harmless(label: str) -> bool:
    return label.lower().replace("-", "_").replace(" ", "_") in _HARMLESS

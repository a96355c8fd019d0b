"""Who finds personal data and who judges attacks, as it is configured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radixway.config import Config, EncodersSection
from radixway.pipeline import PersonalData, PersonalDataFinder

if TYPE_CHECKING:
    from radixway.config.semantic import SemanticSection
    from radixway.encoders import EncoderService
    from radixway.guard.scan import TurnsJudge

_MODELS = Path("models")
"""Where published models are looked for if `prompt_guard` or `pii_model` name none that is here."""

Given = tuple[Path | None, Path | None]
"""A classifier's directory, and its labels where they do not lie in it."""


def open_judge(config: Config, semantic: SemanticSection | None, encoders: EncoderService) -> TurnsJudge:
    """A classifier of one's own, one that lies where such are looked for, or the shipped head."""
    from radixway.guard import jailbreak

    section = config.guard.jailbreak
    path, mapping = section.model, None
    if path is None and semantic is not None and semantic.prompt_guard is not None:
        classic = semantic.prompt_guard
        path, mapping = _named(classic.model_id, classic.jailbreak_mapping_path)
    threshold = section.threshold
    if (
        semantic is not None
        and semantic.prompt_guard is not None
        and "threshold" not in section.model_fields_set
    ):
        threshold = semantic.prompt_guard.threshold
    return jailbreak.open_judge(
        encoders,
        threshold=threshold,
        model=path,
        mapping=mapping,
        models_dir=section.models_dir or _folder(config.encoders, semantic),
    )


def open_finder(
    config: Config, semantic: SemanticSection | None, encoders: EncoderService
) -> PersonalDataFinder:
    """What ships, with a token classifier in place of its head where there is one."""
    section = config.guard.pii
    threshold = section.threshold
    if semantic is not None and "threshold" not in section.model_fields_set:
        threshold = semantic.classifier.pii_model.threshold
    return Structured(threshold)


class Structured:
    """A `pipeline.PersonalDataFinder` by patterns and check digits alone."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    @property
    def types(self) -> tuple[str, ...]:
        """See `PersonalDataFinder`."""
        from radixway.guard.pii.recognisers import STRUCTURED_TYPES

        return tuple(STRUCTURED_TYPES)

    async def find(self, text: str) -> Sequence[PersonalData]:
        """See `PersonalDataFinder`."""
        from radixway.guard.pii.recognisers import find_structured

        return find_structured(text)


def _named(model_id: str, mapping: str | None) -> Given:
    from radixway.config.semantic import on_this_machine

    return on_this_machine(model_id, mapping)


def _folder(encoders: EncodersSection, semantic: SemanticSection | None) -> Path | None:
    """Where published models are looked for: `encoders.classifiers`, and `models/` of a classic gateway."""
    if encoders.classifiers is not None:
        return encoders.classifiers
    return _MODELS if semantic is not None and semantic.prompt_guard is not None else None

"""Builds the personal data finder and the attack judge from the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from radixway.core.config import Config, ConfigError, EncodersConfig
from radixway.core.pipeline import PersonalDataFinder

if TYPE_CHECKING:
    from radixway.core.config.semantic import SemanticConfig
    from radixway.semantics.encoders import EncoderService
    from radixway.semantics.guard.text_scanner import ConversationJudge

_MODELS = Path("models")
"""Where published models are looked for if `prompt_guard` or `pii_model` name none that is here."""

Given = tuple[Path | None, Path | None]
"""A classifier's directory, and its labels where they do not lie in it."""


def build_judge(
    config: Config, semantic: SemanticConfig | None, encoders: EncoderService
) -> ConversationJudge:
    """A classifier of one's own, one that lies where such are looked for, or the shipped head."""
    from radixway.semantics.guard import jailbreak

    section = config.guard.jailbreak
    path, mapping = _existing_directory(section.model, "guard.jailbreak.model"), None
    if path is None and semantic is not None and semantic.prompt_guard is not None:
        classic = semantic.prompt_guard
        path, mapping = _classifier_source(classic.model_id, classic.jailbreak_mapping_path)
    threshold = section.threshold
    if (
        semantic is not None
        and semantic.prompt_guard is not None
        and "threshold" not in section.model_fields_set
    ):
        threshold = semantic.prompt_guard.threshold
    return jailbreak.build_attack_judge(
        encoders,
        threshold=threshold,
        model=path,
        mapping=mapping,
        models_dir=section.models_dir or _models_folder(config.encoders, semantic),
        in_part_from=config.guard.long_texts.fast_from_characters,
    )


def build_finder(
    config: Config, semantic: SemanticConfig | None, encoders: EncoderService
) -> PersonalDataFinder:
    """What ships, with a token classifier in place of its head where there is one."""
    from radixway.semantics.encoders.classifiers import discover_classifiers
    from radixway.semantics.guard.pii.finder import DefaultPersonalDataFinder

    section = config.guard.pii
    path, mapping = _existing_directory(section.model, "guard.pii.model"), None
    threshold = section.threshold
    if semantic is not None:
        classic = semantic.classifier.pii_model
        if path is None:
            path, mapping = _classifier_source(classic.model_id, classic.pii_mapping_path)
        if "threshold" not in section.model_fields_set:
            threshold = classic.threshold
    folder = _models_folder(config.encoders, semantic)
    if path is None and folder is not None and (found := discover_classifiers(folder).get("pii")) is not None:
        path = found.path
    fast_from = config.guard.long_texts.fast_from_characters
    return DefaultPersonalDataFinder(
        encoders, model=path, mapping=mapping, threshold=threshold, in_part_from=fast_from
    )


def _existing_directory(path: Path | None, key: str) -> Path | None:
    """Raises ConfigError for a directory that is not there."""
    if path is not None and not path.expanduser().is_dir():
        raise ConfigError(f"{key}: there is no directory {path}")
    return None if path is None else path.expanduser()


def _classifier_source(model_id: str, mapping: str | None) -> Given:
    from radixway.core.config.semantic import local_model_paths

    return local_model_paths(model_id, mapping)


def _models_folder(encoders: EncodersConfig, semantic: SemanticConfig | None) -> Path | None:
    """Where published models are looked for: `encoders.classifiers`, and `models/` of a classic gateway."""
    if encoders.classifiers is not None:
        return encoders.classifiers
    return _MODELS if semantic is not None and semantic.prompt_guard is not None else None

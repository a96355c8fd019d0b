"""Builds the personal data finder and the attack judge from the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from radixway.core.config import Config, ConfigError
from radixway.core.pipeline import PersonalDataFinder

if TYPE_CHECKING:
    from radixway.core.config.semantic import SemanticConfig
    from radixway.semantics.encoders import EncoderService
    from radixway.semantics.guard.jailbreak import DefaultAttackJudge

_CLASSIC_MODELS = Path("models")
"""The folder of published models if `prompt_guard` or `pii_model` name none that is here."""


def build_judge(
    config: Config, semantic: SemanticConfig | None, encoders: EncoderService
) -> DefaultAttackJudge:
    """Build a judge with the configured classifier, one from the models' folder, or the shipped head.

    `semantic`: the classic section, whose `prompt_guard` counts where `config.guard` says nothing. Raises
    ConfigError for a directory that is not there.
    """
    from radixway.semantics.guard.jailbreak import build_attack_judge

    section = config.guard.jailbreak
    path, mapping = _existing_directory(section.model, "guard.jailbreak.model"), None
    threshold = section.threshold
    if semantic is not None and (classic := semantic.prompt_guard) is not None:
        if path is None:
            path, mapping = _classifier_source(classic.model_id, classic.jailbreak_mapping_path)
        if "threshold" not in section.model_fields_set:
            threshold = classic.threshold
    return build_attack_judge(
        encoders,
        threshold=threshold,
        model=path,
        mapping=mapping,
        models_dir=section.models_dir or _models_folder(config, semantic),
        in_part_from=config.guard.long_texts.fast_from_characters,
    )


def build_finder(
    config: Config, semantic: SemanticConfig | None, encoders: EncoderService
) -> PersonalDataFinder:
    """Build the finder that ships, with a token classifier in place of its head where there is one.

    `semantic`: the classic section, whose `pii_model` counts where `config.guard` says nothing. Raises
    ConfigError for a directory that is not there.
    """
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
    folder = _models_folder(config, semantic)
    if path is None and folder is not None and (found := discover_classifiers(folder).get("pii")) is not None:
        path = found.path
    fast_from = config.guard.long_texts.fast_from_characters
    return DefaultPersonalDataFinder(
        encoders, model=path, mapping=mapping, threshold=threshold, in_part_from=fast_from
    )


def _existing_directory(path: Path | None, key: str) -> Path | None:
    if path is None:
        return None
    if not path.expanduser().is_dir():
        raise ConfigError(f"{key}: there is no directory {path}")
    return path.expanduser()


def _classifier_source(model_id: str, mapping: str | None) -> tuple[Path | None, Path | None]:
    from radixway.core.config.semantic import local_model_paths

    return local_model_paths(model_id, mapping)


def _models_folder(config: Config, semantic: SemanticConfig | None) -> Path | None:
    """Return the folder of published models: `encoders.classifiers`, and `models/` of a classic gateway."""
    if config.encoders.classifiers is not None:
        return config.encoders.classifiers
    return _CLASSIC_MODELS if semantic is not None and semantic.prompt_guard is not None else None

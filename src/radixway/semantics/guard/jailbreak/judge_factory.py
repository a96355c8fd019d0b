"""The judge as it is configured: a classifier by path, one of those found in a folder, or what ships."""

from __future__ import annotations

from pathlib import Path

from radixway.semantics.encoders import EncoderService
from radixway.semantics.guard.jailbreak.attack_judge import THRESHOLD, DefaultAttackJudge
from radixway.semantics.guard.jailbreak.classifier_reader import ClassifierReader, published_models
from radixway.semantics.guard.jailbreak.head_reader import HeadReader


def build_attack_judge(
    encoders: EncoderService,
    *,
    threshold: float = THRESHOLD,
    model: Path | None = None,
    mapping: Path | None = None,
    models_dir: Path | None = None,
    judges_system: bool = False,
    in_part_from: int | None = None,
) -> DefaultAttackJudge:
    """`model`: a sequence classifier's directory, with its labels in `mapping` where they do not lie in it.

    Without it the preferred one in `models_dir` reads, if there is one, else the shipped head. Known wordings
    are looked for in either case. What cannot be loaded is told in the log and in
    `DefaultAttackJudge.describe`.
    `in_part_from`: see `HeadReader`.
    """
    paths = [model] if model is not None else published_models(models_dir) if models_dir is not None else []
    reader = HeadReader(encoders, in_part_from=in_part_from)
    shipped = DefaultAttackJudge(encoders, threshold=threshold, reader=reader, judges_system=judges_system)
    if paths:
        shipped.reader = ClassifierReader(encoders, paths, shipped.reader, mapping)
    return shipped

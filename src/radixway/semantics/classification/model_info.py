"""What judges texts here, and what of it runs: facts only; classifiers are not loaded for them."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from radixway.core.pipeline import AttackJudge, PersonalDataFinder
from radixway.semantics.classification.service import ClassificationService
from radixway.semantics.classification.tasks import ClassificationTasks
from radixway.semantics.decisions.rule_compiler import collect_categories
from radixway.semantics.decisions.snapshot import SemanticSnapshot

Told = dict[str, Any]


def describe_models(room: ClassificationService) -> Told:
    """`/info/models`: every model with whether it is loaded, and the process."""
    return {
        "models": [
            _describe_domain_model(room),
            _describe_pii_model(room),
            _describe_jailbreak_model(room),
            _describe_encoder(room),
        ],
        "system": {
            "python_version": platform.python_version(),
            "architecture": platform.machine(),
            "os": sys.platform,
            "memory_usage": _process_memory(),
        },
    }


def describe_classifier(tasks: ClassificationTasks) -> Told:
    """`/info/classifier`: what can be asked, in which categories, and how long it took so far."""
    room = tasks.room
    snapshot = room.snapshot
    section = snapshot.section
    return {
        "status": "active" if room.encoders.failure is None else "unavailable",
        "capabilities": _capabilities(room),
        "categories": [
            {
                "name": each.name,
                "description": each.description,
                "mmlu_categories": list(each.labels()),
                "threshold": section.classifier.category_model.threshold,
            }
            for each in collect_categories(section)
        ],
        "decisions": _describe_decisions(snapshot),
        "pii_types": list(room.finder.types) if room.finder is not None else [],
        "security": {
            "jailbreak_detection": room.judge is not None,
            "detection_types": list(room.judge.kinds) if room.judge is not None else [],
            "enabled": room.judge is not None,
        },
        "performance": {
            "average_latency_ms": tasks.spent_s / tasks.answered * 1e3 if tasks.answered else None,
            "requests_handled": tasks.answered,
        },
        "configuration": {
            "category_threshold": section.classifier.category_model.threshold,
            "pii_threshold": room.finder.threshold if room.finder is not None else None,
            "jailbreak_threshold": room.judge.threshold if room.judge is not None else None,
            "similarity_threshold": section.bert_model.threshold,
            "max_batch_size": section.api.batch_classification.max_batch_size,
        },
    }


def _capabilities(room: ClassificationService) -> list[str]:
    can = {
        "intent_classification": "domain" in room.snapshot.detectors,
        "pii_detection": _is_available(room, room.finder),
        "security_detection": _is_available(room, room.judge),
        "similarity_matching": room.encoders.failure is None,
    }
    return [name for name, there in can.items() if there]


def _is_available(room: ClassificationService, guard: PersonalDataFinder | AttackJudge | None) -> bool:
    failure = guard.failure if isinstance(guard, _LocatedModel) else None
    return guard is not None and room.encoders.failure is None and failure is None


def _describe_decisions(snapshot: SemanticSnapshot) -> list[Told]:
    return [
        {
            "name": each.name,
            "description": each.description,
            "priority": each.priority,
            "reasoning_enabled": any(ref.use_reasoning for ref in each.model_refs),
        }
        for each in snapshot.section.decisions
    ]


def _describe_domain_model(room: ClassificationService) -> Told:
    section = room.snapshot.section
    told = _model_entry("category_classifier", "intent_classification", "domain" in room.snapshot.detectors)
    return told | {
        "model_path": _domain_path(room),
        "categories": [each.name for each in collect_categories(section)],
        "metadata": {"threshold": f"{section.classifier.category_model.threshold:.2f}"},
    }


def _domain_path(room: ClassificationService) -> str:
    from radixway.semantics.encoders.classifiers.category_head import CategoryEncoder

    encoder = room.encoders.encoder
    return encoder.path.name if isinstance(encoder, CategoryEncoder) else "bundled/heads/domain.npz"


@runtime_checkable
class _LocatedModel(Protocol):
    """A finder or judge that says what it reads with."""

    @property
    def path(self) -> Path | None: ...

    @property
    def failure(self) -> str | None: ...


def _describe_pii_model(room: ClassificationService) -> Told:
    return _describe_guard_model("pii_classifier", "pii_detection", room.finder)


def _describe_jailbreak_model(room: ClassificationService) -> Told:
    return _describe_guard_model("jailbreak_classifier", "security_detection", room.judge)


def _describe_guard_model(name: str, kind: str, guard: PersonalDataFinder | AttackJudge | None) -> Told:
    if guard is None:
        return _model_entry(name, kind, loaded=False) | {"metadata": {"status": "not configured"}}
    path, failure = (guard.path, guard.failure) if isinstance(guard, _LocatedModel) else (None, None)
    told = _model_entry(name, kind, failure is None, path, failure)
    return told | {"metadata": {"threshold": f"{guard.threshold:.2f}"}}


def _describe_encoder(room: ClassificationService) -> Told:
    encoder = room.encoders.encoder
    told = _model_entry("sentence_encoder", "similarity", encoder is not None, failure=room.encoders.failure)
    if encoder is None:
        return told
    return told | {"model_path": encoder.id, "metadata": {"dimension": str(encoder.size)}}


def _model_entry(
    name: str, kind: str, loaded: bool, path: Path | None = None, failure: str | None = None
) -> Told:
    told: Told = {"name": name, "type": kind, "loaded": loaded}
    if path is not None:
        told["model_path"] = path.name
    if failure is not None:
        told["error"] = failure
    return told


def _process_memory() -> str | None:
    """What the process has in memory now, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return f"{pages * resource.getpagesize() / 1e6:.2f} MB"
